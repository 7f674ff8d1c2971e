"""Any diffusers `SanaPipeline`, such as Efficient-Large-Model/Sana_600M_512px_diffusers: text to image."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, final

import torch
from diffusers import AutoencoderDC, SanaPipeline, SanaTransformer2DModel
from torch import Tensor, nn

from .base import Backbone
from .pretrained import Decoder, component, read_config, schedule_of
from .prompts import Encode, Encoded, Prompts, encoder


@final
class Sana(Backbone):
    """A SANA with its decoder; prompts follow the pipeline's instruction, the null one stands alone."""

    guidance = 4.5

    def __init__(
        self, source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device
    ) -> None:
        self.name, self.device, self.dtype = source, device, dtype or torch.float32
        self.schedule, self.kind = schedule_of(read_config(source, "scheduler"))
        self.transformer: nn.Module = component(
            SanaTransformer2DModel, source, "transformer", variant, self.dtype, device
        )
        config: Any = self.transformer.config
        if config.guidance_embeds:
            raise ValueError(
                f"{source} is a distilled SANA (Sprint), which is told its guidance: take the full one"
            )
        self.shape = (config.in_channels, config.sample_size, config.sample_size)
        self._time_scale = float(config.timestep_scale)
        self._decoder, self._variant = Decoder(source, variant, device, AutoencoderDC).recompute(), variant
        self._prompts = Prompts(self._encoder, device, self.dtype)

    def _encoder(self) -> Encode:
        """Gemma overflows in float16."""
        dtype = torch.bfloat16 if self.dtype == torch.float16 else self.dtype
        pipeline = encoder(SanaPipeline, self.name, self._variant, dtype, self.device)
        instruction = inspect.signature(SanaPipeline.__call__).parameters["complex_human_instruction"].default

        def encode(prompts: list[str], null: bool) -> Encoded:
            embeds, mask, *_ = pipeline.encode_prompt(
                prompts,
                do_classifier_free_guidance=False,
                complex_human_instruction=None if null else instruction,
            )
            return {"embeds": embeds, "mask": mask}

        return encode

    def conditions(self, items: Sequence[str]) -> Encoded:
        return self._prompts(items)

    def null(self, condition: Encoded) -> Encoded:
        return self._prompts.null(condition)

    def model(self, x: Tensor, time: Tensor, condition: Encoded) -> Tensor:
        output: Tensor = self.transformer(
            x,
            encoder_hidden_states=condition["embeds"],
            encoder_attention_mask=condition["mask"],
            timestep=time * self._time_scale,
        ).sample
        return output[:, : self.shape[0]]

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return self._decoder(latents, clamp)


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> Sana:
    """Load a SANA from a folder or a hub id; its text encoder only with the first prompts."""
    return Sana(source, dtype, variant, device)
