"""The autoencoders of class labels and of PixArt: diffusers' AutoencoderKL, with a factor of 4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .augment import flip
from .data import Images, scaled
from .task import Task

KL, EDGES = 2e-4, 0.5


def build(options: dict[str, Any]) -> Any:
    """Make an untrained autoencoder with a factor of 4."""
    from diffusers import AutoencoderKL

    levels = len(options["block_out_channels"])
    return AutoencoderKL(
        sample_size=32,
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=["UpDecoderBlock2D"] * levels,
        scaling_factor=1.0,
        **{"in_channels": 1, "out_channels": 1, "latent_channels": 4, **options},
    )


def task(options: dict[str, Any], strength: int, images: Images) -> Task:
    """Squared errors of pixels and of edges, and a small pull of the latents to N(0, 1)."""
    model = build(options)

    def loss(model: Any, chosen: Tensor) -> Tensor:
        x = scaled(images.pictures[chosen])
        x = flip(x) if strength else x
        posterior = model.encode(x).latent_dist
        again: Tensor = model.decode(posterior.sample()).sample.float()
        pull: Tensor = (posterior.mean**2 + posterior.var - 1 - posterior.logvar).mean() / 2
        return distance(again, x) + KL * pull

    def export(folder: Path) -> None:
        normalise(model, scaled(images.pictures[:4000]))
        model.half().save_pretrained(folder)

    return Task(model, loss, len(images), export)


def distance(again: Tensor, images: Tensor) -> Tensor:
    """Mean squared error of pixels, and of their differences to the neighbours on both axes.

    Absolute errors would let the median win: patterns vanish into flat grey.
    """
    error = again - images
    edges = error.diff(dim=-1).square().mean() + error.diff(dim=-2).square().mean()
    return 3 * (error.square().mean() + EDGES * edges)


@torch.no_grad()
def normalise(model: Any, images: Tensor) -> None:
    """Give every channel of the latents mean 0 and deviation 1 on these images, exactly, in the two 1 x 1
    convolutions around the latents: pipelines know one scaling factor and no shift.
    """
    means = torch.cat([model.encode(x).latent_dist.mean for x in torch.split(images, 500)])
    mean, deviation = means.mean((0, 2, 3)), means.std((0, 2, 3))
    into, out = model.quant_conv, model.post_quant_conv
    channels = len(mean)
    into.bias[:channels] = (into.bias[:channels] - mean) / deviation
    into.weight[:channels] /= deviation.view(-1, 1, 1, 1)
    into.bias[channels:] -= 2 * deviation.log()
    out.bias += out.weight[:, :, 0, 0] @ mean
    out.weight *= deviation.view(1, -1, 1, 1)
