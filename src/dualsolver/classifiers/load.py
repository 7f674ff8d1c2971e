"""Classifiers by name: torchvision's, timm's, the zoo's, and weights in files of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checks import check_choice
from ..extras import needs
from .classifier import Classifier
from .preprocess import Preprocess
from .vision import Made, from_torchvision
from .weights import fit_in, read_weights


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
    if not network.num_classes:
        raise ValueError(f"timm's {name} has no classifier's head, features only: take another model")
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
