"""Looking at an image more than once, so that what pleases a classifier by accident counts for less."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

VIEWS = "views:"  # before a classifier's name
CONTRASTS, SHARE = (0.8, 1.25), 16  # an image is moved by this part of its side


def views(images: Tensor) -> list[Tensor]:
    """An image (B, C, H, W), itself paler and bolder, and moved to either side.

    >>> [view.shape == (2, 1, 32, 32) for view in views(torch.rand(2, 1, 32, 32))]
    [True, True, True, True, True]
    """
    mean = images.mean((1, 2, 3), keepdim=True)
    bold = [mean + contrast * (images - mean) for contrast in CONTRASTS]
    far = max(1, images.shape[-1] // SHARE)
    left = pad(images, (0, far, 0, 0), mode="replicate")[..., far:]
    right = pad(images, (far, 0, 0, 0), mode="replicate")[..., :-far]
    return [images, *bold, left, right]


def viewed(classifier: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The mean of a classifier's log probabilities over the views: all of them have to agree."""

    def logits(images: Tensor) -> Tensor:
        found = [classifier(view).float().log_softmax(1) for view in views(images)]
        return torch.stack(found).mean(0)

    return logits
