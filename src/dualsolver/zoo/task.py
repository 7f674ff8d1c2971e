"""What a kind of model brings to be trained: a model, its loss, and how it is written when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from .training import Loss


@dataclass(frozen=True, eq=False)
class Task:
    """A model, its loss on `count` examples, and `export(folder)` of the model as it then is."""

    model: nn.Module
    loss: Loss
    count: int
    export: Callable[[Path], None]
