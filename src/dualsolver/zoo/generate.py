"""Images of a generator: one seed an image, so that image 17 is the same in any batch."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from .. import generate
from ..backbones import Backbone
from ..solvers import Solver


def images(
    backbone: Backbone, solver: Solver, classes: Tensor, guidance: float, first: int = 0, batch: int = 100
) -> Iterator[Tensor]:
    """Yield images (B, 1, 32, 32) in [0, 1] of the classes (N,), in batches; image i has seed first + i."""
    seeds = range(first, first + len(classes))
    return generate.images(backbone, solver(backbone.schedule), classes.tolist(), seeds, guidance, batch)
