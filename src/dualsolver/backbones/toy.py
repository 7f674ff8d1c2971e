"""A backbone with exact answers: data whose every coordinate is drawn from the same 1-D Gaussian mixture.

The network's predictions and the end of the sampling ODE are both known in closed form, because in one
dimension the flow keeps quantiles: F_t(x_t) is the same at every t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ..prediction import Predict, Prediction
from ..schedule import VP, Schedule
from .base import Backbone, class_numbers


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians with the given means, standard deviations and weights (equal if not given).

    >>> from dualsolver.schedule import Flow
    >>> x = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    >>> Mixture([0.0], [1.0]).solution(x, Flow(), 1.0, 0.0).round(decimals=9).tolist()  # N(0, 1) at both ends
    [-1.0, 0.5]
    """

    means: Sequence[float]
    deviations: Sequence[float]
    weights: Sequence[float] | None = None

    def predict(self, schedule: Schedule) -> Predict:
        """Return the exact predict function, E[data | x_t] and the noise that goes with it."""

        def exact(x: Tensor, t: Tensor) -> Prediction:
            alpha, sigma = schedule(t)
            centre, spread, log_weight = self._at(x, alpha, sigma)
            offset = x[..., None] - centre
            share = torch.softmax(log_weight - offset**2 / (2 * spread**2) - spread.log(), -1)
            means, deviations = self._tensor(self.means, x), self._tensor(self.deviations, x)
            data = (share * (means + alpha * deviations**2 / spread**2 * offset)).sum(-1)
            noise = (share * sigma / spread**2 * offset).sum(-1)
            return Prediction(data, noise)

        return exact

    def solution(self, x: Tensor, schedule: Schedule, start: float, end: float) -> Tensor:
        """Carry x exactly from time `start` to time `end` along the ODE: the quantile stays."""
        x = x.double()
        from_rates, to_rates = schedule(start), schedule(end)
        log_odds = self._log_odds(x, *from_rates)
        centre, spread, _ = self._at(x, *to_rates)
        reach = (x[..., None] - self._at(x, *from_rates)[0]).abs().max() / self._at(x, *from_rates)[
            1
        ].min() + 1
        low = (centre - reach * spread).amin(-1).expand_as(x)
        high = (centre + reach * spread).amax(-1).expand_as(x)
        for _ in range(80):
            middle = (low + high) / 2
            below = self._log_odds(middle, *to_rates) < log_odds
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        """Draw clean data of the given shape, float64."""
        weights = torch.tensor(self.weights or [1.0] * len(self.means))
        count = int(torch.Size(shape).numel())
        which = torch.multinomial(weights, count, replacement=True, generator=generator).view(*shape)
        noise = torch.randn(*shape, dtype=torch.float64, generator=generator)
        means, deviations = self._tensor(self.means, noise), self._tensor(self.deviations, noise)
        return means[which] + deviations[which] * noise

    def _at(self, x: Tensor, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means, deviations and log weights of x_t = alpha data + sigma noise."""
        means, deviations = self._tensor(self.means, x), self._tensor(self.deviations, x)
        spread = (alpha**2 * deviations**2 + sigma**2).sqrt()
        weights = self._tensor(self.weights or [1 / len(self.means)] * len(self.means), x)
        return alpha * means, spread, weights.log() - weights.sum().log()

    def _log_odds(self, x: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
        """log(F(x) / (1 - F(x))): monotone in x, and precise in both tails."""
        centre, spread, log_weight = self._at(x, alpha, sigma)
        z = (x[..., None] - centre) / spread
        upper = torch.logsumexp(log_weight + torch.special.log_ndtr(-z), -1)
        return torch.logsumexp(log_weight + torch.special.log_ndtr(z), -1) - upper

    def _tensor(self, values: Sequence[float], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=like.dtype, device=like.device)


@final
class Toy(Backbone):
    """The mixture as a class-conditional backbone: a class is one of its Gaussians, the null class is all.

    It goes through the network's machinery like any other: a float32 time in, a velocity out.
    """

    name, kind = "toy", "velocity"

    def __init__(self, mixture: Mixture, schedule: Schedule, shape: tuple[int, ...] = (4,)) -> None:
        self.schedule, self.shape = schedule, shape
        single = zip(mixture.means, mixture.deviations, strict=True)
        self.parts = [*(Mixture([mean], [deviation]) for mean, deviation in single), mixture]
        self.classes = tuple(map(str, range(len(mixture.means))))

    def conditions(self, items: Sequence[int | str]) -> Tensor:
        return class_numbers(items, self.classes)

    def null(self, condition: Tensor) -> Tensor:
        return torch.full_like(condition, len(self.classes))

    def model(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        first, last = self.schedule.model_time(0.0), self.schedule.model_time(1.0)
        t = ((time[0].double() - first) / (last - first)).clamp(self.schedule.t_min, self.schedule.t_max)
        of_data, of_noise = self.schedule.velocity(*self.schedule(t))
        pairs = [part.predict(self.schedule)(x, t) for part in self.parts]
        velocities = torch.stack([of_data * pair.data + of_noise * pair.noise for pair in pairs])
        return velocities[condition, torch.arange(len(x))]

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        images = latents.float() / 4 + 0.5
        return images.clamp(0, 1) if clamp else images


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> Toy:
    """Return three Gaussians in four dimensions under the linear VP schedule; it needs no files."""
    return Toy(Mixture([-1.0, 0.6, 1.5], [0.4, 0.5, 0.3]), VP.linear())
