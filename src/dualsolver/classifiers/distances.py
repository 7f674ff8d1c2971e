"""Distances between images in a network's features: the objectives of feature regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..checks import check_choice
from ..extras import needs
from .classifier import state_hash
from .preprocess import checked
from .vision import cached, resolve
from .weights import State, read_weights

Distance = Callable[[Tensor, Tensor], Tensor]  # images and targets (B, C, H, W) in [0, 1] -> (B,)
Features = Callable[[Tensor], Tensor | Sequence[Tensor]]
TRUNKS = {"alex": "alexnet", "vgg": "vgg16", "squeeze": "squeezenet1_1"}
SMALLEST = 64  # below it the trunks' last layers have hardly a pixel


def feature_distance(network: Features) -> Distance:
    """Mean squared difference of features, one number an image.

    `network` takes images as they are and returns a tensor with the batch first, or a sequence of them whose
    distances are added up.

    >>> distance = feature_distance(lambda images: images.mean((2, 3)))
    >>> distance(torch.ones(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)).tolist()
    [1.0, 1.0]
    """

    def distance(images: Tensor, targets: Tensor) -> Tensor:
        pairs = zip(_list(network(same_shape(images, targets))), _list(network(targets)), strict=True)
        return sum(((a - b).float() ** 2).flatten(1).mean(1) for a, b in pairs)  # type: ignore[return-value]

    return distance


def _list(features: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [features] if isinstance(features, Tensor) else features


def same_shape(images: Tensor, targets: Tensor) -> Tensor:
    """Return the images; targets of another shape would be broadcast, silently."""
    if images.shape != targets.shape:
        raise ValueError(
            f"images {tuple(images.shape)} and targets {tuple(targets.shape)} must have one shape"
        )
    return images


@dataclass(frozen=True, eq=False)
class Perceptual:
    """LPIPS, one number an image: (B, C, H, W) twice, in [0, 1] but not clamped -> (B,).

    Grey images become three equal channels. Smaller images than 64 are enlarged to 64 (bilinear), because the
    trunks halve them four or five times; LPIPS was calibrated on patches of 64.
    """

    name: str
    network: nn.Module = field(repr=False)
    sha256: str

    def __call__(self, images: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(images.device.type, enabled=False):
            found: Tensor = self.network(_prepared(same_shape(images, targets)), _prepared(targets))
            return found.flatten(1).mean(1)


def _prepared(images: Tensor) -> Tensor:
    x = checked(images).float()
    if x.shape[1] not in (1, 3):
        raise ValueError(f"LPIPS compares grey or RGB images, not {x.shape[1]} channels")
    scale = SMALLEST / min(x.shape[-2:])
    if scale > 1:
        size = [round(side * scale) for side in x.shape[-2:]]
        x = functional.interpolate(x, size, mode="bilinear", align_corners=False)
    return 2 * x.expand(-1, 3, -1, -1) - 1


def perceptual(
    net: str = "alex", file: str | Path | None = None, device: str | torch.device = "cpu"
) -> Perceptual:
    """Return LPIPS (version 0.1) with the trunk "alex", "vgg" or "squeeze".

    The calibrated heads are in the lpips package. The trunk is torchvision's ImageNet classifier, from a file
    (`file`, or in one text: "vgg=path/to/file") or from torch's cache; it is never downloaded behind one's
    back. Only its `features` are needed.
    """
    net, equals, path = net.partition("=")
    file = path if equals else file
    check_choice("net", net, tuple(TRUNKS))
    with needs("learn"):
        import lpips
    trunk = _trunk(net, Path(file) if file else None)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lpips calls torchvision in its old way
        network: Any = lpips.LPIPS(net=net, pnet_rand=True, verbose=False)
    _fill(network.net, trunk, net)
    network = network.to(device).eval().requires_grad_(False)
    return Perceptual(f"lpips-{net}", network, state_hash(network))


def _trunk(net: str, file: Path | None) -> State:
    weights = resolve(TRUNKS[net])
    place = file or cached(weights)
    if not place.is_file():
        raise ValueError(
            f"the trunk of LPIPS ({net}) is not at {place}: name its file ({net}=path/to/file), "
            f"or fetch it once with torch.hub.load_state_dict_from_url('{weights.url}')"
        )
    return read_weights(place, cached(weights).name)


def _fill(network: nn.Module, state: State, net: str) -> None:
    """Put torchvision's `features.N.*` where lpips keeps them: `sliceK.N.*`."""
    for name, parameter in network.named_parameters():
        source = name.replace(name.split(".")[0], "features", 1)
        if source not in state or state[source].shape != parameter.shape:
            shape = f"of shape {tuple(parameter.shape)}"
            raise ValueError(f"the trunk of LPIPS ({net}) needs {source} {shape}: the file has none")
        parameter.data.copy_(state[source])
