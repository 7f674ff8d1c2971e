"""What solvers share: the nodes of a grid, the rows of a table, and how values are listed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from ..schedule import LearnedTimes, Schedule
from ..table import Table

Grid = str | Sequence[float] | Tensor | None


class Solver(Protocol):
    """`schedule -> Table`, fixed or learned. `values` lists everything that `from_values` needs."""

    @property
    def nfe(self) -> int: ...

    @property
    def convergence(self) -> int: ...

    def __call__(self, schedule: Schedule) -> Table: ...

    def values(self) -> dict[str, Any]: ...


class SolverClass(Protocol):
    """What the registry holds: a class that makes solvers, from options or from the values of another."""

    def __call__(self, *args: Any, **options: Any) -> Solver: ...

    def from_values(self, *args: Any, **values: Any) -> Solver: ...


class Rates(NamedTuple):
    """alpha and sigma at some nodes."""

    alpha: Tensor
    sigma: Tensor


class Nodes(NamedTuple):
    """The times of a run with the rates at them: (M + 1,) each."""

    t: Tensor
    alpha: Tensor
    sigma: Tensor

    @classmethod
    def of(cls, schedule: Schedule, t: Tensor) -> Nodes:
        return cls(t, *schedule(t))

    def rates(self, index: slice | Tensor) -> Rates:
        """The rates at some of the nodes."""
        return Rates(self.alpha[index], self.sigma[index])


def nodes(schedule: Schedule, steps: int, grid: Grid) -> Nodes:
    """Place steps + 1 nodes: a grid by name, the schedule's own (None), or the given times literally."""
    if grid is None or isinstance(grid, str):
        return Nodes.of(schedule, schedule.grid(steps, grid))
    t = torch.as_tensor(grid, dtype=torch.float64)
    if t.shape != (steps + 1,) or not bool((t.diff() < 0).all()):
        raise ValueError(
            f"grid must be {steps + 1} strictly decreasing times for {steps} steps, not {t.tolist()}"
        )
    return Nodes.of(schedule, t)


def check_nfe(nfe: int) -> int:
    """Return nfe if it is a whole number from 1 on."""
    if isinstance(nfe, bool) or not isinstance(nfe, int) or nfe < 1:
        raise ValueError(f"nfe must be a whole number >= 1, not {nfe!r}")
    return nfe


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices, and name them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def finished(name: str, at: Nodes, weights: Tensor) -> Table:
    """Build the table, with an error that says why where a method has no limit at an end of the interval."""
    if not bool(weights.isfinite().all()):
        step = int((~weights.isfinite()).flatten(1).any(1).nonzero()[0])
        raise ValueError(
            f"{name} has no finite weights in step {step}, from t = {at.t[step].item()} "
            f"to {at.t[step + 1].item()}: start the grid where alpha > 0, and end it where sigma > 0 "
            "or lower the final order"
        )
    return Table(at.t, at.alpha, at.sigma, weights)


def twice(row: Tensor) -> Tensor:
    """Use the same row (M, W) for state and query: (M, 2, W)."""
    return torch.stack([row, row], 1)


def interleave(data: Tensor, noise: Tensor) -> Tensor:
    """Weave data and noise weights (M, K) into the table's order (M, 2 K)."""
    return torch.stack([data, noise], 2).flatten(1)


def newest_first(matrix: Tensor) -> Tensor:
    """Turn a lower triangular (M, M) matrix [i, j] of evaluations j <= i into [i, k] with j = i - k."""
    ages = torch.arange(len(matrix))[:, None] - torch.arange(len(matrix))
    return matrix.gather(1, ages.clamp(min=0)) * (ages >= 0)


class Fixed:
    """The listing of a fixed solver, a frozen dataclass."""

    def values(self) -> dict[str, Any]:
        """Return the arguments that make this solver, as plain numbers, names and lists."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        if isinstance(found["grid"], Tensor | Sequence) and not isinstance(found["grid"], str):
            found["grid"] = [float(t) for t in found["grid"]]
        return found

    @classmethod
    def from_values(cls, **values: Any) -> Self:
        """Make the solver that `values` lists."""
        return cls(**values)


class Learned(nn.Module):
    """Times of a learned solver: they start from `t`, by default uniform from 0.999 to 0.001.

    The scalars stay float64 on the CPU, where tables are made, when a model around them is moved or halved.
    """

    def __init__(self, nfe: int, t: Sequence[float] | Tensor | None) -> None:
        super().__init__()
        self.nfe = check_nfe(nfe)
        t = torch.linspace(0.999, 0.001, nfe + 1, dtype=torch.float64) if t is None else t
        if len(t) != nfe + 1:
            raise ValueError(f"t must hold nfe + 1 = {nfe + 1} times, not {len(t)}")
        self.times = LearnedTimes(t)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self

    def nodes(self, schedule: Schedule) -> Nodes:
        """The learned times with the schedule's rates at them."""
        if schedule.t_max != 1 and self.times.ends.tolist() == [0.999, 0.001]:
            warnings.warn(
                f"the default times run from 0.999 to 0.001, but {schedule} samples from {schedule.span[0]} "
                f"to {schedule.span[1]}: give the solver t=schedule.grid({self.nfe})",
                stacklevel=3,
            )
        return Nodes.of(schedule, self.times())


def numbers(name: str, values: Sequence[float], length: int) -> Tensor:
    """Check a list of `length` finite numbers that a user gave under `name`."""
    try:
        found = torch.tensor([float(v) for v in values], dtype=torch.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a list of {length} numbers, not {values!r}") from None
    if len(found) != length:
        raise ValueError(f"{name} must hold {length} numbers, not {len(found)}")
    if not bool(found.isfinite().all()):
        raise ValueError(f"{name} holds a value that is not finite: {found.tolist()}")
    return found
