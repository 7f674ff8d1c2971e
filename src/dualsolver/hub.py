"""Things by folder or hub id (OWNER/NAME): what goes wrong is one line."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .extras import needs
from .parameters import NAME, is_fixed
from .solvers import SOLVERS

T = TypeVar("T")


def loaded(source: str, part: str, read: Callable[[], T]) -> T:
    """Run `read`, which looks for a part of `source` in its folder or on the hub."""
    here, what = Path(source).exists(), f"cannot load {part or 'the index'} of {source}"
    if not (here or is_id(source)):
        raise ValueError(f"{what}: no folder of that name, and no hub id (OWNER/NAME)")
    try:
        with _told_once():
            return read()
    except Exception as error:  # configs and files can be wrong in every way that diffusers does not expect
        where = "" if here else f"no folder {source}, and the hub gives none (offline?): "
        known = isinstance(error, OSError | ValueError | RuntimeError | ImportError) and str(error).strip()
        reason = (str(error) if known else f"{type(error).__name__} {error}").strip().splitlines()[0]
        raise ValueError(f"{what}: {where}{reason}") from None


def artifact(name: str) -> Path:
    """Return the file of a learned solver: in a folder, by itself, or from the hub."""
    path = Path(name)
    if path.exists():
        return path / NAME if path.is_dir() else path
    if name in SOLVERS:
        raise ValueError(f"{name} is learned: give the folder that holds its values")
    if not is_id(name):
        fixed = ", ".join(name for name, kind in SOLVERS.items() if is_fixed(kind))
        raise ValueError(f"no folder {name} of a learned solver, and no fixed solver of that name: {fixed}")
    with needs("diffusers"):
        from huggingface_hub import hf_hub_download
    return Path(loaded(name, "the solver", lambda: hf_hub_download(name, NAME)))


def is_id(name: str) -> bool:
    """Whether a name can be a hub id.

    >>> [is_id(name) for name in ("facebook/DiT-XL-2-256", "a/b/c", "/a/b", "./a", "fashion-dit")]
    [True, False, False, False, False]
    """
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None


@contextmanager
def _told_once() -> Iterator[None]:
    """Without the hub client's warnings, and its lines about each of its attempts."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="huggingface_hub")
            yield
    finally:
        logger.setLevel(before)
