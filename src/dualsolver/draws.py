"""What a sample starts from: noise and condition from its own seed, the same in any batch or process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Draws(NamedTuple):
    """Standard normal noise, float32 (B, *shape), and an item for each sample: a class or a prompt."""

    noise: Tensor
    items: list[Any]


def draw(shape: Sequence[int], items: Sequence[Any], seed: int, indices: Sequence[int]) -> Draws:
    """Draw the samples with these indices, each from a generator of its own.

    >>> few, many = draw((2,), "abc", 0, [17]), draw((2,), "abc", 0, range(20))
    >>> torch.equal(few.noise[0], many.noise[17]), few.items[0] == many.items[17]
    (True, True)
    """
    generators = [_generator(seed, i) for i in indices]
    chosen = [items[int(torch.randint(len(items), (), generator=g))] for g in generators]
    return Draws(torch.stack([torch.randn(tuple(shape), generator=g) for g in generators]), chosen)


def noise(shape: Sequence[int], seeds: Sequence[int]) -> Tensor:
    """Standard normal noise, float32 (B, *shape), as pipelines draw it with a generator for each image.

    >>> bool((noise((2,), range(3, 5)) == noise((2,), range(9))[3:5]).all())
    True
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return torch.stack([torch.randn(tuple(shape), generator=g) for g in generators])


def _generator(seed: int, index: int) -> torch.Generator:
    """Torch's CPU generator knows 2^32 seeds: a hash says where a run's begin, so that none occurs twice."""
    first = int.from_bytes(sha256(str(seed).encode()).digest()[:4], "big")
    return torch.Generator().manual_seed((first + index) % 2**32)
