"""Feature networks: images -> features for `metrics`, and the class that the network sees.

Every extractor takes images (B, 1 or 3, H, W) in [0, 1] and prepares them as its network was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from .checks import check_choice
from .efficientnet import pretrained


class Seen(NamedTuple):
    """What a feature network sees: features (B, D), logits (B, classes), and spatial features; float32."""

    features: Tensor
    logits: Tensor
    spatial: Tensor | None = None


Extractor = Callable[[Tensor], Seen]


class Classifier(Protocol):
    """A network whose last linear layer is apart: `head(features(x))` are its logits."""

    def features(self, images: Tensor) -> Tensor: ...

    def head(self, features: Tensor) -> Tensor: ...


def load(name: str, weights: str | Path | None = None, device: str = "cpu") -> Extractor:
    """Return "efficientnet-lite0" (ImageNet) or "inception" (that of FID); the zoo has its own, see `of`.

    `weights` is a local file; without it they come from the installed package, and from the download of
    torch-fidelity for Inception.
    """
    check_choice("features", name, tuple(EXTRACTORS))
    return EXTRACTORS[name](weights, device)


def of(network: Classifier, channels: int = 1) -> Extractor:
    """Make an extractor of a classifier for images in [-1, 1] of 1 or 3 channels, such as the zoo's judge."""
    seen_as = grey if channels == 1 else colour

    def extract(images: Tensor) -> Seen:
        features = network.features(seen_as(checked(images)) * 2 - 1)
        return Seen(features, network.head(features))

    return extract


def each(extractor: Extractor, images: Tensor, batch: int = 128) -> Iterator[Seen]:
    """Yield what is seen in one batch of images after another, without gradients."""
    for i in range(0, len(images), batch):
        with torch.no_grad():
            seen = extractor(images[i : i + batch])
        yield seen


def gathered(seen: Iterable[Seen]) -> Seen:
    """Join batches into one."""
    features, logits, spatial = zip(*seen, strict=True)
    return Seen(torch.cat(features), torch.cat(logits), None if None in spatial else torch.cat(spatial))


def efficientnet(weights: str | Path | None, device: str) -> Extractor:
    """EfficientNet-Lite0 with ImageNet weights: 1280 features, gradients included.

    Images are resized so that the shorter side has 224 pixels, and the centre is taken.
    """
    network = pretrained(weights).to(device)

    def extract(images: Tensor) -> Seen:
        return Seen(*network((square(colour(checked(images)), 224) * 255 - 127) / 128))

    return extract


def pixels(weights: str | Path | None, device: str) -> Extractor:
    """The images themselves, of whatever shape, as features: for problems so small that they suffice."""
    return lambda images: Seen(images.float().flatten(1), images.new_empty(len(images), 0))


def inception(weights: str | Path | None, device: str) -> Extractor:
    """The Inception of FID, from 2015: 2048 features; images are rounded to bytes, as FID is defined.

    The spatial features are sFID's: 7 channels of an inner layer, 2023 numbers.
    """
    from .inception import pretrained as of_2015

    network = of_2015(weights, device)

    def extract(images: Tensor) -> Seen:
        return Seen(*network((colour(checked(images)) * 255).round().clamp(0, 255).to(torch.uint8)))

    return extract


EXTRACTORS: dict[str, Callable[[str | Path | None, str], Extractor]] = {
    "efficientnet-lite0": efficientnet,
    "inception": inception,
    "pixels": pixels,
}


def checked(images: Tensor) -> Tensor:
    """Refuse what are not images in [0, 1]; return float32."""
    if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] not in (1, 3):
        found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"images must have shape (B, 1 or 3, H, W), not {found}")
    if not images.is_floating_point() or bool((images < -0.01).any() | (images > 1.01).any()):
        raise ValueError("images must be floating-point numbers between 0 and 1: divide bytes by 255")
    return images.float()


def grey(images: Tensor) -> Tensor:
    """The mean of the channels: (B, 1, H, W)."""
    return images.mean(1, keepdim=True)


def colour(images: Tensor) -> Tensor:
    """Three channels, equal if there was one: (B, 3, H, W)."""
    return images.expand(-1, 3, -1, -1)


def square(images: Tensor, size: int) -> Tensor:
    """Resize so that the shorter side has `size` pixels (bicubic, antialiased) and cut out the centre."""
    height, width = images.shape[-2:]
    scale = size / min(height, width)
    target = [max(size, round(height * scale)), max(size, round(width * scale))]
    resized = functional.interpolate(images, target, mode="bicubic", antialias=True).clamp(0, 1)
    top, left = (target[0] - size) // 2, (target[1] - size) // 2
    return resized[..., top : top + size, left : left + size]
