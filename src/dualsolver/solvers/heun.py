"""Heun's method as EDM uses it (Karras et al. 2022): two stages a step, so the state waits at its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..schedule import Schedule
from ..table import Table
from .base import Choices, Fixed, Grid, Nodes, finished, nodes, twice


@dataclass(frozen=True, eq=False)
class Heun(Fixed):
    """An Euler step to the next node, then the trapezoid from where the step began.

    EDM steps in sigma / alpha, which is the noise form; "velocity" is the trapezoid in (alpha, sigma), for
    flow models the usual Heun in t. An odd NFE ends with one Euler step, as EDM's last step to sigma = 0.
    """

    nfe: int
    grid: Grid = None
    prediction: str = "noise"
    choices: ClassVar[Choices] = {"prediction": ("noise", "velocity", "data")}
    evaluations = 2
    convergence = 2

    def __call__(self, schedule: Schedule) -> Table:
        at = nodes(schedule, self.steps, self.grid)
        if self.nfe % 2 == 0 and at.sigma[-1] == 0:
            raise ValueError(
                "Heun with an even NFE evaluates at the last time, where sigma = 0: take an odd NFE"
            )
        first, second = self._euler(at), self._trapezoid(at)
        weights = torch.stack([first, second], 1).flatten(0, 1)[: self.nfe]
        if self.nfe % 2:
            weights = torch.cat([weights[:-1], twice(first[-1:, 1])])
        visits = Nodes(*(_visits(x)[: self.nfe] for x in at))
        return finished(
            "Heun", Nodes(*(torch.cat([v, x[-1:]]) for v, x in zip(visits, at, strict=True))), weights
        )

    def _euler(self, at: Nodes) -> Tensor:
        """The state stays; the query goes to the next node by DDIM."""
        zero, one = torch.zeros_like(at.t[1:]), torch.ones_like(at.t[1:])
        stay = torch.stack([one, zero, zero, zero, zero], 1)
        return torch.stack([stay, torch.stack([zero, at.alpha[1:], at.sigma[1:], zero, zero], 1)], 1)

    def _trapezoid(self, at: Nodes) -> Tensor:
        """x_n = A x + Q_u (data_c + data_n) / 2 + Q_v (noise_c + noise_n) / 2."""
        alpha, sigma, alpha_next, sigma_next = at.alpha[:-1], at.sigma[:-1], at.alpha[1:], at.sigma[1:]
        carry = {"noise": alpha_next / alpha, "data": sigma_next / sigma, "velocity": torch.ones_like(alpha)}
        A = carry[self.prediction]
        of_data, of_noise = (alpha_next - A * alpha) / 2, (sigma_next - A * sigma) / 2
        return twice(torch.stack([A, of_data, of_noise, of_data, of_noise], 1))


def _visits(x: Tensor) -> Tensor:
    """Where the two evaluations of each step happen: its start and its end."""
    return torch.stack([x[:-1], x[1:]], 1).flatten()
