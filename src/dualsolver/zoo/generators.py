"""The two generators: a DiT of the noise and a GM-DiT of a mixture of velocities, on the same latents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones.gaussians import mixture_nll
from ..files import write_whole
from ..schedule import VP
from .data import CLASSES, Images
from .task import Task

NULL = 1000  # the null class of DiTPipeline, whatever the number of classes
DROPPED = 0.1  # of the labels, so that guidance has an unconditional network
SHAPE: dict[str, Any] = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "num_embeds_ada_norm": NULL}


def levels(count: int) -> Tensor:
    """Uniform numbers in (0, 1), one in each of `count` equal parts: losses vary less between batches."""
    return (torch.arange(count) + torch.rand(count)) / count


def times(count: int) -> Tensor:
    """Times of a flow: half of them logit-normal, the other half uniform.

    Samplers start at t = 0.999, where the former alone would hardly ever come.
    """
    even = levels(count).clamp(1e-4, 1 - 1e-4)
    return torch.where(torch.rand(count) < 0.5, even, torch.sigmoid(torch.special.ndtri(even)))


def labels(classes: Tensor) -> Tensor:
    """Classes, some of them replaced by the null class."""
    return torch.where(torch.rand(len(classes)) < DROPPED, NULL, classes)


def dit(options: dict[str, Any]) -> nn.Module:
    """Make an untrained DiT; its blocks start as the identity (adaLN-zero, which diffusers leaves to us).

    Every block of diffusers' DiT has an embedding of its own, which in training drops labels on its own:
    switched off, or a label would be dropped in one block and seen in the next.
    """
    from diffusers import DiTTransformer2DModel

    model: Any = DiTTransformer2DModel(
        **SHAPE,
        **options,
        out_channels=4,
        activation_fn="gelu-approximate",
        norm_type="ada_norm_zero",
        norm_elementwise_affine=False,
    )
    for block in model.transformer_blocks:
        embedder = block.norm1.emb.class_embedder
        embedder.dropout_prob = 0.0
        nn.init.normal_(embedder.embedding_table.weight, std=0.02)
        nn.init.zeros_(block.norm1.linear.weight)
    for last in (model.proj_out_1, model.proj_out_2):
        nn.init.zeros_(last.weight)
    found: nn.Module = model
    return found


def dit_task(options: dict[str, Any], clean: Tensor, images: Images) -> Task:
    """Mean squared error of the noise, weighted by min(SNR, 5) / SNR (Hang et al., 2023).

    Times are continuous, from the first node to the last: learned solvers look between the nodes, too.
    """
    schedule = VP.linear()

    def loss(model: nn.Module, chosen: Tensor) -> Tensor:
        t = 0.001 + 0.999 * levels(len(chosen)).double()
        alpha, sigma = (rate.float().view(-1, 1, 1, 1) for rate in schedule(t))
        x, noise = clean[chosen], torch.randn(len(chosen), *clean.shape[1:])
        noisy, time = alpha * x + sigma * noise, schedule.model_time(t).float()
        found = model(noisy, timestep=time, class_labels=labels(images.classes[chosen])).sample
        weight = (5 * (sigma / alpha) ** 2).clamp(max=1)
        mean: Tensor = (weight * (found.float() - noise) ** 2).mean()
        return mean

    model = dit(options)
    return Task(model, loss, len(clean), lambda folder: save_dit(model, folder))


def gmdit(options: dict[str, Any]) -> nn.Module:
    """Make an untrained GM-DiT."""
    from ..backbones.gmdit_transformer import GMDiTTransformer2DModel

    model: nn.Module = GMDiTTransformer2DModel(**SHAPE, **options)
    return model


def gmdit_task(options: dict[str, Any], clean: Tensor, images: Images) -> Task:
    """Negative log likelihood of the velocity noise - data."""
    model = gmdit(options)

    def loss(model: nn.Module, chosen: Tensor) -> Tensor:
        t = times(len(chosen))
        x, noise, at = clean[chosen], torch.randn(len(chosen), *clean.shape[1:]), t.view(-1, 1, 1, 1)
        mixture = model((1 - at) * x + at * noise, 1000 * t, labels(images.classes[chosen]))
        return mixture_nll(**mixture, target=noise - x).mean()

    return Task(model, loss, len(clean), lambda folder: save_gmdit(model, folder))


def save_dit(model: Any, folder: Path) -> None:
    """Write what plain `diffusers.DiTPipeline.from_pretrained` opens beside the autoencoder that is there."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(
        beta_schedule="linear", beta_start=1e-4, beta_end=0.02, clip_sample=False, set_alpha_to_one=True
    )
    _save(model, scheduler, folder, "DiTPipeline", ["diffusers", "DiTTransformer2DModel"])


def save_gmdit(model: Any, folder: Path) -> None:
    """Write transformer, autoencoder and scheduler of a flow in the layout of a diffusers pipeline."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    from .registry import path

    for name in ("config.json", "diffusion_pytorch_model.safetensors"):
        write_whole(folder / "vae" / name, (path("autoencoder") / name).read_bytes())
    own = ["dualsolver.backbones.gmdit_transformer", "GMDiTTransformer2DModel"]
    _save(model, FlowMatchEulerDiscreteScheduler(shift=1.0), folder, "GMDiTPipeline", own)


def _save(model: Any, scheduler: Any, folder: Path, pipeline: str, transformer: list[str]) -> None:
    """Write the transformer in float16, the scheduler and the index of a pipeline with named classes."""
    model.half().save_pretrained(folder / "transformer")
    scheduler.save_pretrained(folder / "scheduler")
    parts = {
        "id2label": {str(i): name for i, name in enumerate(CLASSES)},
        "scheduler": ["diffusers", type(scheduler).__name__],
        "transformer": transformer,
        "vae": ["diffusers", "AutoencoderKL"],
    }
    write_index(folder, pipeline, parts)


def write_index(folder: Path, pipeline: str, parts: dict[str, Any]) -> None:
    """Write the index of a diffusers pipeline: what each of its folders holds."""
    import diffusers

    index = {"_class_name": pipeline, "_diffusers_version": diffusers.__version__, **parts}
    write_whole(folder / "model_index.json", json.dumps(index, indent=2) + "\n")
