"""Figures: learned parameters over the steps, and learning curves. They need matplotlib (extra `report`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from .extras import needs
from .files import write_whole
from .solvers import Solver


def parameters(solvers: Sequence[Solver], path: Path) -> Path:
    """Plot every list of real values over the steps, a line an NFE, predictor and corrector apart."""
    found = panels(solvers)
    figure, axes = _canvas(len(found), 4)
    for axis, (title, lines) in zip(axes, found.items(), strict=False):
        for nfe, values in lines.items():
            last = max(len(values) - 1, 1)
            axis.plot([i / last for i in range(len(values))], values, marker="o", ms=3, label=f"NFE {nfe}")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("share of the run", fontsize=8)
    return _saved(figure, axes, path)


def curves(
    runs: Mapping[str, Sequence[tuple[float, float]]], path: Path, x: str, y: str, log: bool = False
) -> Path:
    """Plot named curves of (x, y) points into one panel, on logarithmic axes if need be."""
    figure, axes = _canvas(1, 1, 6.0)
    for name, points in runs.items():
        axes[0].plot(*zip(*points, strict=True), marker="o", ms=3, label=name)
    if log:
        axes[0].loglog()
    axes[0].set_xlabel(x)
    axes[0].set_ylabel(y)
    return _saved(figure, axes, path)


def comparison(charts: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]], path: Path) -> Path:
    """Plot a panel a metric, a curve a solver: points (NFE, value, standard error)."""
    figure, axes = _canvas(len(charts), 2, 4.0)
    for axis, (title, lines) in zip(axes, charts.items(), strict=True):
        for name, points in lines.items():
            x, y, error = zip(*points, strict=True)
            axis.errorbar(x, y, error, marker="o", ms=3, capsize=2, label=name)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("evaluations of the network", fontsize=8)
    return _saved(figure, axes, path)


def panels(solvers: Sequence[Solver]) -> dict[str, dict[int, list[float]]]:
    """Title -> NFE -> values; what is not a list of numbers has no curve."""
    found: dict[str, dict[int, list[float]]] = {}
    for solver in solvers:
        for name, value in solver.values().items():
            lists = (
                {f"{name}: {k}": v for k, v in value.items()} if isinstance(value, Mapping) else {name: value}
            )
            for title, numbers in lists.items():
                if isinstance(numbers, list) and numbers and not isinstance(numbers[0], list):
                    found.setdefault(title, {})[solver.nfe] = numbers
    return found


def _canvas(count: int, columns: int, size: float = 2.6) -> tuple[Any, list[Any]]:
    with needs("report"):
        from matplotlib.figure import Figure
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(size * 1.25 * columns, size * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
    return figure, axes


def _saved(figure: Any, axes: Sequence[Any], path: Path) -> Path:
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
    axes[0].legend(fontsize=7)
    buffer = BytesIO()
    figure.savefig(buffer, format=path.suffix.removeprefix(".") or "png", dpi=130)
    write_whole(path, buffer.getvalue())
    return path
