"""Any diffusers `DiTPipeline`, such as facebook/DiT-XL-2-256: class-conditional, variance preserving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from diffusers import DiTTransformer2DModel
from torch import Tensor, nn

from .base import Backbone, class_numbers
from .pretrained import Decoder, class_names, component, read_config, schedule_of


@final
class DiT(Backbone):
    """A DiT with its decoder; the null class is the last row of the class table."""

    guidance = 1.5

    def __init__(
        self, source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device
    ) -> None:
        self.name, self.device, self.dtype = source, device, dtype or torch.float32
        self.schedule, self.kind = schedule_of(read_config(source, "scheduler"))
        self.transformer: nn.Module = component(
            DiTTransformer2DModel, source, "transformer", variant, self.dtype, device
        )
        config: Any = self.transformer.config
        self.shape = (config.in_channels, config.sample_size, config.sample_size)
        self.null_class: int = config.num_embeds_ada_norm
        self.classes = class_names(source, self.null_class)
        self._decoder = Decoder(source, variant, device)

    def conditions(self, items: Sequence[int | str]) -> Tensor:
        return class_numbers(items, self.classes).to(self.device)

    def null(self, condition: Tensor) -> Tensor:
        return torch.full_like(condition, self.null_class)

    def model(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        output: Tensor = self.transformer(x, timestep=time, class_labels=condition).sample
        return output[:, : self.shape[0]]  # what follows is the learned variance, which an ODE has no use for

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return self._decoder(latents, clamp)


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> DiT:
    """Load a DiT from a folder or a hub id."""
    return DiT(source, dtype, variant, device)
