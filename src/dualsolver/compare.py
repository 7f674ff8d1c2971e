"""A comparison: the results of cells as one table, for a terminal, as CSV and in Markdown, and as curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .tally import Estimate

TITLES = {
    "frechet (inception)": "FID",
    "frechet (inception, spatial)": "sFID",
    "frechet": "Fréchet distance",
    "clip score": "CLIP score",
}
LOWER, HIGHER = ("frechet",), ("clip score", "accuracy", "precision", "recall")
DASH = "–"


@dataclass(frozen=True)
class Comparison:
    """The results of the same images by several solvers at several NFEs; not every pair needs to be there."""

    results: Sequence[dict[str, Any]]

    @property
    def solvers(self) -> list[str]:
        """Their names, in the order given."""
        return list(dict.fromkeys(result["solver"] for result in self.results))

    @property
    def nfes(self) -> list[int]:
        """All NFEs."""
        return sorted({result["nfe"] for result in self.results})

    @property
    def metrics(self) -> list[str]:
        """What all results have a figure with a standard error of."""
        first, *rest = [result["figures"] for result in self.results]
        return [
            name for name in first if isinstance(first[name], list | tuple) and all(name in r for r in rest)
        ]

    def figure(self, metric: str, solver: str, nfe: int) -> Estimate | None:
        """One figure with its standard error."""
        for result in self.results:
            if (result["solver"], result["nfe"]) == (solver, nfe):
                value, error = result["figures"][metric]
                return value, error
        return None

    def best(self, metric: str, nfe: int) -> set[str]:
        """The solvers with the best figure, if less or more is better."""
        found = {s: f[0] for s in self.solvers if (f := self.figure(metric, s, nfe)) is not None}
        choose = {"lower": min, "higher": max}.get(better(metric))
        if choose is None or not found:
            return set()
        wanted = choose(found.values())
        return {solver for solver, value in found.items() if value == wanted}

    def curves(self, metric: str) -> dict[str, list[tuple[float, float, float]]]:
        """Solver -> (NFE, figure, standard error)."""
        return {
            solver: [(nfe, f[0], f[1] or 0.0) for nfe in self.nfes if (f := self.figure(metric, solver, nfe))]
            for solver in self.solvers
        }


def better(metric: str) -> str:
    """Whether "lower" or "higher" is better, or "" if neither.

    >>> better("frechet (judge)"), better("recall (judge)"), better("pixel mean")
    ('lower', 'higher', '')
    """
    return "lower" if metric.startswith(LOWER) else "higher" if metric.startswith(HIGHER) else ""


def title(metric: str) -> str:
    """The name of a metric for people.

    >>> title("frechet (inception)"), title("frechet (judge)"), title("recall (judge)")
    ('FID', 'Fréchet distance (judge)', 'Recall (judge)')
    """
    name, bracket, network = metric.partition(" (")
    return TITLES.get(metric) or TITLES.get(name, name.capitalize()) + bracket + network


def shown(value: float, error: float | None = None) -> str:
    """Four digits of a figure, and its standard error.

    >>> shown(12.3456, 0.0712), shown(0.5)
    ('12.35 ± 0.071', '0.5')
    """
    return f"{value:.4g}" + ("" if error is None else f" ± {error:.2g}")


def to_csv(found: Comparison) -> str:
    """Every figure in a line of its own."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("solver", "nfe", "metric", "value", "standard_error"))
    for result in found.results:
        for metric in found.metrics:
            writer.writerow((result["solver"], result["nfe"], metric, *result["figures"][metric]))
    return buffer.getvalue()


def to_markdown(found: Comparison) -> str:
    """A table of solvers by NFE for each metric, the best in bold."""
    first = found.results[0]
    lines = [f"# {first['backbone']}: {first['count']} images, guidance {first['guidance']:g}"]
    for metric in found.metrics:
        lines += ["", heading(metric), "", "| NFE | " + " | ".join(map(str, found.nfes)) + " |"]
        lines += ["|---" * (1 + len(found.nfes)) + "|"]
        for solver in found.solvers:
            lines.append(f"| {solver} | " + " | ".join(_cells(found, metric, solver, "**")) + " |")
    return "\n".join([*lines, "", f"± is a standard error. `{first['command']}`", ""])


def to_text(found: Comparison, metric: str) -> str:
    """The table of one metric for a terminal, the best marked with a star."""
    head = ["NFE", *map(str, found.nfes)]
    rows = [[solver, *_cells(found, metric, solver, "*")] for solver in found.solvers]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [heading(metric)]
    for first, *rest in (head, *rows):
        padded = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *padded]))
    return "\n".join(lines)


def heading(metric: str) -> str:
    """The title of a metric, and which direction is better."""
    return " ".join(filter(None, (title(metric), {"lower": "↓", "higher": "↑"}.get(better(metric)))))


def _cells(found: Comparison, metric: str, solver: str, mark: str) -> Iterator[str]:
    for nfe in found.nfes:
        figure = found.figure(metric, solver, nfe)
        text = DASH if figure is None else shown(*figure)
        yield f"{mark}{text}{mark}" if solver in found.best(metric, nfe) else text
