"""BNS (Shaul et al. 2024): every point is a free combination of the noise and of all predictions so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..checks import check_choice, numbers
from ..schedule import Schedule
from ..table import Table
from .base import Learned, finished, interleave, newest_first, ragged


class BNS(Learned):
    """x_{i+1} = a_i x_T + sum_{j<=i} (b_ij dalpha_j data_j + c_ij dsigma_j noise_j), d the step's difference.

    With all scalars 1 the sum telescopes: that is DDIM, and where learning starts. `tied` makes c = b, which
    is the published form on velocities. Learned as distances from 1, so that weight decay pulls to DDIM.
    """

    convergence = 1

    def __init__(self, nfe: int, tied: bool = False, t: Sequence[float] | Tensor | None = None) -> None:
        super().__init__(nfe, t)
        check_choice("tied", tied, (True, False))
        self.tied = tied
        self.a = nn.Parameter(torch.zeros(self.nfe, dtype=torch.float64))
        count = self.nfe * (self.nfe + 1) // 2
        self.b = nn.Parameter(torch.zeros(count, dtype=torch.float64))
        self.c = self.b if tied else nn.Parameter(torch.zeros(count, dtype=torch.float64))

    def forward(self, schedule: Schedule) -> Table:
        at = self.nodes(schedule)
        data = newest_first(self._triangle(self.b) * at.alpha.diff())
        noise = newest_first(self._triangle(self.c) * at.sigma.diff())
        query = torch.cat([1 + self.a[:, None], interleave(data, noise)], 1)
        state = torch.zeros_like(query)
        state[:, 0] = 1.0  # x_T is carried unchanged
        return finished("BNS", at, torch.stack([state, query], 1))

    def _triangle(self, packed: Tensor) -> Tensor:
        rows, columns = torch.tril_indices(self.nfe, self.nfe)
        return packed.new_zeros(self.nfe, self.nfe).index_put((rows, columns), 1 + packed)

    def values(self) -> dict[str, Any]:
        """Return the real scalars: a, and the rows of b and (unless tied) c."""
        lists = {"t": self.times().tolist(), "a": (1 + self.a).tolist()}
        for name in ("b",) if self.tied else ("b", "c"):
            lists[name] = [row[: i + 1] for i, row in enumerate(self._triangle(getattr(self, name)).tolist())]
        return lists

    @classmethod
    def from_values(
        cls,
        t: Sequence[float],
        a: Sequence[float],
        b: Sequence[Sequence[float]],
        c: Sequence[Sequence[float]] | None = None,
    ) -> Self:
        """Take real scalars and times literally; without c the solver is tied."""
        solver = cls(cls.steps_of(t), tied=c is None, t=t)
        solver.a.data = numbers("a", a, solver.nfe) - 1
        for name, rows in (("b", b),) if c is None else (("b", b), ("c", c)):
            getattr(solver, name).data = torch.cat(ragged(name, rows, range(1, solver.nfe + 1))) - 1
        return solver
