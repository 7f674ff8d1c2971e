"""Classifiers by name: torchvision's, timm's, the zoo's, and weights in files of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checks import check_choice
from ..extras import needs
from .classifier import Classifier
from .paper import PAPER
from .preprocess import Preprocess
from .weights import State, fit_in, read_weights


def load_classifier(spec: str, device: str | torch.device = "cpu") -> Classifier:
    """Return a frozen classifier.

    `spec` is a name, or NAME=path/to/file (.pth or .safetensors) for weights of one's own:

    - `MobileNet_V3_Large_Weights.IMAGENET1K_V2`, one of torchvision's weights; a short name
      (`mobilenet_v3_large`) means the weights in the paper's table, else torchvision's default. They come
      from torch's cache (torch.hub.get_dir() + "/checkpoints") or, once, by torchvision's own download.
    - `timm:NAME`: a model of timm.
    - `zoo:NAME`: a classifier that this package brings.

    >>> load_classifier("mobilenet_v9")
    Traceback (most recent call last):
    ValueError: torchvision has no classifier 'mobilenet_v9'; close: mobilenet_v2, mobilenet_v3_large,
    mobilenet_v3_small
    """
    if not isinstance(spec, str) or not spec:
        raise ValueError(f"a classifier is named by text such as 'mobilenet_v3_large', not {spec!r}")
    family, colon, rest = spec.partition(":")
    source = SOURCES.get(family) if colon and family in SOURCES else None
    name, equals, file = (rest if source else spec).partition("=")
    network, preprocess, called = (source or from_torchvision)(name, Path(file) if equals else None)
    return Classifier(called, network.to(device), preprocess)


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
    """Return torchvision's own file of weights from the cache, downloaded the first time."""
    try:
        state: State = weights.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:  # no network, or a hash that differs
        cache = Path(torch.hub.get_dir(), "checkpoints")
        raise ValueError(
            f"{weights} is not in {cache} and {weights.url} cannot be had ({error}): put the file there, "
            f"or name it with {weights}=path/to/file.pth"
        ) from None
    return state


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


def from_timm(name: str, file: Path | None) -> Made:
    """A model of timm, with its pretrained weights or those of a file, and the model's own data config."""
    with needs("timm"):
        import timm
    try:
        with torch.random.fork_rng(devices=[]):
            network: nn.Module = timm.create_model(name, pretrained=file is None)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"timm gives no {name}: {reason} (weights in a file: timm:{name}=path/to/file)"
        ) from None
    if file:
        fit_in(network, read_weights(file), str(file))
    return network, timm_preprocess(timm.data.resolve_model_data_config(network)), f"timm:{name}"


def timm_preprocess(config: dict[str, Any]) -> Preprocess:
    """The preprocessing of a timm data config: what is resized is the crop divided by `crop_pct`."""
    height, width = config["input_size"][1:]
    check_choice("timm's crop_mode", config["crop_mode"], ("center", "squash"))
    check_choice("the width of timm's input, a square,", width, (height,))
    side = int(height / config["crop_pct"])
    size = (side, side) if config["crop_mode"] == "squash" else side
    return Preprocess(size, height, tuple(config["mean"]), tuple(config["std"]), config["interpolation"])


def from_zoo(name: str, file: Path | None) -> Made:
    """A classifier of the zoo, on grey images of 32 x 32; its judge only reports and is not learned from."""
    from .. import zoo

    check_choice("the zoo's classifier", name, [n for n in zoo.names("classifier") if n != "judge"])
    if file:
        raise ValueError(f"zoo:{name} comes with its weights: leave out ={file}")
    return zoo.load(name), Preprocess(32, 32, (0.5,), (0.5,)), f"zoo:{name}"


SOURCES = {"timm": from_timm, "zoo": from_zoo}
