"""Where learning starts: a solver's own initial values, a fixed method that it can imitate, a neighbour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from .fit import Recipe, Workers, held_out
from .interpolate import resample
from .project import project
from .solvers import DDIM, DPMpp, DualSolver
from .solvers.base import Learned
from .task import Task

GRIDS = ("uniform", "half_log_snr")


def start(
    solver: Learned, held: Task, recipe: Recipe, neighbours: Sequence[Learned], workers: Workers
) -> str:
    """Set the solver to the candidate with the best held-out loss and return its name.

    With `recipe.start` "own" that is what the solver is initially; "best" tries all.
    """
    if recipe.start == "own":
        return "own"
    found = {}
    for name, candidate in candidates(solver, held, neighbours):
        loss = held_out(candidate, held, recipe, workers)
        found[name] = (loss, candidate)
    name = min(found, key=lambda name: found[name][0])
    solver.load_state_dict(found[name][1].state_dict())
    return name


def candidates(solver: Learned, held: Task, neighbours: Sequence[Learned]) -> Iterator[tuple[str, Learned]]:
    """Yield the solvers to start from, by name."""
    schedule = held.backbone.schedule
    yield "own", solver
    for grid in GRIDS:
        ends = solver.times.ends.tolist()
        t = schedule.grid(solver.nfe, grid, *ends)
        for method in (DDIM, DPMpp):
            candidate = deepcopy(solver)
            project(candidate, method(solver.nfe, grid=t)(schedule), schedule)
            yield f"{method.__name__} on {grid}", candidate
    near = sorted(neighbours, key=lambda n: abs(n.nfe - solver.nfe))
    if near and isinstance(near[0], DualSolver):
        yield f"nfe {near[0].nfe}", resample(near[0], solver.nfe)
