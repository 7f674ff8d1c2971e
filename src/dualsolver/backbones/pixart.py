"""Any diffusers `PixArtAlphaPipeline`, such as PixArt-alpha/PixArt-XL-2-512x512: text to image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from diffusers import PixArtAlphaPipeline, PixArtTransformer2DModel
from torch import Tensor, nn

from .base import Backbone
from .pretrained import Decoder, component, read_config, schedule_of
from .prompts import Encode, Encoded, Prompts, encoder


@final
class PixArt(Backbone):
    """A PixArt-alpha with its decoder; the null condition is the encoding of "" with its own mask."""

    guidance = 3.5

    def __init__(
        self, source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device
    ) -> None:
        self.name, self.device, self.dtype = source, device, dtype or torch.float32
        self.schedule, self.kind = schedule_of(read_config(source, "scheduler"))
        self.transformer: nn.Module = component(
            PixArtTransformer2DModel, source, "transformer", variant, self.dtype, device
        )
        config: Any = self.transformer.config
        self.shape = (config.in_channels, config.sample_size, config.sample_size)
        self._decoder, self._variant = Decoder(source, variant, device).recompute(), variant
        self._prompts = Prompts(self._encoder, device, self.dtype)
        self._sized = config.sample_size == 128  # the 1024-pixel model is told its resolution

    def _encoder(self) -> Encode:
        """Texts as they are: the pipeline's own default cleans captions, the paper does not."""
        pipeline = encoder(PixArtAlphaPipeline, self.name, self._variant, self.dtype, self.device)

        def encode(prompts: list[str], null: bool) -> Encoded:
            embeds, mask, *_ = pipeline.encode_prompt(prompts, do_classifier_free_guidance=False)
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
            timestep=time,
            added_cond_kwargs=self._size(x),
        ).sample
        return output[:, : self.shape[0]]  # what follows is the learned variance, which an ODE has no use for

    def _size(self, x: Tensor) -> dict[str, Tensor | None]:
        if not self._sized:
            return {"resolution": None, "aspect_ratio": None}
        height, width = (8.0 * side for side in x.shape[-2:])
        resolution = x.new_tensor([height, width]).repeat(len(x), 1)
        return {"resolution": resolution, "aspect_ratio": x.new_full((len(x), 1), height / width)}

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return self._decoder(latents, clamp)


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> PixArt:
    """Load a PixArt-alpha from a folder or a hub id; its text encoder only with the first prompts."""
    return PixArt(source, dtype, variant, device)
