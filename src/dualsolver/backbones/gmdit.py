"""GM-DiT, such as Lakonik/gmflow_imagenet_k8_ema: flow matching with a mixture of velocities for each pixel.

As in the paper, the solver sees the mixture's mean, and guidance is linear on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from .base import Backbone, class_numbers
from .gaussians import mean_velocity
from .gmdit_transformer import GMDiTTransformer2DModel
from .pretrained import Decoder, class_names, component, read_config, schedule_of


@final
class GMDiT(Backbone):
    """A GM-DiT with its decoder; the null class is the last row of the class table."""

    kind, guidance = "velocity", 1.4

    def __init__(
        self, source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device
    ) -> None:
        self.name, self.device, self.dtype = source, device, dtype or torch.float32
        scheduler = read_config(source, "scheduler") | {"prediction_type": "flow_prediction"}
        self.schedule, _ = schedule_of(scheduler)
        self.transformer: nn.Module = component(
            GMDiTTransformer2DModel, source, "transformer", variant, self.dtype, device
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
        mixture = self.transformer(x, time, condition)
        return mean_velocity(mixture["means"], mixture["logweights"])

    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        return self._decoder(latents, clamp)


def load(source: str, dtype: torch.dtype | None, variant: str | None, device: torch.device) -> GMDiT:
    """Load a GM-DiT from a folder or a hub id; the released one has bf16 files and loads them by default."""
    return GMDiT(source, dtype, "bf16" if variant is None else variant, device)
