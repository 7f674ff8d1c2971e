"""The shipped models: where they are, whether their bytes are the recorded ones, and loading them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from ..extras import needs
from ..files import write_whole
from .entries import ENTRIES, entry

WEIGHTS = Path(__file__).parent / "weights"
HASHES = "hashes.json"
HASHED = (".json", ".npz", ".safetensors")  # not cards, figures and logs, which nothing computes with


def names(kind: str | None = None) -> list[str]:
    """The names of the shipped models, of one kind or of all."""
    return [name for name, found in ENTRIES.items() if kind in (None, found.kind) and name in _hashes()]


def home(name: str) -> Path:
    """Where a model's files are, trained or not."""
    return WEIGHTS / (entry(name).folder or name)


def path(name: str) -> Path:
    """Return the folder of a shipped model, after checking every byte in it.

    >>> path("judge").name
    'judge'
    """
    folder = home(name)
    if name not in _hashes():
        raise ValueError(f"{name} is not trained yet: dual-solver zoo train {name}")
    for file in _hashes()[name]:
        check_bytes(name, file)
    return folder


def check_bytes(name: str, file: str) -> Path:
    """Return a file of the zoo if its bytes are the recorded ones."""
    where = _folder(name) / file
    if not where.exists():
        raise ValueError(f"{where} is missing: install dual-solver again")
    if _hash(where) != _hashes()[name][file]:
        raise ValueError(
            f"{where} is damaged (its sha256 is not the recorded one): install dual-solver again"
        )
    return where


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


def recorded(name: str) -> str:
    """One hash of all files of a model, from the hashes that are recorded of each."""
    return hashlib.sha256(json.dumps(_hashes().get(name, {}), sort_keys=True).encode()).hexdigest()


def remember(name: str) -> None:
    """Record the hashes of a model's files, after its training."""
    place = _folder(name)
    files = [
        file for file in sorted(place.rglob("*")) if file.suffix in HASHED and file.name != "figures.json"
    ]
    found = {str(file.relative_to(place)): _hash(file) for file in files}
    _hashes.cache_clear()  # another training may have ended since this one began
    table = dict(sorted((_hashes() | {name: found}).items()))
    write_whole(WEIGHTS / HASHES, json.dumps(table, indent=1) + "\n")
    _hashes.cache_clear()


def _folder(name: str) -> Path:
    return home(name) if name in ENTRIES else WEIGHTS / name


@cache
def _hashes() -> dict[str, dict[str, str]]:
    try:
        found: dict[str, dict[str, str]] = json.loads((WEIGHTS / HASHES).read_text())
    except FileNotFoundError:
        return {}
    return found


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
