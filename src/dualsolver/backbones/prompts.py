"""Prompts as what a text-to-image network eats: encoded once, by encoders that are then dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Encoded = dict[str, Tensor]  # what the network is told of prompts, batch first
Encode = Callable[[list[str], bool], Encoded]  # (prompts, whether they are the null prompt)

BATCH = 16


class Prompts:
    """Prompts with their encodings, which stay on the CPU; the null prompt is the key None.

    The encoders (5 GB to 20 GB) are loaded when something is not known yet, and dropped at once after: give
    all the prompts of a run to one call first.
    """

    def __init__(self, load: Callable[[], Encode], device: torch.device, dtype: torch.dtype) -> None:
        self._load, self._device, self._dtype = load, device, dtype
        self._known: dict[str | None, Encoded] = {}

    def __call__(self, prompts: Sequence[str]) -> Encoded:
        """Encode a list of prompts: a dict of tensors, batch first."""
        if isinstance(prompts, str) or not all(isinstance(p, str) for p in prompts):
            raise ValueError(f"prompts are a list with one text for each image, not {prompts!r:.80}")
        self._learn([None, *dict.fromkeys(prompts)])
        return self._together(prompts)

    def null(self, like: Encoded) -> Encoded:
        """The encoding of no prompt, as often as there are conditions."""
        self._learn([None])
        return self._together([None] * len(next(iter(like.values()))))

    def _together(self, prompts: Sequence[str | None]) -> Encoded:
        """Stack encodings on the device, numbers in the network's dtype and masks in their own."""
        known = [self._known[prompt] for prompt in prompts]
        found = {name: torch.stack([each[name] for each in known]).to(self._device) for name in known[0]}
        return {name: x.to(self._dtype) if x.is_floating_point() else x for name, x in found.items()}

    def _learn(self, prompts: Sequence[str | None]) -> None:
        if not (missing := [p for p in prompts if p not in self._known]):
            return
        encode = self._load()
        for batch in _batches(missing):
            with torch.no_grad():
                found = encode([p or "" for p in batch], batch[0] is None)
            for i, prompt in enumerate(batch):
                self._known[prompt] = {name: x[i].cpu().clone() for name, x in found.items()}
        if len({tuple(x.shape for x in known.values()) for known in self._known.values()}) > 1:
            raise ValueError("encodings are as long as their prompts here, so none go together: use ds.wrap")


def _batches(prompts: list[str | None]) -> Iterator[list[str | None]]:
    """The null prompt alone, for some models encode it differently, then the others."""
    if None in prompts:
        yield [None]
    others = [p for p in prompts if p is not None]
    for first in range(0, len(others), BATCH):
        yield list(others[first : first + BATCH])
