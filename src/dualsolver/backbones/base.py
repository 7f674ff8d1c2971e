"""What the core knows of a backbone: a frozen network with its schedule, its conditions and its decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, final

import torch
from torch import Tensor, nn

from ..prediction import Network, check_guidance, checkpointed, guided, wrap
from ..schedule import Schedule


class Backbone(ABC):
    """A pretrained model to sample from; its attributes are set when it is made and then stay.

    >>> from dualsolver.backbones import load
    >>> backbone = load("toy")
    >>> predict = backbone.predict(backbone.conditions([0, 2]), guidance=1.5)
    >>> predict(torch.zeros(2, *backbone.shape), torch.tensor(0.5)).data.shape
    torch.Size([2, 4])
    """

    name: str  # for provenance
    schedule: Schedule
    kind: str  # what the network natively predicts: "noise", "data" or "velocity"
    shape: tuple[int, ...]  # of one latent
    classes: tuple[str, ...] = ()  # their names, if conditions are classes
    guidance: float = 1.0  # the usual scale: the paper's, or the pipeline's own
    told: bool = False  # whether the network is told the scale as "guidance", instead of being asked twice
    dtype: torch.dtype | None = None  # of the network, used inside its call alone; None takes what comes
    device: torch.device = torch.device("cpu")

    @abstractmethod
    def conditions(self, items: Sequence[Any]) -> Any:
        """Turn what a user names (classes, prompts) into a tensor, or a dict of tensors, batch first."""

    @abstractmethod
    def null(self, condition: Any) -> Any:
        """Return the unconditional counterpart of a condition, for guidance."""

    @abstractmethod
    def model(self, x: Tensor, time: Tensor, condition: Any) -> Tensor:
        """Return the network's native output for x (B, *shape) at float32 times (B,), in its own dtype."""

    @abstractmethod
    def decode(self, latents: Tensor, clamp: bool = True) -> Tensor:
        """Turn latents into float32 images in [0, 1]; without the clamp, saturated pixels keep a gradient."""

    @final
    def predict(self, condition: Any, guidance: float = 1.0, recompute: bool = False) -> Network:
        """Return the guided predict function, one call of the network an evaluation.

        `recompute` trades one more forward in the backward pass for not keeping activations.
        """
        check_guidance(guidance)
        if self.told:
            told = {**condition, "guidance": torch.full_like(condition["guidance"], guidance)}
            model = guided(self.model, 1.0, told, told)
        else:
            model = guided(self.model, guidance, condition, self.null(condition))
        return wrap(checkpointed(model) if recompute else model, self.schedule, self.kind, self.dtype)

    @final
    def fingerprint(self) -> str:
        """Hash what samples depend on: the weights, the schedule and the dtype, not where they were found."""
        digest = sha256(f"{type(self).__name__} {self.schedule} {self.kind} {self.dtype}".encode())
        for part in vars(self).values():
            module = getattr(part, "vae", part)
            for name, weight in module.state_dict().items() if isinstance(module, nn.Module) else ():
                digest.update(name.encode())
                digest.update(weight.cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()[:16]


def class_numbers(items: Sequence[int | str], names: Sequence[str]) -> Tensor:
    """Return class numbers of classes given by number or by name.

    >>> class_numbers([0, "boot"], ["bag", "boot"]).tolist()
    [0, 1]
    """
    if isinstance(items, str | int):
        raise ValueError(f"classes are a list with one for each image, not {items!r}")
    known = {name: number for number, name in enumerate(names)}
    return torch.tensor([_class_number(item, known) for item in items])


def _class_number(item: int | str, known: dict[str, int]) -> int:
    if isinstance(item, str):
        if item not in known:
            some = ", ".join(list(known)[:10]) + ", ..." * (len(known) > 10)
            raise ValueError(f"no class {item!r}: there are {some}")
        return known[item]
    if isinstance(item, bool) or not 0 <= int(item) < len(known):
        raise ValueError(f"no class {item!r}: they are numbered 0 to {len(known) - 1}")
    return int(item)
