"""What the zoo says of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .training import Recipe


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: its kind (see `fit.TASKS`), what it is for, options and recipe."""

    kind: str
    purpose: str
    recipe: Recipe
    options: dict[str, Any] = field(default_factory=dict)
    folder: str | None = None  # below the weights, if it is not the name
    notes: str = ""  # what a new training would not repeat
    data: str = "fashion"  # what it is trained on: fashion or emoji
    latents: str | None = None  # the autoencoder whose latents it is trained on
