"""The paper's own numbers, from paper.toml, in the form that measured ones have."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .found import Found


class Published(NamedTuple):
    """A table of the paper: its label, what it shows, the kind of its backbone, and its numbers."""

    label: str
    caption: str
    backbone: str
    found: Found


def published(labels: Sequence[str], kind: str) -> Published | None:
    """Return the table for this kind of backbone, else the first of those named, if any is.

    >>> published(["dit_fid", "gmdit_fid"], "gmdit").found.mean("frechet", "DDIM", "3")
    70.15
    """
    own = [label for label in labels if _tables()[label]["backbone"] == kind]
    return _read([*own, *labels][0]) if labels else None


def _read(label: str) -> Published:
    head, found = dict(_tables()[label]), Found()
    caption, backbone, columns = (head.pop(name) for name in ("caption", "backbone", "columns"))
    for metric, rows in head.items():
        for row, values in rows.items():
            pairs = zip(columns, values, strict=True) if isinstance(values, list) else [("", values)]
            for column, value in pairs:
                found.add(metric, row, column, value)
    return Published(label, caption, backbone, found)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("paper.toml").read_text())
