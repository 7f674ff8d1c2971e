"""DPM-Solver++ (Lu et al. 2022): exponential multistep in data prediction, orders 1 to 3."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..schedule import Schedule
from ..table import Table
from .base import Fixed, Grid, Nodes, check_choice, check_nfe, finished, nodes, twice


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

    @property
    def convergence(self) -> int:
        """In the end 3M converges like 2M, because of its first steps; from an accurate start it has 3."""
        return min(self.order, 2)

    def __call__(self, schedule: Schedule) -> Table:
        check_choice("order", self.order, (1, 2, 3))
        at = nodes(schedule, check_nfe(self.nfe), self.grid)
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
    n, lam = c + 1, (at.alpha / at.sigma).log()
    h, alpha_n = lam[n] - lam[c], at.alpha[n]
    Q = alpha_n - at.sigma[n] / at.sigma[c] * at.alpha[c]
    if order == 1:
        return Q[:, None]
    r0 = (lam[c] - lam[c - 1]) / h
    if order == 2:
        return torch.stack([Q + Q / (2 * r0), -Q / (2 * r0)], 1)
    r1 = (lam[c - 1] - lam[c - 2]) / h
    phi = torch.expm1(-h)
    first = alpha_n * (phi / h + 1)  # of D1 = h f'
    second = -alpha_n * ((phi + h) / h**2 - 0.5) * (1 if published else 2)  # of D2 = h^2 f'' / 2
    newer = (first * (1 + r0 / (r0 + r1)) + second / (r0 + r1)) / r0  # of data_c - data_{c-1}
    older = -(first * r0 + second) / (r0 + r1) / r1  # of data_{c-1} - data_{c-2}
    return torch.stack([Q + newer, older - newer, -older], 1)
