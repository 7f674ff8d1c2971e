"""Which images a run makes: each depends on its number alone, and on nothing of who makes it when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .backbones.base import Backbone
from .draws import draw
from .sample import sample
from .table import Table


class Batch(NamedTuple):
    """Unclamped images, what was asked for, and the classes if that is what it was."""

    images: Tensor
    items: list[Any]
    classes: Tensor | None


@dataclass(frozen=True)
class Sampling:
    """Which images: `count` samples of a table on a backbone, in batches of `batch`.

    items: the classes to draw from, or the prompts, which are taken in turn.
    """

    backbone: Backbone
    table: Table
    items: Sequence[Any]
    guidance: float
    seed: int
    count: int
    batch: int = 100

    def batches(self) -> range:
        """The numbers of the batches."""
        return range(-(-self.count // self.batch))

    def indices(self, batch: int) -> range:
        """The numbers of the images of a batch."""
        return range(batch * self.batch, min(self.count, (batch + 1) * self.batch))

    def _prompts(self, batch: int) -> list[Any]:
        return [self.items[i % len(self.items)] for i in self.indices(batch)]

    def _drawn(self, batch: int) -> tuple[Tensor, list[Any]]:
        noise, items = draw(self.backbone.shape, self.items, self.seed, self.indices(batch))
        return noise, items if self.backbone.classes else self._prompts(batch)

    def asked(self, count: int) -> list[Any]:
        """What the first images are asked to be: classes or prompts."""
        batches = range(-(-count // self.batch))
        return [item for batch in batches for item in self._drawn(batch)[1]][:count]

    def encode(self, batches: Sequence[int]) -> None:
        """Let the backbone know the prompts of some batches: it loads its text encoders once for all."""
        if not self.backbone.classes:
            self.backbone.conditions([prompt for batch in batches for prompt in self._prompts(batch)])

    @torch.no_grad()
    def images(self, batch: int) -> Batch:
        """Make one batch."""
        noise, items = self._drawn(batch)
        condition = self.backbone.conditions(items)
        start = self.backbone.schedule.prior(noise.to(self.backbone.device))
        latents = sample(self.backbone.predict(condition, self.guidance), start, self.table)
        images = self.backbone.decode(latents, clamp=False)
        return Batch(images, items, condition if torch.is_tensor(condition) else None)
