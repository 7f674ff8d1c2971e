"""The autoencoder of SANA: diffusers' AutoencoderDC from 3 x 32 x 32 images to 32 x 4 x 4 latents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..autoencoder import distance
from ..data import scaled
from ..latents import encode
from ..task import Task
from .data import Emoji

PULL, NOISE = 1e-3, 0.1  # of each channel to N(0, 1), and what the decoder has to bear


def build(options: dict[str, Any]) -> Any:
    """Make an untrained autoencoder with a factor of 8; attention on the smallest images only."""
    from diffusers import AutoencoderDC

    widths, depths = options["widths"], options["depths"]
    levels = len(widths)
    both = {
        "block_types": ["ResBlock"] * (levels - 1) + ["EfficientViTBlock"],
        "block_out_channels": widths,
        "layers_per_block": depths,
        "qkv_multiscales": [()] * (levels - 1) + [(5,)],
    }
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    return AutoencoderDC(latent_channels=options["latent_channels"], attention_head_dim=16, **sides)


def task(options: dict[str, Any], strength: int, emoji: Emoji) -> Task:
    """Errors of pixels and edges through noisy latents, each channel pulled to mean 0 and deviation 1."""
    model = build(options)

    def loss(model: Any, chosen: Tensor) -> Tensor:
        x = scaled(emoji.pictures[chosen])
        z = model.encode(x).latent
        again: Tensor = model.decode(z + NOISE * torch.randn_like(z)).sample.float()
        variance, mean = torch.var_mean(z.float(), (0, 2, 3))
        pull = (mean.square() + variance - 1 - variance.log()).mean() / 2
        return distance(again, x) + PULL * pull

    def export(folder: Path) -> None:
        latents = encode(model, emoji.pictures[:4000])
        model.register_to_config(scaling_factor=1 / latents.std().item())
        model.half().save_pretrained(folder)

    return Task(model, loss, len(emoji), export)
