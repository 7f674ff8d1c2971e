"""`dual-solver show` and `dual-solver interpolate`: what a learned file holds, and one for another NFE."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..checks import whole


def add(commands: Any) -> None:
    """Add both commands to a parser."""
    purpose = "print the parameters, times, coefficients and provenance of a learned folder"
    show = commands.add_parser("show", help=purpose, description=purpose)
    show.set_defaults(run=_show, threads=1)
    show.add_argument("folder", type=Path)
    show.add_argument("--nfe", type=int, help="one NFE alone (all)")
    show.add_argument("--plot", type=Path, help="draw the parameters over the steps into this file")
    purpose = "write a folder for NFEs that were not learned, from the learned ones beside them"
    between = commands.add_parser("interpolate", help=purpose, description=purpose)
    between.set_defaults(run=_interpolate, threads=1)
    between.add_argument("folder", type=Path)
    between.add_argument("--nfe", nargs="+", metavar="", required=True, help="such as 4 or 4..8")
    between.add_argument("--out", type=Path, required=True)


def _show(chosen: argparse.Namespace) -> None:
    from ..parameters import NAME, choose, read, solvers_of
    from ..schedule import from_config

    path = chosen.folder / NAME
    content = read(path)
    solvers = {solver.nfe: solver for solver in solvers_of(path, content)}
    if chosen.nfe is not None:
        solvers = {chosen.nfe: choose(solvers, whole("--nfe", chosen.nfe), str(path))}
    schedule = from_config(content["schedule"]) if content["schedule"] else None
    nfes, where = ", ".join(map(str, solvers)), schedule or "any schedule"
    print(f"{content['solver']} for NFE {nfes}, learned for {where}")
    for solver in solvers.values():
        print("\n".join(["", *_of_solver(solver, schedule)]))
    print("\nprovenance\n" + json.dumps(content["provenance"], indent=2))
    if chosen.plot:
        from ..plot import parameters

        print(parameters(list(solvers.values()), chosen.plot))


def _of_solver(solver: Any, schedule: Any) -> Iterator[str]:
    """The options, a table of the parameters, and the rows of the solver's table."""
    values = solver.values()
    options = {k: v for k, v in values.items() if not isinstance(v, list | Mapping)}
    options |= {k: v for k, v in values.items() if k == "fixed" and v}
    yield f"NFE {solver.nfe}: " + ", ".join(f"{name} {value}" for name, value in options.items())
    for name, value in values.items():
        lists = {f"{name} {k}": v for k, v in value.items()} if isinstance(value, Mapping) else {name: value}
        for title, numbers in lists.items():
            if isinstance(numbers, list):
                yield from _numbers(title, numbers)
    if schedule is not None:
        yield "  coefficients, query <- state, then data and noise of each prediction, newest first"
        for i, (_, query) in enumerate(solver(schedule).weights.detach().tolist()):
            yield from _numbers(f"step {i}", query)


def _numbers(title: str, numbers: Sequence[Any]) -> Iterator[str]:
    if numbers and isinstance(numbers[0], list):
        for i, row in enumerate(numbers):
            yield from _numbers(f"{title}[{i}]", row)
    else:
        yield f"  {title:20}" + " ".join(f"{x:10.5f}" for x in numbers)


def _interpolate(chosen: argparse.Namespace) -> None:
    from .. import named
    from ..parameters import NAME, choose, read, save, solvers_of
    from ..schedule import from_config

    path = chosen.folder / NAME
    content = read(path)
    known = {solver.nfe: solver for solver in solvers_of(path, content)}
    solvers = [choose(known, nfe, str(path)) for nfe in named.nfes(chosen.nfe)]
    schedule = from_config(content["schedule"]) if content["schedule"] else None
    facts = {**content["provenance"], "interpolated_from": sorted(known)}
    facts.pop("version", None)
    print(save(solvers, chosen.out, schedule=schedule, prediction=content["prediction"], **facts))
