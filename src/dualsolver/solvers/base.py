"""What solvers share: the nodes of a grid, the rows of a table, and how values are listed."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from ..checks import check_choice, falling, numbers, whole
from ..schedule import GRIDS, LearnedTimes, Schedule, check_schedule
from ..table import Table

MOST = 100_000  # evaluations: a file cannot ask for a table that fills the memory
Grid = str | Sequence[float] | Tensor | None
Choices = dict[str, tuple[object, ...]]


class Solver(Protocol):
    """`schedule -> Table`, fixed or learned. `values` lists everything that `from_values` needs."""

    @property
    def nfe(self) -> int: ...

    @property
    def convergence(self) -> int: ...

    def __call__(self, schedule: Schedule) -> Table: ...

    def values(self) -> dict[str, Any]: ...

    def rest(self, schedule: Schedule, start: int) -> Table: ...


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

    def half_log_snr(self) -> Tensor:
        """log(alpha / sigma), infinite at clean data and at pure noise, and without a NaN in its gradient."""
        inner = (self.alpha > 0) & (self.sigma > 0)
        finite = torch.where(inner, self.alpha, 1.0).log() - torch.where(inner, self.sigma, 1.0).log()
        return torch.where(inner, finite, torch.where(self.sigma == 0, torch.inf, -torch.inf))

    def rates(self, index: slice | Tensor) -> Rates:
        """The rates at some of the nodes."""
        return Rates(self.alpha[index], self.sigma[index])


def nodes(schedule: Schedule, steps: int, grid: Grid) -> Nodes:
    """Place steps + 1 nodes: a grid by name, the schedule's own (None), or the given times literally."""
    check_schedule(schedule)
    if grid is None or isinstance(grid, str):
        return Nodes.of(schedule, schedule.grid(steps, grid))
    return Nodes.of(schedule, falling("grid", grid, steps + 1))


def finished(name: str, at: Nodes, weights: Tensor) -> Table:
    """Build the table, with an error that says why where a method has no finite weights."""
    if bool(weights.isfinite().all()):
        return Table(at.t, at.alpha, at.sigma, weights)
    step = int((~weights.isfinite()).flatten(1).any(1).nonzero()[0])
    at_ends = bool(at.alpha[0] == 0) or bool(at.sigma[-1] == 0)
    raise ValueError(
        f"{name} has no finite weights in step {step}, from t = {at.t[step].item()} "
        f"to {at.t[step + 1].item()}: "
        + (
            "start the grid where alpha > 0, and end it where sigma > 0 or lower the final order"
            if at_ends
            else "its parameters are not finite, or too large for these times"
        )
    )


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


class Fixed(ABC):
    """What fixed solvers, frozen dataclasses, have in common: their checks and their listing."""

    nfe: int
    grid: Grid
    choices: ClassVar[Choices] = {}  # what the other arguments may be
    evaluations: ClassVar[int] = 1  # a step

    def __post_init__(self) -> None:
        object.__setattr__(self, "nfe", whole("nfe", self.nfe, most=MOST))
        for name, allowed in self.choices.items():
            check_choice(name, getattr(self, name), allowed)
        if isinstance(self.grid, str):
            check_choice("grid", self.grid, tuple(GRIDS))
        elif self.grid is not None:
            falling("grid", self.grid, self.steps + 1)

    @abstractmethod
    def __call__(self, schedule: Schedule) -> Table:
        """Make the table."""

    @property
    def steps(self) -> int:
        """How many steps the grid has."""
        return math.ceil(self.nfe / self.evaluations)

    def values(self) -> dict[str, Any]:
        """Return the arguments that make this solver, as plain numbers, names and lists."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        if not isinstance(self.grid, str | None):
            found["grid"] = [float(t) for t in self.grid]
        return found

    @classmethod
    def from_values(cls, **values: Any) -> Self:
        """Make the solver that `values` lists."""
        return cls(**values)

    def at(self, **values: Any) -> Self:
        """The same method with other values, such as another NFE or grid."""
        return self.from_values(**self.values() | values)

    def on(self, t: Sequence[float]) -> Self:
        """The same method on given times; a last step to clean data, at 0, takes one evaluation."""
        calls = self.evaluations * (len(t) - 1) - (self.evaluations - 1) * (t[-1] == 0)
        return self.at(nfe=calls, grid=t)

    def rest(self, schedule: Schedule, start: int) -> Table:
        """The table of the evaluations from `start` on: the same times and method, without history.

        A start between the evaluations of one step first waits, so that a whole step follows.
        """
        table = self(schedule)
        wait = -whole("start", start, 0) % self.evaluations
        t = table.t[start + wait : -1 : self.evaluations].tolist() + table.t[-1:].tolist()
        weights = table.weights[:0]
        if len(t) > 1:
            weights = self.at(nfe=table.nfe - start - wait, grid=t)(schedule).weights
        stay = weights.new_zeros(wait, *weights.shape[1:])
        stay[:, :, 0] = 1.0
        weights = torch.cat([stay, weights])
        return Table(table.t[start:], table.alpha[start:], table.sigma[start:], weights)


class Learned(nn.Module, ABC):
    """Times of a learned solver: they start from `t`, by default uniform from 0.999 to 0.001.

    The scalars stay float64 on the CPU, where tables are made, when a model around them is moved or halved.
    """

    def __init__(self, nfe: int, t: Sequence[float] | Tensor | None) -> None:
        super().__init__()
        self.nfe = whole("nfe", nfe, most=MOST)
        default = torch.linspace(0.999, 0.001, self.nfe + 1, dtype=torch.float64)
        self.times = LearnedTimes(default if t is None else falling("t", t, self.nfe + 1))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        return self

    def nodes(self, schedule: Schedule) -> Nodes:
        """The learned times with the schedule's rates at them."""
        check_schedule(schedule)
        if schedule.t_max != 1 and self.times.ends.tolist() == [0.999, 0.001]:
            warnings.warn(
                f"the default times run from 0.999 to 0.001, but {schedule} samples from {schedule.span[0]} "
                f"to {schedule.span[1]}: give the solver t=schedule.grid({self.nfe})",
                stacklevel=5,
            )
        return Nodes.of(schedule, self.times())

    def rest(self, schedule: Schedule, start: int) -> Table:
        """The table of the evaluations from `start` on, by the scalars of those steps, without history."""
        if whole("start", start, 0) == 0:
            return self.forward(schedule)
        return self.from_values(**self.tail(start)).forward(schedule)

    @abstractmethod
    def forward(self, schedule: Schedule) -> Table:
        """Make the table."""

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """Return everything that `from_values` takes."""

    @classmethod
    @abstractmethod
    def from_values(cls, *args: Any, **values: Any) -> Self:
        """Make the solver that has these values."""

    def tail(self, start: int) -> dict[str, Any]:
        """The values of a solver that makes the steps from `start` on."""
        raise ValueError(
            f"{type(self).__name__} starts every step from x_T and cannot start in the middle: sample from "
            "noise, or take another solver"
        )

    @staticmethod
    def steps_of(t: Sequence[float] | Tensor) -> int:
        """How many steps a list of times makes."""
        return len(falling("t", t)) - 1


def ragged(name: str, rows: Any, lengths: Sequence[int]) -> list[Tensor]:
    """Check a list of rows of numbers of the given lengths."""
    if not isinstance(rows, Sequence) or len(rows) != len(lengths):
        raise ValueError(f"{name} must hold {len(lengths)} rows of numbers, not {rows!r}")
    return [numbers(f"{name}[{i}]", row, n) for i, (row, n) in enumerate(zip(rows, lengths, strict=True))]
