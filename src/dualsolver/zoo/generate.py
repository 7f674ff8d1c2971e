"""Images of a generator: one seed an image, so that image 17 is the same in any batch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..backbones import Backbone
from ..sample import sample
from ..solvers import Solver
from .entries import entry

GUIDANCE = {"dit": 1.5, "gmdit": 1.4}  # the paper's


def noise(shape: tuple[int, ...], seeds: range) -> Tensor:
    """Standard normal noise, each image from its own seed: (len(seeds), *shape).

    >>> bool((noise((2,), range(3, 5)) == noise((2,), range(9))[3:5]).all())
    True
    """
    return torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])


@torch.no_grad()
def images(
    backbone: Backbone, solver: Solver, classes: Tensor, guidance: float, first: int = 0, batch: int = 100
) -> Iterator[Tensor]:
    """Yield images (B, 1, 32, 32) in [0, 1] of the classes (N,), in batches; image i has seed first + i."""
    table = solver(backbone.schedule)
    for start in range(0, len(classes), batch):
        part = classes[start : start + batch]
        seeds = range(first + start, first + start + len(part))
        begin = backbone.schedule.prior(noise(backbone.shape, seeds))
        predict = backbone.predict(backbone.conditions(part.tolist()), guidance)
        yield backbone.decode(sample(predict, begin, table))


def guidance_of(name: str) -> float:
    """The guidance scale that a generator is sampled with unless told otherwise."""
    return GUIDANCE[entry(name).kind]
