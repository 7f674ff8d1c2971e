"""The sampling loop turned inside out: someone else calls the network, and each output moves the state on."""

from __future__ import annotations

from torch import Tensor

from .prediction import basis, combine
from .rows import cheapest, rows
from .sample import advance
from .schedule import Schedule
from .table import Table


class Stepper:
    """A run of a table by `advance`, for loops that are not ours.

    Everything that a step needs is numbers from the beginning: it asks no tensor for its value, so it never
    waits for a GPU. Where the solver's state is what the network looks at next, what the caller hands in is
    the state, and may have been edited; elsewhere (predictor-correctors, BNS, Heun) the state is kept here.

    >>> import torch, dualsolver as ds
    >>> table = ds.DDIM(2, grid=[1.0, 0.5, 0.0])(ds.Flow())
    >>> stepper = Stepper(table, ds.Flow(), "velocity")
    >>> x = torch.ones(1)
    >>> for _ in range(2):
    ...     x = stepper.step(output=x, x=x)
    >>> x, stepper.left
    (tensor([0.2500]), 0)
    """

    def __init__(self, table: Table, schedule: Schedule, kind: str) -> None:
        bases = basis(kind, schedule, table.t[:-1])
        chosen, self._sides = cheapest(table, bases)
        self._rows, self._bases = rows(chosen), bases.tolist()
        self._kept = 2 * (table.window - 1)
        self._state: Tensor | None = None
        self._past: tuple[Tensor, ...] = ()
        self.index = 0

    @property
    def left(self) -> int:
        """How many steps are still to come."""
        return len(self._rows) - self.index

    def preview(self, output: Tensor, x: Tensor) -> Tensor:
        """Return the data that this output shows at x, the point of the step to come, in x's dtype.

        Steps do without it: it is two more passes over memory, so only whoever looks at it pays for it.
        """
        native = _at_least_float32(x), _at_least_float32(output)
        return combine(self._bases[self.index][0], native).to(x.dtype)

    def step(self, output: Tensor, x: Tensor) -> Tensor:
        """Return the next point to look at, in x's dtype.

        output, x: (B, ...) of the same shape; half precision is computed with in float32.
        """
        at, row = _at_least_float32(x), self._rows[self.index]
        native, (of_data, of_noise) = (at, output.to(at.dtype)), self._bases[self.index]
        data = combine(of_data, native) if self._sides.data else at
        noise = combine(of_noise, native) if self._sides.noise else native[1]
        past = (data, noise, *self._past)
        state, query = advance(row, at if self._state is None else self._state, past)
        self.index += 1
        self._past = past[: self._kept] if self.left else ()
        self._state = None if row.state is None else state
        return query.to(x.dtype)


def _at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype.itemsize < 4 else x
