"""A frozen classifier that can be learned through."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from .fresh import check_trained, head
from .preprocess import Preprocess, checked, straight_through_clamp


@dataclass(frozen=True, eq=False)
class Classifier:
    """Images straight from a decoder -> logits: straight-through clamp, own preprocessing, frozen network.

    images: (B, C, H, W) float, 0 is black and 1 white, values beyond both allowed -> float32 (B, classes).

    Autocast does not reach inside: cross entropy of logits near 16 in bfloat16 would know only steps of 0.06.
    A network without a trained head is refused; see `fresh.untrained` for what that can and cannot see.
    """

    name: str
    network: nn.Module = field(repr=False)
    preprocess: Preprocess

    def __post_init__(self) -> None:
        self.network.eval().requires_grad_(False)
        check_trained(self.name, self.network)

    def __call__(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, enabled=False):
            logits: Tensor = self.network(self.preprocess(straight_through_clamp(checked(images).float())))
        if logits.shape != (len(images), self.classes):
            raise ValueError(
                f"{self.name} must make logits of {len(images)} images, one of its {self.classes} "
                f"classes each, not {tuple(logits.shape)}: is its head missing?"
            )
        return logits.float()

    @cached_property
    def classes(self) -> int:
        """How many classes the head tells apart."""
        return len(head(self.network).weight)

    @cached_property
    def sha256(self) -> str:
        """A hash of the weights' names, types, shapes and values: for provenance, and as a key of caches."""
        return state_hash(self.network)


def state_hash(network: nn.Module) -> str:
    """sha256 of everything that a network's state holds, the same on every device.

    >>> with torch.random.fork_rng(devices=[]):
    ...     one, two = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> state_hash(one) == state_hash(two), state_hash(one) == state_hash(one)
    (False, True)
    """
    found = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()
