"""Which text belongs to which image: the symmetric cross entropy that CLIP is trained by (InfoNCE)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

TEMPERATURE = 0.07


def contrast(images: Tensor, texts: Tensor, temperature: float | Tensor = TEMPERATURE) -> Tensor:
    """One loss for each pair of unit vectors (B, D): the mean of both directions' cross entropies.

    >>> contrast(torch.eye(4), torch.eye(4), temperature=0.01).max() < 1e-6
    tensor(True)
    """
    logits = images @ texts.T / temperature
    right = torch.arange(len(logits), device=logits.device)
    both = (cross_entropy(rows, right, reduction="none") for rows in (logits, logits.T))
    return torch.stack(list(both)).mean(0)
