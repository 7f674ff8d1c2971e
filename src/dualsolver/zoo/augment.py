"""Random changes of a batch of images, drawn from torch's global generator, one draw per image."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


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


def warped(images: Tensor, turn: float = 0.15, scale: float = 0.15, move: float = 0.12) -> Tensor:
    """Turn, scale and move every image a little; what comes in at the edges is like the edges."""
    small = torch.rand(4, len(images)) * 2 - 1
    angle, size = turn * small[0], 1 + scale * small[1]
    cosine, sine = size * angle.cos(), size * angle.sin()
    rows = torch.stack([cosine, -sine, move * small[2], sine, cosine, move * small[3]], 1)
    where = functional.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    found: Tensor = functional.grid_sample(images, where, padding_mode="border", align_corners=False)
    return found


def spoiled(images: Tensor, noise: float = 0.15, contrast: float = 0.25) -> Tensor:
    """Blur, noise and another contrast, of another strength in every image: what generators get wrong."""
    share, deviation, gain = torch.rand(3, len(images), 1, 1, 1)
    smooth = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, 1)
    mixed = torch.lerp(images, smooth, share) * (1 + contrast * (2 * gain - 1))
    spread = noise * deviation**2
    found: Tensor = mixed + spread * torch.randn_like(images)
    return found


def augmented(images: Tensor, strength: int) -> Tensor:
    """Return images as a recipe asks for: 0 as they are, 1 shifted and flipped, 2 erased as well,
    3 warped and spoiled (letters and arrows have no mirror image), 4 erased as well.
    """
    if strength > 2:
        images = spoiled(warped(images))
    elif strength > 0:
        images = flip(shift(images))
    return erase(images) if strength in (2, 4) else images
