"""Torture the commands and the readers (`make torture`): kills, faults, mutated files, determinism.

Everything is tried in throw-away folders on small models; the table goes to --out, with what went wrong
below it. The whole takes hours; --kills 2 --mutations 500 --signals 1 is a quick look.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from determinism import determinism
from faults import faults
from jobs import HERE, JOBS, last, shared
from kills import kills
from outcome import Outcome, machine, table

from dualsolver.files import write_whole

PARTS = ("kills", "faults", "mutations", "determinism")
ABOUT = """# Torture

By `make torture` ({command}) on {machine}. A kill or a signal comes at a random point of a small run of a
command; the same command again then ends in the same bytes as a run that nobody disturbed, every file
compared. Work is evaluations of networks, and examples seen in a training of the zoo. A mutated file is read
as it should be, or refused in one line that names the file or the field; it is watched for paths and
addresses that it opens, code that it runs, {seconds} seconds and 64 MB.

"""


def mutations(place: Path, count: int, seed: int) -> Iterator[Outcome]:
    """Read mutated files in a process of its own: a crash is an outcome, too."""
    line = [sys.executable, str(HERE / "reading.py"), str(place / "mutated"), str(place / "shared" / "dit")]
    process = subprocess.Popen(
        [*line, str(count), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for row in process.stdout:
        yield Outcome(*json.loads(row))
    _, errors = process.communicate()
    if process.returncode:
        yield Outcome("mutated files", f"the reader ended with {process.returncode}: {last(errors)}")


def tortured(chosen: argparse.Namespace, place: Path) -> Iterator[Outcome]:
    """Everything that was chosen."""
    shared(place / "shared")
    for job in chosen.jobs if "kills" in chosen.parts else ():
        yield from kills(job, chosen.kills, chosen.seed, place, place / "shared")
    if "faults" in chosen.parts:
        yield from faults(chosen.jobs, chosen.signals, chosen.seed, place, place / "shared")
    if "mutations" in chosen.parts:
        yield from mutations(place, chosen.mutations, chosen.seed)
    if "determinism" in chosen.parts:
        yield from determinism(place, place / "shared", chosen.compile)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    one = parser.add_argument
    one("--kills", type=int, default=20, help="of each job (20)")
    one("--mutations", type=int, default=10_000, help="of all kinds of files together (10000)")
    one("--signals", type=int, default=20, help="of each of two signals and each job (20)")
    one("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    one("--parts", nargs="+", choices=PARTS, default=PARTS)
    one("--compile", action=argparse.BooleanOptionalAction, default=True, help="try torch.compile, too")
    one("--seed", type=int, default=0)
    one("--out", type=Path, default=Path("docs/measured/torture.md"))
    chosen = parser.parse_args()
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="torture-") as place:
        Path(place).chmod(0o755)  # for nobody, who must not write there
        for outcome in tortured(chosen, Path(place)):
            found.append(outcome)
            if outcome.wrong or not outcome.check.startswith("mutated"):
                said = f"skipped, {outcome.skipped}" if outcome.skipped else outcome.wrong or "held"
                print(f"{outcome.check}: {said}", flush=True)
    words = " ".join(["scripts/torture", *sys.argv[1:]])
    page = ABOUT.format(command=f"`{words}`", machine=machine(), seconds=20) + table(found)
    wrong = [one for one in found if one.wrong]
    page += "".join(f"\n- {one.check}: {one.wrong}" for one in wrong) + "\n" * bool(wrong)
    write_whole(chosen.out, page)
    print(f"{table(found)}\n{chosen.out}: {len(wrong)} of {len(found)} went wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
