"""Small classifiers for images (B, C, 32, 32) in [-1, 1]: `features` (B, D), then a linear head.

Fewer than five ideas, so that the zoo has judges and teachers that fail in different ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class Classifier(nn.Module):
    """A trunk that makes features and a head that makes logits of them."""

    def __init__(self, trunk: nn.Module, width: int, classes: int = 10, channels: int = 1) -> None:
        super().__init__()
        self.trunk, self.head, self.channels = trunk, nn.Linear(width, classes), channels

    def features(self, images: Tensor) -> Tensor:
        """(B, C, 32, 32) -> (B, D)."""
        found: Tensor = self.trunk(images)
        return found

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(images))
        return logits


class Residual(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut (pre-activation)."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(into), nn.BatchNorm2d(out)
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(into, out, 1, stride, bias=False) if into != out else None

    def forward(self, x: Tensor) -> Tensor:
        ready = functional.relu(self.norm1(x))
        beside = x if self.shortcut is None else self.shortcut(ready)
        result: Tensor = beside + self.conv2(functional.relu(self.norm2(self.conv1(ready))))
        return result


class Separable(nn.Module):
    """A depthwise 5 x 5 convolution and an inverted bottleneck beside a shortcut."""

    def __init__(self, width: int, expand: int = 3) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 5, 1, 2, groups=width, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.rise, self.fall = nn.Conv2d(width, expand * width, 1), nn.Conv2d(expand * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.fall(functional.gelu(self.rise(self.norm(self.mix(x)))))
        return result


class Pooled(nn.Module):
    """Mean and, for `both`, maximum over the pixels."""

    def __init__(self, both: bool = False) -> None:
        super().__init__()
        self.both = both

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3))
        return torch.cat([mean, x.amax((2, 3))], 1) if self.both else mean


def _conv(into: int, out: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]


def linear(size: int = 8) -> Classifier:
    """A linear classifier of the image shrunk to size x size."""
    return Classifier(nn.Sequential(nn.AdaptiveAvgPool2d(size), nn.Flatten()), size * size)


def mlp(size: int = 16, widths: Sequence[int] = (128,), dropout: float = 0.1) -> Classifier:
    """A perceptron on the image shrunk to size x size."""
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(size), nn.Flatten()]
    for into, out in zip((size * size, *widths), widths, strict=False):
        layers += [nn.Linear(into, out), nn.BatchNorm1d(out), nn.ReLU(), nn.Dropout(dropout)]
    return Classifier(nn.Sequential(*layers), widths[-1])


def cnn(widths: Sequence[int] = (8, 16)) -> Classifier:
    """Strided convolutions, then the mean."""
    layers = [part for a, b in zip((1, *widths), widths, strict=False) for part in _conv(a, b, 2)]
    return Classifier(nn.Sequential(*layers, Pooled()), widths[-1])


def vgg(
    widths: Sequence[int] = (16, 32, 64),
    depth: int = 2,
    both: bool = False,
    classes: int = 10,
    channels: int = 1,
) -> Classifier:
    """Stages of `depth` convolutions with a maximum over 2 x 2 between them."""
    layers: list[nn.Module] = []
    for into, out in zip((channels, *widths), widths, strict=False):
        for i in range(depth):
            layers += _conv(into if i == 0 else out, out)
        layers.append(nn.MaxPool2d(2))
    layers[-1] = Pooled(both)
    return Classifier(nn.Sequential(*layers), widths[-1] * (2 if both else 1), classes, channels)


def resnet(widths: Sequence[int] = (16, 32, 64), depth: int = 2) -> Classifier:
    """Stages of residual blocks; every stage but the first starts with a stride of 2."""
    layers: list[nn.Module] = [nn.Conv2d(1, widths[0], 3, 1, 1, bias=False)]
    for stage, (into, out) in enumerate(zip((widths[0], *widths), widths, strict=False)):
        layers += [Residual(into if i == 0 else out, out, 2 if stage and i == 0 else 1) for i in range(depth)]
    return Classifier(nn.Sequential(*layers, nn.BatchNorm2d(widths[-1]), nn.ReLU(), Pooled()), widths[-1])


def mixer(width: int = 48, depth: int = 4, patch: int = 2) -> Classifier:
    """Patches, then separable blocks at one resolution (after ConvMixer and ConvNeXt)."""
    stem = [nn.Conv2d(1, width, patch, patch), nn.BatchNorm2d(width)]
    blocks = [Separable(width) for _ in range(depth)]
    return Classifier(nn.Sequential(*stem, *blocks, nn.BatchNorm2d(width), Pooled()), width)


FAMILIES: dict[str, Callable[..., Classifier]] = {
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
    "vgg": vgg,
    "resnet": resnet,
    "mixer": mixer,
}
