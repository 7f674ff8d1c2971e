"""Prompts as what a text-to-image network eats: encoded once, by encoders that are then dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Encoded = dict[str, Tensor]  # "embeds" (B, L, D) and "mask" (B, L)
Encode = Callable[[list[str], bool], Encoded]  # (prompts, whether they are the null prompt)

BATCH, STEP = 16, 8  # prompts an encoding, and what lengths are multiples of


class Prompts:
    """Prompts with their encodings, which stay on the CPU; the null prompt is the key None.

    Only the tokens that the mask keeps are kept: a network that masks the others gives the same without them.

    The encoders (5 GB to 20 GB) are loaded when something is not known yet, and dropped at once after: give
    all the prompts of a run to one call first.
    """

    def __init__(self, load: Callable[[], Encode]) -> None:
        self._load = load
        self._known: dict[str | None, Encoded] = {}

    def __call__(self, prompts: Sequence[str], device: torch.device, dtype: torch.dtype) -> Encoded:
        """Encode a list of prompts: a dict of tensors, batch first."""
        if isinstance(prompts, str) or not all(isinstance(p, str) for p in prompts):
            raise ValueError(f"prompts are a list with one text for each image, not {prompts!r:.80}")
        self._learn([None, *dict.fromkeys(prompts)])
        encoded = [self._known[p] for p in prompts]
        return _moved(encoded, _width([*encoded, self._known[None]]), device, dtype)

    def null(self, like: Encoded) -> Encoded:
        """The encoding of no prompt, as often as there are conditions."""
        self._learn([None])
        embeds = like["embeds"]
        return _moved([self._known[None]] * len(embeds), embeds.shape[1], embeds.device, embeds.dtype)

    def _learn(self, prompts: Sequence[str | None]) -> None:
        if not (missing := [p for p in prompts if p not in self._known]):
            return
        encode = self._load()
        for batch in _batches(missing):
            with torch.no_grad():
                found = encode([p or "" for p in batch], batch[0] is None)
            for i, prompt in enumerate(batch):
                kept = found["mask"][i].bool()
                self._known[prompt] = {name: x[i][kept].cpu() for name, x in found.items()}


def _batches(prompts: list[str | None]) -> Iterator[list[str | None]]:
    """The null prompt alone, for some models encode it differently, then the others."""
    if None in prompts:
        yield [None]
    others = [p for p in prompts if p is not None]
    for first in range(0, len(others), BATCH):
        yield list(others[first : first + BATCH])


def _width(encoded: Sequence[Encoded]) -> int:
    """The length of the longest, rounded up so that few shapes occur."""
    return -(-max(len(e["mask"]) for e in encoded) // STEP) * STEP


def _moved(encoded: Sequence[Encoded], width: int, device: torch.device, dtype: torch.dtype) -> Encoded:
    """Stack encodings, with masked tokens after the shorter ones."""
    padded = {
        name: [pad(e[name], (0, 0) * (e[name].ndim - 1) + (0, width - len(e[name]))) for e in encoded]
        for name in ("embeds", "mask")
    }
    embeds, mask = torch.stack(padded["embeds"]), torch.stack(padded["mask"])
    return {"embeds": embeds.to(device, dtype), "mask": mask.to(device)}


def encoder(pipeline: Any, source: str, dtype: torch.dtype, device: torch.device) -> Any:
    """Load the text encoders of a pipeline and nothing else of it."""
    parts = {"transformer": None, "vae": None, "scheduler": None}
    try:
        return pipeline.from_pretrained(source, **parts, dtype=dtype).to(device)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"cannot load the text encoder of {source}: {reason}") from None
