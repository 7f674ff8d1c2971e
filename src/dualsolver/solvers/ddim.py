"""DDIM (Song et al. 2021): rebuild the next point from the current data and noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..schedule import Schedule
from ..table import Table
from .base import Fixed, Grid, finished, nodes, twice


@dataclass(frozen=True, eq=False)
class DDIM(Fixed):
    """x_n = alpha_n data_c + sigma_n noise_c.

    >>> from dualsolver.schedule import Flow
    >>> DDIM(nfe=1, grid=[1.0, 0.0])(Flow()).weights.tolist()
    [[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]]
    """

    nfe: int
    grid: Grid = None
    convergence = 1

    def __call__(self, schedule: Schedule) -> Table:
        at = nodes(schedule, self.steps, self.grid)
        alpha_next, sigma_next = at.alpha[1:], at.sigma[1:]
        row = torch.stack([torch.zeros_like(alpha_next), alpha_next, sigma_next], 1)
        return finished("DDIM", at, twice(row))
