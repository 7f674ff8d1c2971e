"""What is known of real images: their features, for precision and recall, and how classifiers do on them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from .. import features, named
from ..classifiers import PAPER, load_classifier, paper_classifiers
from ..extras import needs
from ..zoo import data
from ..zoo.references import NETWORKS, unit


@cache
def real_features(network: str, count: int) -> Tensor:
    """Features of the first `count` real images, as the network sees them.

    They are the zoo's test images, or the images that a reference file in ADM's layout holds beside its
    statistics (arr_0).
    """
    name, _, file = network.partition("=")
    images = unit(data.read("test").pictures[:count]) if name in NETWORKS else _images_in(file, count)
    return features.gathered(features.each(named.network(network).extractor, images)).features


def _images_in(file: str, count: int) -> Tensor:
    with needs("evaluate"):
        import numpy as np
    with np.load(file, allow_pickle=False) as content:
        if "arr_0" not in content.files:
            raise ValueError(f"{file} holds no real images (arr_0), which precision and recall compare with")
        pictures = content["arr_0"][:count]
    return torch.from_numpy(pictures).permute(0, 3, 1, 2) / 255


def classified(name: str) -> dict[str, Any]:
    """Accuracies in percent and billions of multiplications and additions an image.

    Of the paper's classifiers they are those that torchvision publishes, of the zoo's they are measured on
    the test images.
    """
    if name in PAPER:
        row = next(row for row in paper_classifiers() if row.name == name)
        return {"top-1": row.top1, "top-5": row.top5, "gflops": row.gflops}
    network, test = load_classifier(name), data.read("test")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        logits = torch.cat([network(unit(part)) for part in torch.split(test.pictures, 500)])
    right = logits.topk(5).indices == test.classes[:, None]
    gflops = counter.get_total_flops() / 2 / len(test) / 1e9
    return {"top-1": _percent(right[:, :1]), "top-5": _percent(right), "gflops": gflops}


def _percent(right: Tensor) -> float:
    return 100 * right.any(1).double().mean().item()
