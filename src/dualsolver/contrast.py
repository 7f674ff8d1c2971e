"""Which prompt belongs to which image: CLIP is trained by it, and solvers are learned through CLIP."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .clip import Scorer
from .objectives import Objective, Outcome

TEMPERATURE = 0.07


def contrast(images: Tensor, texts: Tensor, temperature: float | Tensor = TEMPERATURE) -> Tensor:
    """One loss for each pair of unit vectors (B, D): InfoNCE, the mean of both directions' cross entropies.

    >>> contrast(torch.eye(4), torch.eye(4), temperature=0.01).max() < 1e-6
    tensor(True)
    """
    logits = images @ texts.T / temperature
    right = torch.arange(len(logits), device=logits.device)
    both = (cross_entropy(rows, right, reduction="none") for rows in (logits, logits.T))
    return torch.stack(list(both)).mean(0)


class Contrast(Objective):
    """The paper's loss for text to image: InfoNCE between the images of a batch and their prompts.

    The batch is that of the whole step, whatever part of it is computed at a time. A part's losses then carry
    the gradient of all the others' in its own images, at no value: parts add up to the whole.
    """

    whole = True

    def __init__(self, models: Sequence[Scorer], temperature: float = TEMPERATURE) -> None:
        self.models, self.temperature = models, temperature

    def embed(self, made: Outcome) -> Tensor:
        return torch.cat([seen(self.models, made), read(self.models, made)], 1)

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        rows = mine = self.embed(made)
        at = torch.arange(len(mine), device=mine.device)
        if made.whole is not None:
            at = made.whole.at
            rows = made.whole.rows.to(mine).index_copy(0, at, mine)
        images, prompts = rows.chunk(2, 1)
        losses = contrast(images, prompts, self.temperature)
        others = losses.sum() - losses[at].sum()
        return losses[at] + (others - others.detach()) / len(at)


class Cosine(Objective):
    """One minus the cosine between an image and its prompt."""

    def __init__(self, models: Sequence[Scorer]) -> None:
        self.models = models

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        return 1 - (seen(self.models, made) * read(self.models, made)).sum(1)


def seen(models: Sequence[Scorer], made: Outcome) -> Tensor:
    """Unit vectors of the images; those of several models stand side by side: cosines are then their mean."""
    images = made.images()
    return torch.cat([model.see(images) for model in models], 1) / math.sqrt(len(models))


def read(models: Sequence[Scorer], made: Outcome) -> Tensor:
    """Unit vectors of what was asked for."""
    prompts = [str(item) for item in made.items]
    return torch.cat([model.read(prompts) for model in models], 1) / math.sqrt(len(models))
