"""Images of classes or prompts from seeds: each the same in any batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .backbones import Backbone
from .draws import noise
from .sample import prepared
from .table import Table


@torch.no_grad()
def images(
    backbone: Backbone,
    table: Table,
    items: Sequence[Any],
    seeds: Sequence[int],
    guidance: float,
    batch: int,
    told: Callable[[int], None] = lambda evaluations: None,
) -> Iterator[Tensor]:
    """Yield batches of images (B, C, H, W) in [0, 1]; image i is of items[i], from the noise of seeds[i].

    told: hears of every evaluation, of how many images it was.
    """
    backbone.conditions(list(dict.fromkeys(items)))  # text encoders are loaded once for all prompts
    for first in range(0, len(items), batch):
        part = slice(first, first + batch)
        x = backbone.schedule.prior(noise(backbone.shape, seeds[part]).to(backbone.device))
        network = backbone.predict(backbone.conditions(items[part]), guidance)
        for step in prepared(network, table).steps(x):
            told(len(x))
            latents = step.query
        if not bool(latents.isfinite().all()):
            raise ValueError(
                f"images of seeds {list(seeds[part])} are not finite: the solver diverges, or the network "
                "overflows in its dtype"
            )
        yield backbone.decode(latents)
