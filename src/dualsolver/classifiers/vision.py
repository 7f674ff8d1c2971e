"""torchvision's classifiers: names, published weights, networks and preprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..extras import needs
from .paper import PAPER
from .preprocess import Preprocess
from .weights import State, fit_in, read_weights

Made = tuple[nn.Module, Preprocess, str]  # network, its preprocessing, its full name


def from_torchvision(name: str, file: Path | None) -> Made:
    """One of torchvision's classifiers, with its published weights or those of a file."""
    weights = resolve(name)
    state = read_weights(file, Path(weights.url).name) if file else published(weights)
    network = build(weights)
    fit_in(network, state, str(file or weights))
    return network, preprocess_of(weights), str(weights)


def resolve(name: str) -> Any:
    """Return torchvision's weights (an enum's member) of a full or a short name.

    >>> resolve("alexnet"), resolve("regnet_y_16gf_swag")
    (AlexNet_Weights.IMAGENET1K_V1, RegNet_Y_16GF_Weights.IMAGENET1K_SWAG_LINEAR_V1)
    """
    with needs("learn"):
        from torchvision import models
    known = models.list_models(module=models)
    full = PAPER.get(name, name)
    if full in known:
        return models.get_model_weights(full).DEFAULT
    for builder in known:
        for weights in models.get_model_weights(builder):
            if str(weights) == full:
                return weights
    close = _close(name.split(".")[0].lower().removesuffix("_weights"), [*PAPER, *known])
    raise ValueError(f"torchvision has no classifier {name!r}; close: {close}")


def _close(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    return ", ".join(sorted(get_close_matches(name, sorted(set(known)), 3, 0.4))) or "none"


def published(weights: Any) -> State:
    """Return torchvision's own weights from torch's cache; torchvision downloads them the first time."""
    place = cached(weights)
    try:
        if not place.is_file():
            weights.get_state_dict(progress=True, check_hash=True)
    except (OSError, RuntimeError) as error:  # no network, or a hash that differs
        raise ValueError(
            f"{weights} is not in {place.parent} and {weights.url} cannot be had ({error}): "
            f"put the file there, or name it with {weights}=path/to/file.pth"
        ) from None
    return read_weights(place, place.name)


def cached(weights: Any) -> Path:
    """Where torch keeps torchvision's own file of weights once it is downloaded."""
    return Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)


def build(weights: Any) -> nn.Module:
    """Make the network that belongs to weights, with its parameters on the meta device and no random draw.

    What torchvision's builders take from the weights is here, too: others lose the input size of the vision
    transformers (518 for ViT-H/14), and the change of scale that both Inceptions make of their input.
    """
    with needs("learn"):
        from accelerate import init_empty_weights
        from torchvision import models

    by_weights = {type(w): name for name in models.list_models(module=models) for w in _all(name)}
    name = by_weights[type(weights)]
    options: dict[str, Any] = {"num_classes": len(weights.meta["categories"])}
    if name.startswith("vit_"):
        options["image_size"] = weights.meta["min_size"][0]
    if name in ("inception_v3", "googlenet"):
        options |= {"transform_input": True, "init_weights": False}
    with torch.random.fork_rng(devices=[]), init_empty_weights():
        network: nn.Module = models.get_model(name, weights=None, **options)
    return network


def _all(name: str) -> list[Any]:
    from torchvision import models

    return list(models.get_model_weights(name))


def preprocess_of(weights: Any) -> Preprocess:
    """The preprocessing that weights of torchvision were evaluated with.

    >>> preprocess_of(resolve("efficientnet_b5"))
    Preprocess(resize=456, crop=456, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225),
               interpolation='bicubic', antialias=True)
    """
    found = weights.transforms()
    kind = found.interpolation.value
    return Preprocess(
        found.resize_size[0], found.crop_size[0], tuple(found.mean), tuple(found.std), kind, found.antialias
    )
