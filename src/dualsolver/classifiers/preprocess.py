"""From images as a decoder makes them to what a classifier was trained on, differentiably."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check_choice


def straight_through_clamp(images: Tensor) -> Tensor:
    """Clamp to [0, 1] with the gradient of the identity, so that a pixel beyond the end can still come back.

    The difference that carries the gradient is exactly zero, so the values are exactly those of `clamp`; and
    as it is made of plain operations, forward-mode and second derivatives pass too.

    >>> x = torch.tensor([-0.5, 0.25, 3.0], requires_grad=True)
    >>> straight_through_clamp(x).tolist()
    [0.0, 0.25, 1.0]
    >>> torch.autograd.grad(straight_through_clamp(x).sum(), x)[0].tolist()
    [1.0, 1.0, 1.0]
    """
    return images.detach().clamp(0, 1) + (images - images.detach())


@dataclass(frozen=True)
class Preprocess:
    """Resize, centre crop and normalise as weights ask for: (B, C, H, W) -> (B, K, crop, crop).

    `resize` is the length of the shorter side, or (height, width); K is the length of `mean`. A grey image
    goes to a network of three channels as three equal ones. Bicubic overshoot stays, as with torchvision's
    transforms on float tensors.

    >>> Preprocess(resize=8, crop=6, mean=(0.5,), std=(0.5,))(torch.ones(2, 1, 16, 20)).unique().tolist()
    [1.0]
    """

    resize: int | tuple[int, int]
    crop: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, ("nearest", "bilinear", "bicubic"))

    def __call__(self, images: Tensor) -> Tensor:
        x = self.coloured(checked(images))
        x = self.centre(self.resized(x))
        mean, std = (x.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (x - mean) / std

    def coloured(self, images: Tensor) -> Tensor:
        """Repeat a grey channel as often as the network has channels; refuse what cannot be matched."""
        channels = len(self.mean)
        if images.shape[1] not in (1, channels):
            raise ValueError(
                f"the classifier takes images of {channels} channels (or grey ones), not {images.shape[1]}"
            )
        return images.expand(-1, channels, -1, -1)

    def resized(self, images: Tensor) -> Tensor:
        """Resize, the shorter side to `resize` and the longer one in proportion (rounded down)."""
        shape = (images.shape[-2], images.shape[-1])
        size = self.resize
        if isinstance(size, int):
            size = (size * shape[0] // min(shape), size * shape[1] // min(shape))
        if shape == size:
            return images
        if self.interpolation == "nearest":
            return functional.interpolate(images, size)
        return functional.interpolate(
            images, size, mode=self.interpolation, align_corners=False, antialias=self.antialias
        )

    def centre(self, images: Tensor) -> Tensor:
        """Cut out the centre, with zeros around images that are smaller than the crop."""
        height, width = images.shape[-2:]
        rows, columns = max(0, self.crop - height), max(0, self.crop - width)
        if rows or columns:
            around = (columns // 2, (columns + 1) // 2, rows // 2, (rows + 1) // 2)
            images = functional.pad(images, around)
        top, left = (round((side - self.crop) / 2) for side in images.shape[-2:])
        return images[..., top : top + self.crop, left : left + self.crop]


def checked(images: Tensor) -> Tensor:
    """Return images (B, C, H, W) as float32; refuse whole numbers, whose scale is not [0, 1]."""
    if not (torch.is_tensor(images) and images.ndim == 4 and images.is_floating_point()):
        raise ValueError(
            "a classifier takes float images (B, C, H, W) between 0 and 1, not "
            f"{f'{images.dtype} {tuple(images.shape)}' if torch.is_tensor(images) else type(images).__name__}"
        )
    return images.float() if images.dtype in (torch.float16, torch.bfloat16) else images
