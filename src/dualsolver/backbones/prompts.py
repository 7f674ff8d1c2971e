"""Prompts as what a text-to-image network eats: encoded once, by encoders that are then dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Encoded = dict[str, Tensor]  # what the network is told of prompts, batch first
Encode = Callable[[list[str], bool], Encoded]  # (prompts, whether they are the null prompt)

BATCH, STEP = 16, 8  # prompts an encoding, and what lengths are multiples of
TEXT, MASK = "encoder_hidden_states", "encoder_attention_mask"


class Prompts:
    """Prompts with their encodings, which stay on the CPU; the null prompt is the key None.

    Tokens that a mask hides from the network are not kept: it gives the same without them.
    The encoders (5 GB to 20 GB) are loaded when something is not known yet, and dropped at once after: give
    all the prompts of a run to one call first.
    """

    def __init__(self, load: Callable[[], Encode], device: torch.device, dtype: torch.dtype) -> None:
        self._load, self._device, self._dtype = load, device, dtype
        self._known: dict[str | None, Encoded] = {}
        self._shapes: set[Any] = set()

    def __call__(self, prompts: Sequence[str]) -> Encoded:
        """Encode a list of prompts: a dict of tensors, batch first."""
        if isinstance(prompts, str) or not all(isinstance(p, str) for p in prompts):
            raise ValueError(f"prompts are a list with one text for each image, not {prompts!r:.80}")
        self._learn([None, *dict.fromkeys(prompts)])
        return self._together(prompts, _width([self._known[prompt] for prompt in (None, *prompts)]))

    def null(self, like: Encoded) -> Encoded:
        """The encoding of no prompt, as often as there are conditions."""
        self._learn([None])
        width = like[MASK].shape[1] if MASK in like else 0
        return self._together([None] * len(next(iter(like.values()))), width)

    def _together(self, prompts: Sequence[str | None], width: int) -> Encoded:
        """Stack encodings on the device, numbers in the network's dtype and masks in their own."""
        known = [_padded(self._known[prompt], width) for prompt in prompts]
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
                one = {name: x[i].cpu().clone() for name, x in found.items()}
                self._shapes.add(tuple(x.shape for x in one.values()))
                self._known[prompt] = _kept(one)
        if len(self._shapes) > 1:
            raise ValueError("encodings are as long as their prompts here, so none go together: use ds.wrap")


def _kept(one: Encoded) -> Encoded:
    """The encoding of a prompt without the tokens that its mask hides."""
    if TEXT not in one or MASK not in one or one[MASK].ndim != 1:
        return one
    there = one[MASK].bool()
    return one | {TEXT: one[TEXT][there].clone(), MASK: one[MASK][there]}


def _width(known: Sequence[Encoded]) -> int:
    """The length of the longest, rounded up so that few shapes occur."""
    return -(-max(len(one[MASK]) if MASK in one else 0 for one in known) // STEP) * STEP


def _padded(one: Encoded, width: int) -> Encoded:
    """An encoding with hidden tokens at its end, so that all are as long."""
    if TEXT not in one or MASK not in one or one[MASK].ndim != 1:
        return one
    more = width - len(one[MASK])
    return one | {TEXT: pad(one[TEXT], (0, 0, 0, more)), MASK: pad(one[MASK], (0, more))}


def _batches(prompts: list[str | None]) -> Iterator[list[str | None]]:
    """The null prompt alone, for some models encode it differently, then the others."""
    if None in prompts:
        yield [None]
    others = [p for p in prompts if p is not None]
    for first in range(0, len(others), BATCH):
        yield list(others[first : first + BATCH])
