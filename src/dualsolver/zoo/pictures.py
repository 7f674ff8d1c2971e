"""Grids of images as PNG files."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor

from ..extras import needs
from ..files import write_whole


def grid(images: Tensor, columns: int, gap: int = 2) -> Tensor:
    """Lay out images (N, 1, H, W) in rows of `columns`, white between them: (height, width).

    >>> grid(torch.zeros(6, 1, 4, 4), columns=3).shape
    torch.Size([10, 16])
    """
    count, _, height, width = images.shape
    rows = -(-count // columns)
    sheet = torch.ones(rows * (height + gap) - gap, columns * (width + gap) - gap)
    for i, image in enumerate(images[:, 0]):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[top : top + height, left : left + width] = image
    return sheet


def save_png(path: Path, sheet: Tensor, scale: int = 2) -> None:
    """Write a grey sheet (height, width) in [0, 1], every pixel `scale` pixels wide."""
    with needs("evaluate"):
        from PIL import Image
    pixels = (sheet.clamp(0, 1) * 255).round().to(torch.uint8)
    pixels = pixels.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())
