"""What the configs of a diffusers pipeline say: its class, the shape of a latent, its shift, its guidance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any

import diffusers

from ..schedule import Flow, Schedule

PACKED = (128, 128)  # latents where the network's config has no size: these pipelines pack them in 2 x 2
DECODERS = ("AutoencoderKL", "AutoencoderDC")
CALLED = ("prompt", "height", "width", "guidance_scale")
PAPER = {"PixArtAlphaPipeline": 3.5}  # guidance, where it is not that of the pipeline


def pipeline_class(source: str, index: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the class of a pipeline, and whether its network is the unet or the transformer."""
    name = str(index.get("_class_name"))
    found = getattr(diffusers, name, None)
    known = signature(found.__call__).parameters if found else {}
    parts = [part for part in ("unet", "transformer") if index.get(part, [None])[0]]
    reasons = {
        "diffusers has no such class": found is None,
        "it is not called with prompts, a size and guidance": not set(CALLED) <= set(known),
        "it starts from an image": "image" in known,
        "it has no unet or transformer": len(parts) != 1,
        f"its decoder is none of {', '.join(DECODERS)}": index.get("vae", [None, None])[1] not in DECODERS,
    }
    for reason, wrong in reasons.items():
        if wrong:
            raise ValueError(f"{source} is a {name}, which no backbone here wraps ({reason}): use ds.wrap")
    return found, parts[0]


def unneeded(index: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a pipeline that a prompt does not go through, left out."""
    needed = ("text_encoder", "tokenizer", "scheduler")
    parts = {k: None for k, v in index.items() if isinstance(v, list) and not k.startswith(needed)}
    return parts | {name: False for name in index if name == "requires_safety_checker"}


def check_drawable(source: str, network: Mapping[str, Any], decoder: Mapping[str, Any]) -> None:
    """Refuse networks that see more than latents, and those that were distilled for a guidance scale."""
    channels, wanted = network["in_channels"], decoder["latent_channels"]
    if network.get("sample_size") is not None and channels != wanted:
        raise ValueError(
            f"{source} does not draw from noise alone: its network has {channels} channels, "
            f"its decoder {wanted}"
        )
    if network.get("time_cond_proj_dim") is not None:
        raise ValueError(f"{source} is distilled for few steps and a guidance (LCM): take the full model")


def latent_shape(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of one latent as the network sees it, packed latents being rows of tokens."""
    channels, side = config["in_channels"], config.get("sample_size")
    if side is None:
        return (math.prod(PACKED) // 4, channels)
    return (channels, side, side) if isinstance(side, int) else (channels, *side)


def tokens(shape: tuple[int, ...], config: Mapping[str, Any]) -> int:
    """How many tokens a latent makes."""
    return shape[0] if len(shape) == 2 else math.prod(shape[1:]) // config.get("patch_size", 1) ** 2


def shifted(schedule: Schedule, config: Mapping[str, Any], length: int) -> Schedule:
    """Shift a flow's grid by the length of its sequence, where its scheduler does so.

    >>> shifted(Flow(), {"use_dynamic_shifting": True}, 4096).shift == math.exp(1.15)
    True
    """
    if not (isinstance(schedule, Flow) and config.get("use_dynamic_shifting")):
        return schedule
    first, last = config.get("base_image_seq_len", 256), config.get("max_image_seq_len", 4096)
    low, high = config.get("base_shift", 0.5), config.get("max_shift", 1.15)
    mu = low + (high - low) * (length - first) / (last - first)
    linear = config.get("time_shift_type") == "linear"
    return Flow(mu if linear else math.exp(mu), schedule.time_scale)


def usual_guidance(pipeline: Any, told: bool) -> float:
    """The scale of the paper, or a pipeline's default: what its network is told, or that of two calls."""
    known = signature(pipeline.__call__).parameters
    name = "true_cfg_scale" if "true_cfg_scale" in known and not told else "guidance_scale"
    return PAPER.get(pipeline.__name__, float(known[name].default))
