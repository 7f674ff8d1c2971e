"""List the licences of all that is depended on and of all that is shipped; check the pins (`make licences`).

Dependencies are followed from pyproject.toml through what is installed. It fails for one without a licence or
without the pin in constraints.txt, and for a shipped folder that names none. With pip-audit installed and its
database in reach, known vulnerabilities of the pinned versions are looked up, too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from dualsolver.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "src/dualsolver/zoo/weights"
OURS = "dual-solver"
OWN = "Apache-2.0, ours"
UNSAID = {
    "cuda-toolkit": "none named: it holds nothing but the names of NVIDIA's packages, which name theirs"
}
FILES = {  # licences by what a file says, where a package's metadata names none
    "MIT": r"(?i)\bMIT License\b|Permission is hereby granted, free of charge",
    "BSD": r"Redistribution and use in source and binary forms",
    "Apache-2.0": r"Apache License,?\s+Version 2\.0",
    "NVIDIA": r"(?i)nvidia.*licen[sc]e agreement",
}
WITHOUT_CARD = {  # shipped folders that have no card of their own
    "emoji-captions": "Unicode-3.0 (LICENSE.txt beside them)",
    "statistics": f"{OWN}: means and covariances of features of Fashion-MNIST (MIT) and of the emoji",
}


class Row(NamedTuple):
    """A dependency: who needs it, its version, its pin and its licence."""

    name: str
    needed: str
    version: str
    pin: str
    licence: str


def normal(name: str) -> str:
    """A package's name as everybody writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted() -> dict[str, str]:
    """Every package that any extra leads to, and the first that does: core, then extras, then dev."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, str] = {}
    for group, requirements in groups.items():
        follow([Requirement(text) for text in requirements], group, found)
    return found


def follow(requirements: list[Requirement], group: str, found: dict[str, str]) -> None:
    """Add what these need on this machine, and what that needs."""
    for requirement in requirements:
        name = normal(requirement.name)
        if name == OURS or name in found:
            continue
        found[name] = group
        try:
            inner = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            continue
        extras = {"", *requirement.extras}
        follow([one for one in inner if applies(one, extras)], group, found)


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Whether a requirement holds here, for any of the extras that were asked for."""
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in extras)


def rows() -> Iterator[Row]:
    """A row for each dependency that is installed here; what is of another system is not."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pins = {normal(name): version for name, version in pins.items()}
    for name, group in sorted(wanted().items()):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            yield Row(name, group, "not installed", pins.get(name, ""), "")
            continue
        yield Row(name, group, found.version, pins.get(name, ""), licence(found))


def licence(found: Distribution) -> str:
    """What a package says of its licence: an expression, a classifier, a line, or a file that one knows."""
    about: Any = found.metadata
    said = about.get("License-Expression")
    classes = about.get_all("Classifier") or []
    named = [text.rpartition(" :: ")[2] for text in classes if text.startswith("License :: ")]
    named = [name for name in named if name != "OSI Approved"]
    first, *_ = (about.get("License") or "").replace("UNKNOWN", "").strip().splitlines() or [""]
    if said or named or 0 < len(first) < 60:
        return said or ", ".join(named) or first
    for file in found.files or ():
        if re.search(r"(?i)licen[sc]e|copying", file.name) and Path(str(file.locate())).is_file():
            text = Path(str(file.locate())).read_text(errors="replace")
            return next((name for name, words in FILES.items() if re.search(words, text)), "")
    return UNSAID.get(normal(found.name), "")


def shipped() -> Iterator[tuple[str, str, str]]:
    """What is in the package beside code: the folder, its licence, what it was made of."""
    for folder in sorted(path for path in WEIGHTS.iterdir() if path.is_dir()):
        card = folder / "README.md"
        text = card.read_text() if card.exists() else ""
        said = re.search(r"^license: (.+)$", text, re.MULTILINE)
        made = re.search(r"\non (.*?),? content of sha256|\non (.*?);", text, re.DOTALL)
        origin = " ".join((made.group(1) or made.group(2)).split()) if made else ""
        yield folder.name, said.group(1) if said else WITHOUT_CARD.get(folder.name, ""), origin


def page(found: list[Row]) -> str:
    """Both tables."""
    lines = [
        "# Licences",
        "",
        "By `make licences`: what was installed, with its pin, and what is shipped.",
        "",
    ]
    lines += ["| package | needed by | version | pinned | licence |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in found]
    lines += ["", "| shipped | licence | made of |", "|---|---|---|", f"| code, page and scripts | {OWN} | |"]
    lines += [f"| {name} | {said} | {origin} |" for name, said, origin in shipped()]
    return "\n".join(lines) + "\n"


def wrong(found: list[Row]) -> Iterator[str]:
    """What has to be mended."""
    for row in found:
        here = row.version != "not installed"
        if here and row.version.partition("+")[0] != row.pin:
            yield f"{row.name} {row.version} is pinned as {row.pin or 'nothing'}: repair constraints.txt"
        if here and not row.licence:
            yield f"{row.name} names no licence: look at its source"
    yield from (f"{name} is shipped without a licence" for name, said, _ in shipped() if not said)


def audit() -> str:
    """What pip-audit says of the pins."""
    if find_spec("pip_audit") is None:
        return "not audited for vulnerabilities: pip-audit is not installed"
    line = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", "constraints.txt"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip()


def main() -> None:
    """Write the page, say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/measured/licences.md")
    chosen = parser.parse_args()
    found = list(rows())
    write_whole(chosen.out, page(found))
    bad = list(wrong(found))
    print("\n".join([*bad, audit(), f"{chosen.out}: {len(found)} dependencies, {len(bad)} to mend"]))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
