"""The HTML report of a comparison: one file with everything in it, for any browser, with no network.

page.html is the skeleton, style.css its looks; the scripts build the rest from the data that is put in.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..cells import Cell
from ..compare import Comparison, better, heading
from ..images import png_path
from ..plot import panels
from ..solvers.base import Fixed

SCRIPTS = ("base.js", "samples.js", "charts.js", "tables.js", "main.js")
OF_ALL = ("backbone", "schedule", "weights", "guidance", "count", "batch", "seed", "items", "networks")
OF_ALL += ("references", "real", "dtype", "device", "version", "torch", "command")


def page(found: Comparison, cells: Sequence[Cell], show: int) -> str:
    """Return the report of a comparison with the first `show` samples of every cell."""
    data = json.dumps(_data(found, cells, show)).replace("</", "<\\/")  # the end of a script is found first
    parts = {
        "TITLE": escape(f"{found.results[0]['backbone']}: {', '.join(found.solvers)}"),
        "STYLE": _file("style.css"),
        "DATA": data,
        "SCRIPT": "\n".join(_file(name) for name in SCRIPTS),
    }
    text = _file("page.html")
    for name, part in parts.items():
        before, _, after = text.partition("{{" + name + "}}")
        text = before + part + after
    return text


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _data(found: Comparison, cells: Sequence[Cell], show: int) -> dict[str, Any]:
    first, labels = found.results[0], cells[0].sampling.asked(show)
    return {
        "backbone": first["backbone"],
        "facts": {name: first[name] for name in OF_ALL},
        "nfes": found.nfes,
        "metrics": [{"key": m, "title": heading(m), "better": better(m)} for m in found.metrics],
        "labels": [str(label) for label in labels],
        "solvers": [_solver(name, [c for c in cells if c.name == name], found, show) for name in found.solvers],
    }


def _solver(name: str, cells: Sequence[Cell], found: Comparison, show: int) -> dict[str, Any]:
    results = {r["nfe"]: r for r in found.results if r["solver"] == name}
    learned, last = results[cells[0].solver.nfe]["learned"], cells[-1].solver
    return {
        "name": name,
        "kind": type(last).__name__,
        "learned": learned,
        "options": {k: v for k, v in last.values().items() if not isinstance(v, list | dict) and k != "nfe"},
        "panels": {} if isinstance(last, Fixed) else panels([cell.solver for cell in cells]),
        "cells": {
            cell.solver.nfe: {
                "figures": {metric: results[cell.solver.nfe]["figures"][metric] for metric in found.metrics},
                "images": _images(cell.folder, show),
                "interpolated": bool(learned) and cell.solver.nfe not in learned["nfes"],
            }
            for cell in cells
        },
    }


def _images(folder: Path, show: int) -> list[str]:
    """The PNG files themselves, as they were stored."""
    return [b64encode(png_path(folder, i).read_bytes()).decode() for i in range(show)]
