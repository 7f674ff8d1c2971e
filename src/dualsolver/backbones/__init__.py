"""Networks to sample from: `toy` has exact answers, the others wrap diffusers models.

`pipeline` asks any text-to-image pipeline how its network is called: PixArt and SANA, which the paper has
beside `dit` and `gmdit`, Stable Diffusion, Flux and more.

To add one: a file with a `Backbone` and its `load`, and a line in `BACKBONES`. Nothing of diffusers is
imported before it is needed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

import torch

from ..checks import check_choice
from ..extras import needs
from .base import Backbone

BACKBONES = ("toy", "dit", "gmdit", "pipeline")  # modules with a `load`


def load(
    source: str | Path,
    kind: str | None = None,
    dtype: torch.dtype | None = None,
    variant: str | None = None,
    device: str | torch.device = "cpu",
) -> Backbone:
    """Load "toy", or a diffusers pipeline from a folder or a hub id, whose index says what it is.

    `dtype` is that of the network alone: schedules, states and the decoder stay in float32 or float64.
    `variant` names the weight files ("bf16", "fp16"); a component that has no such file loads its plain one.
    "pickle" takes the pickled files of old repositories, which nothing else does.

    >>> load("toy").schedule
    vp-linear(beta_start=0.0001, beta_end=0.02, steps=1000)
    """
    if kind is None:
        kind = "toy" if source == "toy" else guess(source)
    check_choice("kind", kind, BACKBONES)
    with needs("diffusers"):
        module = import_module(f".{kind}", __name__)
    return cast(Backbone, module.load(str(source), dtype, variant, torch.device(device)))


def guess(source: str | Path) -> str:
    """Return the kind of backbone that a pipeline folder or hub id holds."""
    with needs("diffusers"):
        from .pretrained import read_config
    index = read_config(str(source), "")
    if index.get("_class_name") == "DiTPipeline":
        return "dit"
    known = "transformer" in index and "num_gaussians" in read_config(str(source), "transformer")
    return "gmdit" if known else "pipeline"  # diffusers has no class for GM-DiT, so its name may vary


__all__ = ["BACKBONES", "Backbone", "guess", "load"]
