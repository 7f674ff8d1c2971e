"""Random changes of a batch of images, drawn from torch's global generator, one draw per image."""

from __future__ import annotations

import torch
from torch import Tensor


def flip(images: Tensor) -> Tensor:
    """Mirror half of the images (B, C, H, W) left to right."""
    chosen = torch.rand(len(images), 1, 1, 1) < 0.5
    return torch.where(chosen, images.flip(-1), images)


def shift(images: Tensor, most: int = 2) -> Tensor:
    """Move every image by up to `most` pixels each way; what leaves one side enters the other.

    With the padding of `data.read` that is background.
    """
    batch, _, height, width = images.shape
    rows = (torch.arange(height) + torch.randint(-most, most + 1, (batch, 1))) % height
    columns = (torch.arange(width) + torch.randint(-most, most + 1, (batch, 1))) % width
    moved = images.gather(2, rows[:, None, :, None].expand_as(images))
    return moved.gather(3, columns[:, None, None, :].expand_as(images))


def erase(images: Tensor, chance: float = 0.5, largest: int = 14) -> Tensor:
    """Fill a random rectangle with noise in some of the images."""
    batch, _, height, width = images.shape
    inside = _span(batch, height, largest)[:, None, :, None] & _span(batch, width, largest)[:, None, None, :]
    chosen = inside & (torch.rand(batch, 1, 1, 1) < chance)
    return torch.where(chosen, torch.rand_like(images) * 2 - 1, images)


def _span(batch: int, size: int, largest: int) -> Tensor:
    start = torch.randint(0, size, (batch, 1))
    length = torch.randint(3, largest + 1, (batch, 1))
    at = torch.arange(size)
    return (at >= start) & (at < start + length)


def augmented(images: Tensor, strength: int) -> Tensor:
    """Return images as a recipe asks for: 0 as they are, 1 shifted and flipped, 2 erased as well."""
    if strength > 0:
        images = flip(shift(images))
    return erase(images) if strength > 1 else images
