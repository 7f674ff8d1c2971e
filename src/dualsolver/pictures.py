"""Images as PNG files, one by one or laid out as a grid."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor

from .extras import needs
from .files import write_whole


def grid(images: Tensor, columns: int, gap: int = 2) -> Tensor:
    """Lay out images (N, C, H, W) in rows of `columns`, white between them: (C, height, width).

    >>> grid(torch.zeros(6, 1, 4, 4), columns=3).shape
    torch.Size([1, 10, 16])
    """
    count, channels, height, width = images.shape
    rows = -(-count // columns)
    sheet = torch.ones(channels, rows * (height + gap) - gap, columns * (width + gap) - gap)
    for i, image in enumerate(images):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[:, top : top + height, left : left + width] = image
    return sheet


def save_png(path: Path, image: Tensor, scale: int = 2) -> None:
    """Write an image (1 or 3, height, width) in [0, 1], every pixel `scale` pixels wide."""
    with needs("diffusers"):
        from PIL import Image
    pixels = (image.clamp(0, 1) * 255).round().to(torch.uint8)
    pixels = pixels.repeat_interleave(scale, 1).repeat_interleave(scale, 2).permute(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(pixels.squeeze(2).numpy()).save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())
