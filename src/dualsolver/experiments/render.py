"""An experiment as Markdown: its table beside the paper's numbers, a sentence a claim, its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .claims import place, sentence
from .experiment import CLASSIFIER, Experiment
from .found import HIGHER, Found
from .paper import published
from .setting import Setting

NAMES = {
    "frechet": "FID",
    "clip score": "CLIP score",
    "top-1": "top-1 (%)",
    "top-5": "top-5 (%)",
    "gflops": "GFLOPs",
}
DIGITS = {"clip score": 4, "cross-entropy": 3, "precision": 4, "recall": 4, "accuracy": 3, "class loss": 3}
DIGITS |= {"pixel mean": 3, "pixel deviation": 3, "pixel clipped": 3}  # else 2


def markdown(
    experiment: Experiment, setting: Setting, found: Found, figures: Sequence[str] = ()
) -> Iterator[str]:
    """The lines of what an experiment came to on a backbone; figures are where the page finds them."""
    theirs = published(experiment.tables, setting.kind)
    yield from (f"### {experiment.title}, {setting.name}", "")
    if theirs:
        yield from (f"Rows of the paper: its table `{theirs.label}` ({theirs.caption}).", "")
    for metrics in [experiment.metrics] if experiment.wide else [(m,) for m in experiment.metrics]:
        if lines := [*_table(experiment, metrics, found, theirs.found if theirs else Found())]:
            yield from [*lines, ""]
    if not experiment.metrics:
        yield from (f"A row each, the same noise in all: {', '.join(experiment.rows(setting))}.", "")
    yield from _claims(experiment, setting, found)
    for figure in figures:
        yield from (f"![{experiment.title}, {Path(figure).stem}]({figure})", "")


def _claims(experiment: Experiment, setting: Setting, found: Found) -> Iterator[str]:
    for claim in experiment.claims:
        margins = claim.verdicts(found) if setting.kind in claim.kinds else {}
        if margins:
            yield f"- {'Beyond the paper: ' * claim.ours}*{claim.says}* {sentence(margins)}"
    yield ""


def _table(experiment: Experiment, metrics: Sequence[str], found: Found, theirs: Found) -> Iterator[str]:
    """A row from here and one from the paper for each method that has any."""
    labels = [column.label for column in experiment.columns]
    places = [(m, c) for m in metrics for c in ([""] if m in CLASSIFIER else labels)]
    heads = [f"{_name(m)}{' @' * bool(c)}{c}" if len(metrics) > 1 else place(c) for m, c in places]
    body = [
        f"| {row} | {where} | {' | '.join(cells)} |"
        for row in dict.fromkeys(row for table in (found, theirs) for m in metrics for row in table.rows(m))
        for where, table in (("here", found), ("paper", theirs))
        if any(cells := [_cell(table, metric, row, column) for metric, column in places])
    ]
    if body:
        yield f"| {_name(metrics[0]) if len(metrics) == 1 else ''} | | {' | '.join(heads)} |"
        yield "|---|---|" + "---|" * len(heads)
        yield from body


def _name(metric: str) -> str:
    arrow = "" if metric in CLASSIFIER else " ↑" if metric in HIGHER else " ↓"
    return NAMES.get(metric, metric) + arrow


def _cell(found: Found, metric: str, row: str, column: str) -> str:
    """A mean with its standard error, where there is one."""
    value, digits = found.estimate(metric, row, column), DIGITS.get(metric, 2)
    if value is None or metric == "gflops":
        return f"{value.mean:.3g}" if value else ""
    return f"{value.mean:.{digits}f}" + (f" ± {value.error:.{digits}f}" if value.error >= 0 else "")
