"""How classifiers do on real images, and what they cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ..classifiers import PAPER, load_classifier, paper_classifiers
from ..zoo import data
from ..zoo.references import unit


def classified(name: str) -> dict[str, Any]:
    """Accuracies in percent, and billions of multiplications with an addition for an image.

    Of the paper's classifiers they are those that torchvision publishes; of the zoo's they are measured on
    the test images.
    """
    short = name.partition("=")[0]
    if short in PAPER:
        row = next(row for row in paper_classifiers() if row.name == short)
        return {"top-1": row.top1, "top-5": row.top5, "gflops": row.gflops}
    network, test = load_classifier(name), data.read("test")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        logits = torch.cat([network(unit(part)) for part in torch.split(test.pictures, 500)])
    right = logits.topk(5).indices == test.classes[:, None]
    gflops = counter.get_total_flops() / 2 / len(test) / 1e9
    return {"top-1": _percent(right[:, :1]), "top-5": _percent(right), "gflops": gflops}


def _percent(right: Tensor) -> float:
    return 100 * right.any(1).double().mean().item()
