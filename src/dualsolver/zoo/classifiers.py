"""Classifiers: making, training, writing and reading them, as config.json and model.safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..files import write_whole
from .augment import augmented
from .data import Images, scaled
from .networks import FAMILIES, Classifier
from .task import Task

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def build(options: dict[str, Any]) -> Classifier:
    """Make an untrained classifier: the family's name and its arguments.

    >>> build({"family": "linear", "size": 4})(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 10])
    """
    rest = {name: value for name, value in options.items() if name != "family"}
    return FAMILIES[options["family"]](**rest).to(memory_format=torch.channels_last)


def task(options: dict[str, Any], strength: int, images: Images) -> Task:
    """Cross entropy of a new classifier on augmented images."""
    model = build(options)

    def loss(model: nn.Module, chosen: Tensor) -> Tensor:
        x = augmented(scaled(images.pictures[chosen]), strength)
        logits = model(x.contiguous(memory_format=torch.channels_last))
        return functional.cross_entropy(logits.float(), images.classes[chosen])

    return Task(model, loss, len(images), lambda folder: save(model, options, folder))


def save(model: nn.Module, options: dict[str, Any], folder: Path) -> None:
    """Write a classifier: matrices in float16, the rest (norms, their statistics) in float32."""
    from safetensors.torch import save as packed

    small = {k: (v.half() if v.ndim > 1 else v).contiguous() for k, v in model.state_dict().items()}
    write_whole(folder / CONFIG, json.dumps(options, indent=2) + "\n")
    write_whole(folder / WEIGHTS, packed(small))


def load(folder: Path) -> Classifier:
    """Read a classifier in float32, ready to judge: frozen and in evaluation mode."""
    from safetensors.torch import load as unpacked

    model = build(json.loads((folder / CONFIG).read_text()))
    model.load_state_dict(unpacked((folder / WEIGHTS).read_bytes()))
    return model.eval().requires_grad_(False)


@torch.no_grad()
def logits(model: Classifier, images: Tensor, batch: int = 500) -> Tensor:
    """The logits of uint8 pictures or of images in [-1, 1], (N, 1, 32, 32) -> (N, 10), in batches."""
    parts = torch.split(images, batch)
    return torch.cat([model(scaled(x) if x.dtype == torch.uint8 else x) for x in parts])


def accuracy(model: Classifier, images: Tensor, classes: Tensor) -> float:
    """The share of images that the model puts in their class."""
    return (logits(model, images).argmax(1) == classes).double().mean().item()
