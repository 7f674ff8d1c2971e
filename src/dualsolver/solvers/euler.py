"""Euler steps in half-log-SNR, whose result depends on the prediction type (the paper's discrepancy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ..schedule import Schedule
from ..table import Table
from .base import Choices, Fixed, Grid, finished, nodes, twice


@dataclass(frozen=True, eq=False)
class Euler(Fixed):
    """One Euler step in lambda = log(alpha / sigma) of each differential form in Table predictions.

    noise:    x_n = (alpha_n / alpha_c) (x - sigma_c h noise_c)
    velocity: x_n = x + h (dalpha/dlambda data_c + dsigma/dlambda noise_c)
    data:     x_n = (sigma_n / sigma_c) (x + alpha_c h data_c)         with h = lambda_n - lambda_c
    """

    nfe: int
    grid: Grid = None
    prediction: str = "noise"
    choices: ClassVar[Choices] = {"prediction": ("noise", "velocity", "data")}
    convergence = 1

    def __call__(self, schedule: Schedule) -> Table:
        at = nodes(schedule, self.steps, self.grid)
        alpha, sigma = at.alpha[:-1], at.sigma[:-1]
        h = at.half_log_snr().diff()
        if self.prediction == "noise":
            carry = at.alpha[1:] / alpha
            row = (carry, torch.zeros_like(h), -carry * sigma * h)
        elif self.prediction == "data":
            carry = at.sigma[1:] / sigma
            row = (carry, carry * alpha * h, torch.zeros_like(h))
        else:  # (dalpha, dsigma)/dlambda = -alpha sigma times the schedule's unit velocity
            of_data, of_noise = schedule.velocity(alpha, sigma)
            row = (torch.ones_like(h), -alpha * sigma * h * of_data, -alpha * sigma * h * of_noise)
        return finished("Euler in half-log-SNR", at, twice(torch.stack(row, 1)))
