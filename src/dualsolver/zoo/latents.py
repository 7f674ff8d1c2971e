"""The latents of the training images, made once by the zoo's autoencoder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import write_whole
from .data import scaled


@torch.no_grad()
def encode(autoencoder: Any, images: Tensor, batch: int = 50) -> Tensor:
    """uint8 pictures (N, C, 32, 32) -> their latents as a generator sees them, of deviation 1.

    Small batches stay in the cache, and bfloat16 errs less than the posterior's own deviation.
    """
    encoder = autoencoder.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        parts = [_mean(encoder.encode(scaled(x))).float() for x in torch.split(images, batch)]
    found: Tensor = torch.cat(parts).contiguous() * autoencoder.config.scaling_factor
    return found


def _mean(encoded: Any) -> Tensor:
    """What AutoencoderDC found, or the mean of what AutoencoderKL did."""
    found: Tensor = encoded.latent if "latent" in encoded else encoded.latent_dist.mean
    return found


def latents(images: Any, runs: Path, name: str) -> tuple[Tensor, Any]:
    """Latents (N, C, H, W) by an autoencoder of the zoo, and the images; kept in the folder of runs.

    What is kept carries the hashes of the images and of the autoencoder, and is made anew for others.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save

    from .registry import load, recorded

    path, key = runs / f"latents-{name}.safetensors", images.hash + recorded(name)
    if path.exists():
        with suppress(SafetensorError, KeyError, TypeError), safe_open(path, "pt") as file:  # damaged: anew
            if file.metadata()["key"] == key:
                return file.get_tensor("latents").float(), images
    found = encode(load(name), images.pictures)
    write_whole(path, save({"latents": found.half()}, {"key": key}))
    return found.half().float(), images
