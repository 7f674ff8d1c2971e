"""The latents of the training images, made once by the zoo's autoencoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import write_whole
from .data import Images, scaled


@torch.no_grad()
def encode(autoencoder: Any, images: Tensor, batch: int = 50) -> Tensor:
    """uint8 pictures (N, 1, 32, 32) -> means of their latents (N, 4, 8, 8), normalised as trained.

    Small batches stay in the cache, and bfloat16 errs less than the posterior's own deviation.
    """
    encoder = autoencoder.to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        parts = [encoder.encode(scaled(x)).latent_dist.mean.float() for x in torch.split(images, batch)]
    return torch.cat(parts).contiguous()


def latents(images: Images, runs: Path) -> tuple[Tensor, Tensor]:
    """Latents (N, 4, 8, 8) and classes (N,); kept in the folder of runs.

    What is kept carries the hashes of the images and of the autoencoder, and is made anew for others.
    """
    from safetensors import safe_open
    from safetensors.torch import save

    from .registry import load, recorded

    path, key = runs / "latents.safetensors", images.hash + recorded("autoencoder")
    if path.exists():
        with safe_open(path, "pt") as file:
            if file.metadata()["key"] == key:
                return file.get_tensor("latents").float(), images.classes
    autoencoder = load("autoencoder")
    found = encode(autoencoder, images.pictures)
    write_whole(path, save({"latents": found.half()}, {"key": key}))
    return found.half().float(), images.classes
