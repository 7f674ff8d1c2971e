"""DS-Solver (Wang et al. 2025): each step mixes all predictions so far with weights that sum to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..checks import check_choice
from ..schedule import Schedule
from ..table import Table
from .base import Learned, finished, interleave, newest_first, ragged, twice


class DS(Learned):
    """A multistep method whose every weight is learned, in the authors' two forms.

        VP, "data":        x_n = A x + (alpha_n - A alpha_c) sum_j m_ij data_j, with A = sigma_n / sigma_c
        flow, "velocity":  x_n = x + sum_j m_ij (dalpha data_j + dsigma noise_j)

    m_ij is learned for j < i and m_ii = 1 - sum_{j<i} m_ij; zeros are DDIM (Euler for flow). With up to 6
    steps the authors let the last two rows keep only j = i - 1: that is `masked` and, as there, the default.
    """

    convergence = 1

    def __init__(
        self,
        nfe: int,
        form: str = "data",
        masked: bool | None = None,
        t: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(nfe, t)
        check_choice("form", form, ("data", "velocity"))
        check_choice("masked", masked, (True, False, None))
        self.form, self.masked = form, nfe <= 6 if masked is None else masked
        free = torch.ones(nfe, nfe).tril(-1)
        if self.masked:
            free[-2:] = torch.diag(torch.ones(nfe - 1), -1)[-2:] if nfe > 1 else 0.0
        self.free = free.nonzero().unbind(1)
        self.m = nn.Parameter(torch.zeros(len(self.free[0]), dtype=torch.float64))

    def mixture(self) -> Tensor:
        """The matrix m_ij, lower triangular with rows that sum to 1: (M, M)."""
        below = self.m.new_zeros(self.nfe, self.nfe).index_put(self.free, self.m)
        return below + torch.diag(1 - below.sum(1))

    def forward(self, schedule: Schedule) -> Table:
        at = self.nodes(schedule)
        mixture = newest_first(self.mixture())
        data_form = self.form == "data"
        carry = at.sigma[1:] / at.sigma[:-1] if data_form else torch.ones_like(at.t[1:])
        of_data = at.alpha[1:] - carry * at.alpha[:-1]
        of_noise = torch.zeros_like(carry) if data_form else at.sigma.diff()
        pairs = interleave(of_data[:, None] * mixture, of_noise[:, None] * mixture)
        row = torch.cat([carry[:, None], pairs], 1)
        return finished("DS-Solver", at, twice(row))

    def values(self) -> dict[str, Any]:
        """Return the form, the times and the rows of m below the diagonal."""
        rows = [row[:i] for i, row in enumerate(self.mixture().tolist())]
        return {"form": self.form, "masked": self.masked, "t": self.times().tolist(), "m": rows}

    def tail(self, start: int) -> dict[str, Any]:
        values = self.values()
        m = [row[start:] for row in values["m"][start:]]
        return values | {"t": values["t"][start:], "m": m}

    @classmethod
    def from_values(
        cls, form: str, t: Sequence[float], m: Sequence[Sequence[float]], masked: bool = False
    ) -> Self:
        """Take the rows of m below the diagonal (row i has i numbers) and the times literally."""
        solver = cls(cls.steps_of(t), form, masked, t)
        full = torch.zeros(solver.nfe, solver.nfe, dtype=torch.float64)
        for i, row in enumerate(ragged("m", m, range(solver.nfe))):
            full[i, :i] = row
        solver.m.data = full[solver.free]
        if not torch.equal(solver.mixture().detach().tril(-1), full):
            raise ValueError("m has values where masked=True wants 0: the last two rows keep only j = i - 1")
        return solver
