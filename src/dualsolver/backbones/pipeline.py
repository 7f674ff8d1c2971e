"""Any diffusers pipeline that draws images of prompts: PixArt, SANA, Stable Diffusion, SDXL, Flux and more.

What a network is told beside latents and time differs in every family: pooled embeddings, sizes, positions.
None of it is repeated here: the pipeline itself runs, with its text encoders, up to its first call of the
network, and what it passes there is the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, final

import diffusers
import torch
from torch import Tensor, nn

from .base import Backbone
from .configs import (
    PACKED,
    check_drawable,
    latent_shape,
    pipeline_class,
    shifted,
    tokens,
    unneeded,
    usual_guidance,
)
from .firstcall import Call, first_call, nested
from .pretrained import Decoder, around, component, read_config, schedule_of
from .prompts import Encode, Encoded, Prompts


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
        check_drawable(source, config, self._decoder.config)
        self._prompts = Prompts(self._encoder, device, self.dtype)
        self._variant = variant
        self._shared: dict[str, Any] = {}  # what the network is told of no image in particular
        self._input, self._divisor = next(iter(signature(self.network.forward).parameters)), 1.0

    def _encoder(self) -> Encode:
        """Load the pipeline around the network, with its text encoders."""
        index = read_config(self.name, "")
        gemma = "Gemma" in str(index.get("text_encoder"))  # overflows in float16
        dtype = torch.bfloat16 if gemma and self.dtype == torch.float16 else self.dtype
        parts = {**unneeded(index), self._part: self.network, "vae": self._decoder.vae}
        pipeline = around(self._class, self.name, self._variant, dtype=dtype, **parts).to(self.device)
        size = self.shape[1:] if len(self.shape) == 3 else PACKED

        def encode(prompts: list[str], null: bool) -> Encoded:
            if not null:
                return self._own(first_call(pipeline, self.network, prompts, size), len(prompts), -1)
            call = first_call(pipeline, self.network, [*prompts, *prompts], size)
            self._keep(call)  # of two: one would not show what is batch first
            return self._own(call, 2, 0)

        return encode

    def _keep(self, call: Call) -> None:
        """Remember what is not batch first."""
        if call.x.shape[1:] != self.shape:
            raise ValueError(
                f"{self._class.__name__} has latents of shape {tuple(call.x.shape[1:])}, not {self.shape}: "
                "ds.wrap takes its network"
            )
        if self.told != isinstance(call.told.get("guidance"), Tensor):
            raise ValueError(
                f"the config of {self.name} and {self._class.__name__} disagree on whether its network is "
                "told its guidance (is it a distilled one?): use ds.wrap"
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


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> Pipeline:
    """Load a pipeline from a folder or a hub id; its text encoders only with the first prompts."""
    return Pipeline(source, dtype, variant, device)
