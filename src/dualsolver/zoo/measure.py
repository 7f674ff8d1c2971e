"""The figures of a model's card, measured by the judge (or the validation network) on images of a split."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import features
from ..backbones import Backbone
from ..features import Extractor, Seen
from ..metrics import Accuracy, Moments, frechet, precision_recall
from ..pictures import grid, save_png
from ..solvers import DDIM, DPMpp
from . import classifiers
from .data import Images, scaled
from .generate import images
from .references import accuracy_on_test, reference, unit
from .registry import home, load

Figures = dict[str, float]


def classifier(name: str, test: Images) -> Figures:
    """Accuracy on the test set, and size."""
    model = load(name)
    share = classifiers.accuracy(model, test.pictures, test.classes)
    return {"test accuracy": share, "parameters": _size(model)}


@torch.no_grad()
def autoencoder(name: str, test: Images, seen_by: str = "judge") -> Figures:
    """What reconstruction costs, on the whole test set: errors, accuracy, the Frechet distance."""
    model, judge = load(name), features.of(load(seen_by))
    again = [
        model.decode(model.encode(scaled(x)).latent_dist.mean).sample for x in torch.split(test.pictures, 250)
    ]
    found = torch.cat(again)
    seen = look(judge, [(found / 2 + 0.5).clamp(0, 1)])
    return {
        "mean absolute error, of 0 to 1": (found - scaled(test.pictures)).abs().mean().item() / 2,
        f"accuracy of the {seen_by} on reconstructions": Accuracy.of(seen.logits, test.classes).share,
        f"Frechet distance of reconstructions ({seen_by})": distance(seen, seen_by),
        "parameters": _size(model),
    }


def generator(
    name: str,
    train: Images,
    test: Images,
    count: int = 2000,
    seen_by: str = "judge",
    told: Callable[[str], None] = lambda line: None,
) -> Figures:
    """The figures of a generator: `count` guided images by 100-step and by 3-step DDIM, classes in turn.

    Precision and recall are those against `count` real test images, beside what as many training images get.
    """
    backbone, judge = load(name), features.of(load(seen_by))
    classes = torch.arange(count) % 10
    real = look(judge, [unit(test.pictures[:count])])
    other = look(judge, [unit(train.pictures[:count])])
    found: Figures = {f"accuracy of the {seen_by} on real test images": accuracy_on_test(seen_by)}
    for nfe in (100, 3):
        solver = DDIM(nfe)
        seen = look(judge, images(backbone, solver, classes, backbone.guidance))
        precision, recall = precision_recall(real.features, seen.features)
        found |= {
            f"Frechet distance, DDIM {nfe}": distance(seen, seen_by),
            f"accuracy, DDIM {nfe}": Accuracy.of(seen.logits, classes).share,
            f"precision, DDIM {nfe}": precision,
            f"recall, DDIM {nfe}": recall,
        }
        told(f"DDIM {nfe}: {found}")
    precision, recall = precision_recall(real.features, other.features)
    found |= {"precision of training images": precision, "recall of training images": recall}
    found["Frechet distance of as many training images"] = distance(other, seen_by)
    return found | {"ms a guided evaluation of one image": speed(backbone, backbone.guidance)}


def watched(name: str, weights: Mapping[str, Tensor], count: int = 2000) -> float:
    """The distance, as the validation network sees it, of a shipped generator with other weights.

    By 20 steps of DPM-Solver++, the network in bfloat16: a curve over training, not a figure to report alone.
    """
    from .. import named

    backbone: Any = named.backbone(name, "bfloat16")
    backbone.transformer.load_state_dict(weights)
    drawn = images(backbone, DPMpp(20), torch.arange(count) % 10, backbone.guidance)
    return distance(look(features.of(load("validation")), drawn), "validation")


def picture(name: str, rows: int = 8) -> Path:
    """Draw the picture of a generator's card: a column a class, by 100-step DDIM; its seeds come first."""
    backbone, classes = load(name), torch.arange(10 * rows) % 10
    drawn = torch.cat(list(images(backbone, DDIM(100), classes, backbone.guidance)))
    path = home(name) / "grid.png"
    save_png(path, grid(drawn, columns=10))
    return path


def look(extractor: Extractor, batches: Iterable[Tensor]) -> Seen:
    """Features and logits of batches of images in [0, 1]."""
    parts = [seen for batch in batches for seen in features.each(extractor, batch)]
    return features.gathered(parts)


def distance(seen: Seen, seen_by: str) -> float:
    """The Frechet distance to the real test set, in the features of the judge or the validation network."""
    return frechet(Moments.of(seen.features).statistics(), reference(seen_by))


@torch.no_grad()
def speed(backbone: Backbone, guidance: float, times: int = 50) -> float:
    """Milliseconds of a guided evaluation of one image: the median of many."""
    predict = backbone.predict(backbone.conditions([0]), guidance)
    x, t, taken = torch.randn(1, *backbone.shape), torch.tensor(0.5, dtype=torch.float64), []
    for _ in range(times):
        start = time.perf_counter()
        predict(x, t)
        taken.append(time.perf_counter() - start)
    return 1000 * sorted(taken)[times // 2]


def _size(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
