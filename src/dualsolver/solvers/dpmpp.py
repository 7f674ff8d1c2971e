"""DPM-Solver++ (Lu et al. 2022): exponential multistep in data prediction, orders 1 to 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..schedule import Schedule
from ..table import Table
from .base import Choices, Fixed, Grid, Nodes, finished, nodes, twice


@dataclass(frozen=True, eq=False)
class DPMpp(Fixed):
    """x_n = (sigma_n / sigma_c) x + sum_k w_k data_{c-k}, with the weights below; 2M is the usual choice.

    The first steps have a lower order for want of history; with `lower_order_final` the last ones, too.

    Order 3 follows the Taylor expansion. The authors' code, and with it diffusers' and k-diffusion's, gives
    the second derivative half its weight (their D2 is h^2 f'' / 2 where h^2 f'' belongs), which leaves an
    order of 2; `published` reproduces it.
    """

    nfe: int
    grid: Grid = None
    order: int = 2
    lower_order_final: bool = True
    published: bool = False
    choices: ClassVar[Choices] = {
        "order": (1, 2, 3),
        "lower_order_final": (True, False),
        "published": (True, False),
    }

    @property
    def convergence(self) -> int:
        """In the end 3M converges like 2M, because of its first steps; from an accurate start it has 3."""
        return min(self.order, 2)

    def __call__(self, schedule: Schedule) -> Table:
        at = nodes(schedule, self.steps, self.grid)
        row = at.t.new_zeros(self.nfe, 1 + 2 * self.order)
        row[:, 0] = at.sigma[1:] / at.sigma[:-1]
        for order, steps in by_order(self.nfe, self.order, self.lower_order_final).items():
            row[steps, 1 : 1 + 2 * order : 2] = data_weights(at, steps, order, self.published)
        return finished("DPM-Solver++", at, twice(row))


def by_order(nfe: int, order: int, lower_order_final: bool) -> dict[int, Tensor]:
    """Which steps run at which order: limited by the history and, if wanted, by the steps that remain."""
    steps = torch.arange(nfe)
    orders = (steps + 1).clamp(max=order)
    if lower_order_final:
        orders = torch.minimum(orders, nfe - steps)
    return {k: steps[orders == k] for k in range(1, order + 1) if bool((orders == k).any())}


def data_weights(at: Nodes, c: Tensor, order: int, published: bool) -> Tensor:
    """Weights of data_c, data_{c-1}, ... for the steps c: (len(c), order)."""
    n, lam = c + 1, at.half_log_snr()
    h, alpha_n = lam[n] - lam[c], at.alpha[n]
    Q = alpha_n - at.sigma[n] / at.sigma[c] * at.alpha[c]
    if order == 1:
        return Q[:, None]
    q0 = h / (lam[c] - lam[c - 1])  # 1 / r0, which is 0 if the older prediction was made at alpha = 0
    if order == 2:
        return torch.stack([Q + Q * q0 / 2, -Q * q0 / 2], 1)
    q1 = h / (lam[c - 1] - lam[c - 2])
    phi, share = torch.expm1(-h), q1 / (q0 + q1)  # r0 / (r0 + r1)
    first = alpha_n * (phi / h + 1)  # of D1 = h f'
    second = -alpha_n * ((phi + h) / h**2 - 0.5) * (1 if published else 2)  # of D2 = h^2 f'' / 2
    newer = q0 * (first * (1 + share) + second * q0 * share)  # of data_c - data_{c-1}
    older = -q1 * share * (first + second * q0)  # of data_{c-1} - data_{c-2}
    return torch.stack([Q + newer, older - newer, -older], 1)
