"""Start a learned solver from any other method: match their tables, and say how well it went."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.func import functional_call

from .sample import canonical
from .schedule import Schedule, check_schedule
from .solvers.base import Learned
from .table import Table, check_table


@torch.inference_mode(False)
@torch.enable_grad()
def project(solver: Learned, table: Table, schedule: Schedule, iterations: int = 100) -> float:
    """Set the parameters of `solver` so that its table on `schedule` comes as near as it can to `table`.

    Times are taken from the table and must strictly decrease; the other scalars come by Levenberg-Marquardt
    on the canonical coefficients, in seconds. Returns the relative residual: rounding where the
    parametrisation contains the method, as p1c2 with direct parameters contains DPM-Solver++(2M), BNS any
    table without stages, and DS any multistep method in its form. An error leaves the solver as it was.

    >>> import dualsolver as ds
    >>> schedule, solver = ds.VP.linear(), ds.BNS(nfe=4)
    >>> project(solver, ds.DPMpp(nfe=4)(schedule), schedule) < 1e-9
    True
    """
    if not isinstance(solver, Learned):
        raise ValueError(f"only learned solvers can be set to other methods, not {type(solver).__name__}")
    check_table(table)
    check_schedule(schedule)
    if table.nfe != solver.nfe:
        raise ValueError(
            f"the table has {table.nfe} evaluations and the solver {solver.nfe}: they must agree"
        )
    before = copy.deepcopy(solver.state_dict())
    try:
        solver.times.set(table.t.detach().clone())
        return _fit(solver, canonical(table).detach().clone(), schedule, iterations)
    except BaseException:
        solver.load_state_dict(before)
        raise


def _fit(solver: Learned, target: Tensor, schedule: Schedule, iterations: int) -> float:
    parameters = {name: p for name, p in solver.named_parameters() if name != "times.logits"}

    def distance(*values: Tensor) -> Tensor:
        found: Table = functional_call(solver, dict(zip(parameters, values, strict=True)), (schedule,))
        difference: Tensor = (canonical(found) - target) / target.norm()
        return difference.flatten()

    if not parameters:
        return float(distance().detach().norm())
    generator = torch.Generator().manual_seed(0)  # a hair off the start: gamma = 0 has only one-sided slopes,
    nudges = [1e-2 * torch.rand(p.shape, generator=generator).to(p) for p in parameters.values()]
    start = [
        p.detach() + nudge for p, nudge in zip(parameters.values(), nudges, strict=True)
    ]  # and alpha = 0
    best, residual = _levenberg_marquardt(distance, start, iterations)  # no limit below it
    for parameter, value in zip(parameters.values(), best, strict=True):
        parameter.data = value
    return residual


def _levenberg_marquardt(
    distance: Callable[..., Tensor], x: list[Tensor], iterations: int
) -> tuple[list[Tensor], float]:
    sizes, shapes = [p.numel() for p in x], [p.shape for p in x]
    error, damping, stalled = distance(*x).detach(), 1e-3, 0
    for _ in range(iterations):
        columns = jacobian(distance, tuple(x))  # type: ignore[no-untyped-call]
        J = torch.cat([c.flatten(1) for c in columns], 1)
        normal, slope, identity = J.T @ J, J.T @ error, torch.eye(J.shape[1], dtype=J.dtype)
        for _ in range(25):
            step = torch.linalg.solve(normal + damping * identity, slope)
            trial = [p - s.view(shape) for p, s, shape in zip(x, step.split(sizes), shapes, strict=True)]
            new = _tried(distance, trial)
            if new is not None and new.norm() < error.norm():
                break
            damping *= 3
        else:
            break
        stalled = stalled + 1 if new.norm() > 0.999 * error.norm() else 0
        x, error, damping = trial, new, damping / 5
        if stalled == 5 or error.norm() < 1e-14:
            break
    return x, error.norm().item()


def _tried(distance: Callable[..., Tensor], x: list[Tensor]) -> Tensor | None:
    """The distance there, or None where a step went so far that there is no finite table."""
    try:
        return distance(*x).detach()
    except ValueError:
        return None
