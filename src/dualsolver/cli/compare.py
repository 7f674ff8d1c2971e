"""`dual-solver compare`: solvers side by side on the same noise, as tables, curves and a report to look at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..checks import whole
from . import sampled


def add(commands: Any) -> None:
    """Add the command to a parser."""
    purpose = "compare solvers on the same noise: tables, curves, and an HTML report to look at"
    parser = commands.add_parser("compare", help=purpose, description=purpose)
    parser.set_defaults(run=_compare)
    sampled.add(parser)
    one = parser.add_argument
    one("--show", type=int, default=8, help="how many samples the report shows of each (8)")
    one("--cells", type=Path, default=Path("runs/cells"), help="where results are kept, as of evaluate")
    one("--out", type=Path, default=Path("runs/compared"), help="for the tables, curves and the report")


def _compare(chosen: argparse.Namespace) -> None:
    from .learn import shared

    workers = shared(chosen.device)
    show = min(whole("--show", chosen.show), whole("--count", chosen.count))
    cells = sampled.planned(chosen, chosen.cells)
    results = sampled.made(cells, workers, show)
    if workers.rank == 0:
        for line in _written(cells, results, show, chosen.out):
            print(line)


def _written(cells: Any, results: Any, show: int, out: Path) -> list[str]:
    """Write everything; return what to print."""
    from .. import compare, plot, report
    from ..files import write_whole

    found = compare.Comparison(results)
    charts = {compare.heading(metric): found.curves(metric) for metric in found.metrics}
    write_whole(out / "table.csv", compare.to_csv(found))
    write_whole(out / "table.md", compare.to_markdown(found))
    for name in ("curves.png", "curves.svg"):
        plot.comparison(charts, out / name)
    write_whole(out / "report.html", report.page(found, cells, show))
    told = [metric for metric in found.metrics if compare.better(metric)]
    tables = [compare.to_text(found, metric) + "\n" for metric in told or found.metrics]
    return [*tables, f"{out}: table.csv, table.md, curves.png, curves.svg, report.html"]
