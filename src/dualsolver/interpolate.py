"""Parameters for an NFE that was not learned, from its neighbours (App. parameter_interpolation)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .checks import whole
from .solvers import DualSolver, Solver


def interpolate(first: Solver, second: Solver, nfe: int) -> DualSolver:
    """Return a Dual-Solver for an NFE between those of two others.

    Every list of real values is stretched to the new length by `stretch`, and the two are averaged by the
    distance in NFE. The corrector, one shorter, is padded by its last element, stretched, and its last
    dropped. The paper says nothing of times: they are curves of NFE + 1 nodes and treated alike. Direct
    parameters depend on the step size, so they travel as (A - 1) / dt and P / dt^2 and come back with the
    new nodes' dt.

    >>> interpolate(DualSolver(3), DualSolver(5), nfe=4).nfe
    4
    """
    low, high = sorted((_checked(first), _checked(second)), key=lambda solver: solver.nfe)
    nfe, other = whole("nfe", nfe), high.options()
    for option, value in low.options().items():
        if value != other[option]:
            raise ValueError(
                f"cannot interpolate: {option} is {value!r} at NFE {low.nfe} "
                f"but {other[option]!r} at NFE {high.nfe}"
            )
    if not low.nfe < high.nfe or not low.nfe <= nfe <= high.nfe:
        raise ValueError(f"nfe = {nfe} does not lie between {low.nfe} and {high.nfe}")
    weight = (high.nfe - nfe) / (high.nfe - low.nfe)
    curves = [_curves(solver, nfe) for solver in (low, high)]
    return _solver(low, {name: weight * x + (1 - weight) * curves[1][name] for name, x in curves[0].items()})


def resample(solver: Solver, nfe: int) -> DualSolver:
    """Return a Dual-Solver at another NFE, its lists stretched to the new length: a start for learning."""
    nfe = whole("nfe", nfe)
    if nfe < 2:
        raise ValueError(_why_not_one(nfe))
    known = _checked(solver)
    return _solver(known, _curves(known, nfe))


def stretch(values: Tensor, length: int) -> Tensor:
    """Linear interpolation of a list to another length with both ends kept (Definition Linear interpolation).

    >>> stretch(torch.tensor([0.0, 1.0, 4.0]), 5).tolist()
    [0.0, 0.5, 1.0, 2.5, 4.0]
    """
    at = torch.arange(length, dtype=torch.float64) * (len(values) - 1) / (length - 1)
    left = at.floor().long().clamp(max=len(values) - 2)  # the paper's j + 1 would leave the list at the end
    return torch.lerp(values[left].double(), values[left + 1].double(), at - left)


def _checked(solver: Solver) -> DualSolver:
    if not isinstance(solver, DualSolver):
        raise ValueError(
            f"{type(solver).__name__} cannot be interpolated: only Dual-Solver has the same scalars in every "
            "step; BNS and DS weigh each earlier evaluation, whose number changes with the NFE"
        )
    if solver.nfe < 2:
        raise ValueError(_why_not_one(solver.nfe))
    return solver


def _why_not_one(nfe: int) -> str:
    return f"NFE {nfe} has one step and no corrector: there is no curve over the steps to interpolate"


def _curves(solver: DualSolver, nfe: int) -> dict[str, Tensor]:
    """Every list of a solver, scaled by its step sizes where that matters, at the length of another NFE."""
    values = solver.values()
    t = torch.tensor(values["t"], dtype=torch.float64)
    curves = {"t": stretch(t, nfe + 1)}
    for name, x in _lists(values):
        x = _per_time(solver, name, x, -t.diff()[: len(x)])
        if name.startswith("corrector"):
            curves[name] = stretch(torch.cat([x, x[-1:]]), nfe)[:-1]
        else:
            curves[name] = stretch(x, nfe)
    return curves


def _lists(values: dict[str, Any]) -> list[tuple[str, Tensor]]:
    return [
        (f"{part}.{name}", torch.tensor(x, dtype=torch.float64))
        for part in ("predictor", "corrector")
        for name, x in values[part].items()
    ]


def _per_time(solver: DualSolver, name: str, x: Tensor, dt: Tensor, back: bool = False) -> Tensor:
    """A -> (A - 1) / dt and P -> P / dt^2, or back; natural parameters and fixed ones stay."""
    letter = name.partition(".")[2].partition("_")[0]
    if letter in solver.coordinates.fixed or letter not in ("A", "P"):
        return x
    if letter == "P":
        return x * dt**2 if back else x / dt**2
    return 1 + x * dt if back else (x - 1) / dt


def _solver(like: DualSolver, curves: dict[str, Tensor]) -> DualSolver:
    t = curves["t"]
    parts: dict[str, Any] = {"predictor": {}, "corrector": {}}
    for key, x in curves.items():
        if key != "t":
            part, _, name = key.partition(".")
            parts[part][name] = _per_time(like, key, x, -t.diff()[: len(x)], back=True).tolist()
    return DualSolver.from_values(t=t.tolist(), **like.options(), **parts)
