"""Reference statistics of the real images, in the features of the judge and of the validation network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import features
from ..checks import check_choice
from ..files import write_whole
from ..metrics import Accuracy, Moments
from ..statistics import Statistics
from .registry import WEIGHTS, check_bytes, load, remember

NETWORKS = {"judge": "test", "validation": "test", "emoji-features": "train"}  # and what it is compared with
FOLDER = "statistics"


def unit(pictures: Tensor) -> Tensor:
    """uint8 pictures as images in [0, 1]."""
    return pictures.float() / 255


def reference(network: str = "judge", split: str | None = None) -> Statistics:
    """Return shipped statistics of the real images (too few emoji are held out); no dataset is needed.

    >>> reference("judge").count
    10000
    """
    check_choice("the feature network", network, tuple(NETWORKS))
    split = split or NETWORKS[network]
    check_choice("split", split, ("train", "test"))
    return Statistics.load(check_bytes(FOLDER, f"{network}-{split}.npz"))


def accuracy_on_test(network: str = "judge") -> float:
    """The network's accuracy on the real test images, as measured when the statistics were made."""
    found: dict[str, float] = json.loads(check_bytes(FOLDER, "accuracy.json").read_text())
    return found[network]


def make(network: str, images: Mapping[str, Any]) -> Path:
    """Measure the real images with a network of the zoo and write the statistics that are shipped."""
    shipped, folder = load(network), WEIGHTS / FOLDER
    extractor = features.of(shipped, shipped.channels)
    for split, real in images.items():
        seen = features.gathered(features.each(extractor, unit(real.pictures), 500))
        Moments.of(seen.features).statistics(real.hash).save(folder / f"{network}-{split}.npz")
        if split == "test":
            path = folder / "accuracy.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            known[network] = Accuracy.of(seen.logits, real.classes).share
            write_whole(path, json.dumps(known, indent=1) + "\n")
    remember(FOLDER)
    return folder
