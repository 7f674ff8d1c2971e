"""Trajectories of a solver of many steps, made once and kept on disk under a key of all that defines them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .backbones.base import Backbone
from .checks import whole
from .draws import draw
from .files import write_whole
from .objectives import Outcome
from .sample import trajectory
from .table import Table

CHUNK = 50  # samples a file: what is lost when making them is interrupted


@lru_cache(maxsize=64)
def _opened(path: Path, shape: tuple[int, ...]) -> Any:
    """The states in a file, read where they are looked at."""
    try:
        file: Any = safe_open(path, framework="pt")
        states = file.get_slice("states")
    except (SafetensorError, OSError) as error:
        raise ValueError(_damaged(path, error)) from None
    if tuple(states.get_shape()) != shape or states.get_dtype() != "F32":
        raise ValueError(
            _damaged(path, f"states of {states.get_dtype()} {states.get_shape()}, not F32 {shape}")
        )
    return states


def _damaged(path: Path, reason: object) -> str:
    return f"{path} is damaged ({reason}): delete it, and the teacher makes it again"


@dataclass(frozen=True)
class Teacher:
    """`count` samples of a table on the backbone, drawn with `seed`; `path` keeps all their states."""

    backbone: Backbone
    table: Table
    items: Sequence[Any]
    folder: Path
    guidance: float = 1.0
    seed: int = 1
    count: int = 1000
    path: bool = True

    def __post_init__(self) -> None:
        whole("count", self.count)

    @cached_property
    def key(self) -> str:
        """A hash of the network's weights, the table and what is drawn."""
        facts = {
            "backbone": self.backbone.fingerprint(),
            "table": [x.tolist() for x in (self.table.t, self.table.weights)],
            "items": list(self.items),
            "guidance": self.guidance,
            "seed": self.seed,
            "path": self.path,
        }
        return sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def make(self) -> Iterator[int]:
        """Make what is missing, and yield how many samples there are after each file."""
        for first in range(0, self.count, CHUNK):
            if not (path := self._path(first)).exists():
                write_whole(path, save({"states": self._run(range(first, first + CHUNK))}))
            yield min(first + CHUNK, self.count)

    def take(self, indices: Sequence[int]) -> Outcome:
        """Return what the teacher made of these samples."""
        device = self.backbone.device
        states = torch.stack([self._read(i) for i in indices], 1).to(device)
        items = draw((), self.items, self.seed, indices).items
        return Outcome(
            self.table, states, self.backbone.conditions(items), partial(self.backbone.decode, clamp=False)
        )

    def _run(self, indices: Sequence[int]) -> Tensor:
        noise, items = draw(self.backbone.shape, self.items, self.seed, indices)
        predict = self.backbone.predict(self.backbone.conditions(items), self.guidance)
        start = self.backbone.schedule.prior(noise.to(self.backbone.device))
        with torch.no_grad():
            states = trajectory(predict, start, self.table)
        return (states if self.path else states[-1:]).cpu().contiguous()

    def _read(self, index: int) -> Tensor:
        path = self._path(index // CHUNK * CHUNK)
        length = len(self.table.t) if self.path else 1
        states: Tensor = _opened(path, (length, CHUNK, *self.backbone.shape))[:, index % CHUNK]
        if not bool(states.isfinite().all()):
            raise ValueError(_damaged(path, "states that are not finite"))
        return states

    def _path(self, first: int) -> Path:
        return self.folder / self.key / f"{first:06d}.safetensors"
