"""The shipped models: where they are, whether their bytes are the recorded ones, and loading them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from ..extras import needs
from ..files import write_whole
from .entries import entry

WEIGHTS = Path(__file__).parent / "weights"
HASHES = "hashes.json"


def recorded(name: str) -> str:
    """One hash of all files of a model, from the hashes that are recorded of each."""
    return hashlib.sha256(json.dumps(_hashes().get(name, {}), sort_keys=True).encode()).hexdigest()


def path(name: str) -> Path:
    """Return the folder of a shipped model, after checking every byte in it.

    >>> path("judge").name
    'judge'
    """
    entry(name)
    folder = WEIGHTS / name
    if name not in _hashes():
        raise ValueError(f"{name} is not trained yet: dual-solver zoo train {name}")
    for file, expected in _hashes()[name].items():
        where = folder / file
        if not where.exists():
            raise ValueError(f"{where} is missing: install dual-solver again")
        if _hash(where) != expected:
            raise ValueError(
                f"{where} is damaged (its sha256 is not the recorded one): install dual-solver again"
            )
    return folder


def load(name: str) -> Any:
    """Load a shipped model, frozen and in evaluation mode, with no network and no dataset.

    A classifier comes as a module with `features`, the autoencoder as diffusers' `AutoencoderKL`, a
    generator as a `Backbone`.
    """
    kind, folder = entry(name).kind, path(name)
    with needs("diffusers"):
        import safetensors  # noqa: F401
    if kind == "classifier":
        from .classifiers import load as load_classifier

        return load_classifier(folder)
    with needs("diffusers"):
        from diffusers import AutoencoderKL
    if kind == "autoencoder":
        return AutoencoderKL.from_pretrained(folder).float().eval().requires_grad_(False)
    from ..backbones import load as load_backbone

    return load_backbone(folder, kind)


def names(kind: str | None = None, shipped: bool = True) -> list[str]:
    """The names in the zoo, of one kind or of all; `shipped` leaves out what is not trained."""
    from .entries import ENTRIES

    return [
        name
        for name, found in ENTRIES.items()
        if kind in (None, found.kind) and (not shipped or name in _hashes())
    ]


def remember(name: str, folder: Path | None = None) -> None:
    """Record the hashes of a model's files after training: its configs and weights, not its card."""
    place = folder or WEIGHTS / name
    files = [
        f
        for f in sorted(place.rglob("*"))
        if f.suffix in (".json", ".safetensors") and f.name != "figures.json"
    ]
    found = {str(f.relative_to(place)): _hash(f) for f in files}
    table = dict(sorted((_hashes() | {name: found}).items()))
    write_whole(WEIGHTS / HASHES, json.dumps(table, indent=1) + "\n")
    _hashes.cache_clear()


@cache
def _hashes() -> dict[str, dict[str, str]]:
    try:
        found: dict[str, dict[str, str]] = json.loads((WEIGHTS / HASHES).read_text())
    except FileNotFoundError:
        return {}
    return found


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
