"""Any diffusers pipeline that draws images of prompts: PixArt, SANA, Stable Diffusion, SDXL, Flux and more.

What a network is told beside latents and time differs in every family: pooled embeddings, sizes, positions.
None of it is repeated here: the pipeline itself runs, with its text encoders, up to its first call of the
network, and what it passes there is the condition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, final

import diffusers
import torch
from torch import Tensor, nn

from ..schedule import Flow, Schedule
from .base import Backbone
from .firstcall import Call, first_call, nested
from .pretrained import Decoder, around, component, read_config, schedule_of
from .prompts import Encode, Encoded, Prompts

PACKED = (128, 128)  # latents where the network's config has no size: these pipelines pack them in 2 x 2
DECODERS = ("AutoencoderKL", "AutoencoderDC")
PAPER = {"PixArtAlphaPipeline": 3.5}  # guidance, where it is not that of the pipeline


@final
class Pipeline(Backbone):
    """A network and its decoder, with the pipeline's class, which knows how they are called."""

    def __init__(
        self, source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device
    ) -> None:
        index = read_config(source, "")
        self._class, self._part = pipeline_class(source, index)
        self.name, self.device, self.dtype = source, device, dtype or torch.float32
        network = getattr(diffusers, index[self._part][1])
        self.network: nn.Module = component(network, source, self._part, variant, self.dtype, device)
        config: Any = self.network.config
        self.shape = latent_shape(config)
        scheduler = read_config(source, "scheduler")
        schedule, self.kind = schedule_of(scheduler)
        self.schedule = shifted(schedule, scheduler, tokens(self.shape, config))
        self.told = bool(config.get("guidance_embeds"))
        self.guidance = usual_guidance(self._class, self.told)
        self._decoder = Decoder(source, variant, device, getattr(diffusers, index["vae"][1])).recompute()
        self._check_channels()
        self._prompts = Prompts(self._encoder, device, self.dtype)
        self._variant = variant
        self._shared: dict[str, Any] = {}  # what the network is told of no image in particular
        self._input, self._divisor = next(iter(signature(self.network.forward).parameters)), 1.0

    def _check_channels(self) -> None:
        config: Any = self._decoder.vae.config
        if len(self.shape) == 3 and self.shape[0] != config.latent_channels:
            raise ValueError(
                f"{self.name} does not draw from noise alone: its network has {self.shape[0]} channels, its "
                f"decoder {config.latent_channels}"
            )

    def _encoder(self) -> Encode:
        """Load the pipeline around the network, with its text encoders."""
        index = read_config(self.name, "")
        gemma = str(index["text_encoder"][1]).startswith("Gemma")  # overflows in float16
        dtype = torch.bfloat16 if gemma and self.dtype == torch.float16 else self.dtype
        parts = {**unneeded(index), self._part: self.network, "vae": self._decoder.vae}
        pipeline = around(self._class, self.name, self._variant, dtype=dtype, **parts).to(self.device)
        size = self.shape[1:] if len(self.shape) == 3 else PACKED

        def encode(prompts: list[str], null: bool) -> Encoded:
            if not null:
                return self._own(first_call(pipeline, self.network, prompts, size), len(prompts), -1)
            call = first_call(
                pipeline, self.network, [*prompts, *prompts], size
            )  # two show what is batch first
            self._keep(call)
            return self._own(call, 2, 0)

        return encode

    def _keep(self, call: Call) -> None:
        """Remember what is not batch first."""
        if call.x.shape[1:] != self.shape:
            raise ValueError(
                f"{self._class.__name__} has latents of shape {tuple(call.x.shape[1:])}, not {self.shape}: "
                "ds.wrap takes its network"
            )
        if self.told and "guidance" not in call.told:
            raise ValueError(
                f"the network of {self.name} is told its guidance, which {self._class.__name__} does not do"
            )
        self._shared = {
            name: value
            for name, value in call.told.items()
            if not (isinstance(value, Tensor) and value.ndim and len(value) == len(call.x))
        }
        self._divisor = call.divisor

    def _own(self, call: Call, count: int, half: int) -> Encoded:
        """What belongs to each prompt; where guidance doubled the batch, the null prompts come first."""
        doubled = len(call.x) // count
        return {
            name: value.chunk(doubled)[half] for name, value in call.told.items() if name not in self._shared
        }

    def conditions(self, items: Sequence[str]) -> Encoded:
        return self._prompts(items)

    def null(self, condition: Encoded) -> Encoded:
        return self._prompts.null(condition)

    def model(self, x: Tensor, time: Tensor, condition: Encoded) -> Tensor:
        others = nested({**self._shared, **condition, "return_dict": False})
        output: Tensor = self.network(**{self._input: x}, timestep=time / self._divisor, **others)[0]
        return output[:, : self.shape[0]]  # what follows is a learned variance, which an ODE has no use for

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        if latents.ndim == 3:
            latents = self._class._unpack_latents(latents, *PACKED, 1)
        return self._decoder(latents, clamp)


def pipeline_class(source: str, index: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the class of a pipeline, and whether its network is the unet or the transformer."""
    name = str(index.get("_class_name"))
    found = getattr(diffusers, name, None)
    known = signature(found.__call__).parameters if found else {}
    parts = [part for part in ("unet", "transformer") if index.get(part, [None])[0]]
    reasons = {
        "diffusers has no such class": found is None,
        "it is not called with prompts and a guidance scale": not {"prompt", "guidance_scale"} <= set(known),
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


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> Pipeline:
    """Load a pipeline from a folder or a hub id; its text encoders only with the first prompts."""
    return Pipeline(source, dtype, variant, device)
