"""UniPC (Zhao et al. 2023): a predictor and a corrector of one family, solved from moment conditions."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import ClassVar

import torch
from torch import Tensor

from ..schedule import Schedule
from ..table import Table
from .base import Choices, Fixed, Grid, Nodes, finished, nodes
from .dpmpp import by_order


@dataclass(frozen=True, eq=False)
class UniPC(Fixed):
    """UniP and UniC of orders 1 to 3 with B(h) = h ("bh1") or exp(h) - 1 ("bh2"), on data or on noise.

    The corrector raises the order by one. The noise form is the data form with alpha and sigma exchanged.
    """

    nfe: int
    grid: Grid = None
    order: int = 2
    variant: str = "bh2"
    prediction: str = "data"
    lower_order_final: bool = True
    choices: ClassVar[Choices] = {
        "order": (1, 2, 3),
        "variant": ("bh1", "bh2"),
        "prediction": ("data", "noise"),
        "lower_order_final": (True, False),
    }

    @property
    def convergence(self) -> int:
        """The uncorrected last step limits the order to 2 where it is lowered."""
        return 2 if self.lower_order_final else min(self.order + 1, 3)

    def __call__(self, schedule: Schedule) -> Table:
        at = nodes(schedule, self.steps, self.grid)
        form = at if self.prediction == "data" else Nodes(at.t, at.sigma, at.alpha)
        column = 1 if self.prediction == "data" else 2
        carry = form.sigma[1:] / form.sigma[:-1]
        predict, state = (carry.new_zeros(self.nfe, 3 + 2 * self.order) for _ in range(2))
        predict[:, 0] = carry
        state[0, 0], state[1:, 0] = 1.0, carry[:-1]
        for order, c in by_order(self.nfe, self.order, self.lower_order_final).items():
            predict[c, column : column + 2 * order : 2] = self._weights(form, c, order, correct=False)
            c = c[c < self.nfe - 1]  # the last step is not corrected
            state[c + 1, column : column + 2 + 2 * order : 2] = self._weights(form, c, order, correct=True)
        query = torch.cat([predict[:, :1] * state[:, :1], predict[:, :1] * state[:, 1:] + predict[:, 1:]], 1)
        return finished("UniPC", at, torch.stack([state, query], 1))

    def _weights(self, at: Nodes, c: Tensor, order: int, correct: bool) -> Tensor:
        """Weights of the predictions for steps c, newest first; one made at alpha = 0 takes no part."""
        weights = at.t.new_zeros(len(c), order + correct)
        lost = (at.alpha[c - order + 1] == 0) & (order > 1)
        for history, which in ((order - 1, ~lost), (order - 2, lost)):
            if bool(which.any()):
                weights[which, : history + 1 + correct] = self._solved(at, c[which], order, correct, history)
        return weights

    def _solved(self, at: Nodes, c: Tensor, order: int, correct: bool, history: int) -> Tensor:
        n, lam = c + 1, at.half_log_snr()
        h = lam[n] - lam[c]
        Q = at.alpha[n] - at.sigma[n] / at.sigma[c] * at.alpha[c]
        if not correct and history == 0:
            return Q[:, None]
        B = torch.expm1(-h) if self.variant == "bh2" else -h
        known = [torch.ones_like(h)] if correct else []
        r = torch.stack(known + [(lam[c - k] - lam[c]) / h for k in range(1, history + 1)], 1)
        plain = order == (1 if correct else 2) and history == order - 1  # the authors take 1/2 as it is
        rho = torch.full_like(r, 0.5) if plain else torch.linalg.solve(*_moments(r, -h, B))
        slopes = -at.alpha[n, None] * B[:, None] * rho / r  # of the differences from data_c
        current = Q[:, None] - slopes.sum(1, keepdim=True)
        return torch.cat([slopes[:, :1], current, slopes[:, 1:]] if correct else [current, slopes], 1)


def _moments(r: Tensor, h: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """The conditions sum_m r_m^(k-1) rho_m = k! phi_{k+1}(h) h / B that match the exponential integral."""
    phi, rows, right = torch.expm1(h) / h, [], []
    for k in range(1, r.shape[1] + 1):
        phi = phi - 1 if k == 1 else phi / h - 1 / factorial(k)
        rows.append(r ** (k - 1))
        right.append(phi * factorial(k) / B)
    return torch.stack(rows, 1), torch.stack(right, 1)
