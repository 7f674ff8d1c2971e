"""The figures of the emoji models: retrieval by CLIP, distances in the evaluation network's features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ... import features
from ...backbones import Backbone
from ...clip import Scorer
from ...draws import draw
from ...metrics import Accuracy, Moments, frechet
from ...sample import sample
from ...solvers import DDIM
from ..data import scaled
from ..entries import entry
from ..latents import encode
from ..references import reference, unit
from ..registry import load
from .data import Emoji, read

JUDGE, NETWORK = "emoji-judge", "emoji-features"
Figures = dict[str, float]
AMONG = 200  # captions, from which that of an image is to be found


@torch.no_grad()
def retrieval(model: Scorer, images: Iterable[Tensor], captions: Sequence[str], best: int = 5) -> float:
    """The share of images in [0, 1] whose caption is among the `best` of 200 captions, drawn by a seed."""
    seen, read = torch.cat([model.see(batch) for batch in images]), model.read(captions)
    other = model.read(sorted(set(captions)))
    known = {caption: i for i, caption in enumerate(sorted(set(captions)))}
    generator, right = torch.Generator().manual_seed(0), 0
    for image, own, caption in zip(seen, read, captions, strict=True):
        order = torch.randperm(len(known), generator=generator)
        rivals = other[order[order != known[caption]][: AMONG - 1]]
        right += int((rivals @ image > own @ image).sum()) < best
    return right / len(captions)


def chosen(emoji: Emoji, count: int) -> tuple[list[Tensor], list[str]]:
    """Some pictures in [0, 1], in batches, and their captions."""
    order = torch.randperm(len(emoji), generator=torch.Generator().manual_seed(0))[:count]
    captions = [emoji.rows[i].caption for i in order.tolist()]
    return [unit(x) for x in torch.split(emoji.pictures[order], 250)], captions


def clip(name: str, train: Emoji, held: Emoji) -> Figures:
    """Retrieval on pictures that it learned from, and on the compositions that it never saw."""
    model, found = load(name), Figures()
    for which, emoji in (("training", train), ("held-out", held)):
        images, captions = chosen(emoji, 2000)
        for best in (1, 5):
            share = retrieval(model, images, captions, best)
            found[f"top-{best} retrieval of {which} captions among {AMONG}"] = share
    return found


def network(name: str, train: Emoji, held: Emoji) -> Figures:
    """Accuracy of the evaluation network in the subgroups of held-out emoji."""
    seen = features.gathered(features.each(features.of(load(name), 3), unit(held.pictures)))
    return {"accuracy in 100 subgroups, held-out": Accuracy.of(seen.logits, held.classes).share}


@torch.no_grad()
def autoencoder(name: str, train: Emoji, held: Emoji) -> Figures:
    """What reconstruction costs: errors, the judge's retrieval, the distance to the originals."""
    model, found = load(name), Figures()
    latents = encode(model, held.pictures) / model.config.scaling_factor
    again = torch.cat([model.decode(z).sample for z in torch.split(latents, 100)])
    error = (again - scaled(held.pictures)).abs().mean().item() / 2
    captions = [row.caption for row in held.rows]
    found["mean absolute error, of 0 to 1, held-out"] = error
    for what, images in (("", unit(held.pictures)), (" of reconstructions", (again / 2 + 0.5).clamp(0, 1))):
        found[f"judge's top-5 retrieval{what}, held-out"] = retrieval(load(JUDGE), [images], captions)
    return found


@torch.no_grad()
def drawn(backbone: Backbone, captions: Sequence[str], nfe: int) -> list[Tensor]:
    """Images of captions by DDIM, in batches; image i has a seed of its own."""
    backbone.conditions(captions)
    table, parts = DDIM(nfe)(backbone.schedule), []
    for first in range(0, len(captions), 100):
        part = captions[first : first + 100]
        noise = draw(backbone.shape, [""], 0, range(first, first + len(part))).noise
        predict = backbone.predict(backbone.conditions(part), backbone.guidance)
        parts.append(backbone.decode(sample(predict, backbone.schedule.prior(noise), table)))
    return parts


def generator(
    name: str, train: Emoji, held: Emoji, count: int, told: Callable[[str], None] = lambda line: None
) -> Figures:
    """Retrieval and distances by 100-step and 3-step DDIM, beside what real pictures get."""
    backbone, judge = load(name), load(JUDGE)
    extractor, found = features.of(load(NETWORK), 3), Figures()
    for which, emoji in (("training", train), ("held-out", held)):
        real, captions = chosen(emoji, count)
        found[f"judge's top-5 retrieval, real {which} pictures"] = retrieval(judge, real, captions)
        for nfe in (100, 3):
            images = drawn(backbone, captions, nfe)
            found[f"judge's top-5 retrieval, {which} captions, DDIM {nfe}"] = retrieval(
                judge, images, captions
            )
            if which == "training":
                seen = features.gathered(s for batch in images for s in features.each(extractor, batch))
                distance = frechet(Moments.of(seen.features).statistics(), reference(NETWORK))
                found[f"Frechet distance, DDIM {nfe}"] = distance
            if nfe == 100:
                near = nearest(torch.cat(images), unit(train.pictures))
                found[f"distance to the nearest training picture, {which} captions"] = near
            told(f"{which}, DDIM {nfe}: {found}")
    near = nearest(unit(held.pictures), unit(train.pictures))
    return found | {"distance to the nearest training picture, real held-out pictures": near}


def nearest(images: Tensor, others: Tensor) -> float:
    """The mean over images of the root mean squared difference to the closest of others."""
    rows = torch.cdist(images.flatten(1), others.flatten(1)) / images[0].numel() ** 0.5
    return float(rows.min(1).values.mean())


def figures(name: str, count: int, data: str | None, told: Callable[[str], None]) -> tuple[Figures, str]:
    """The figures of any emoji model, and the hash of the data."""
    train, held = read("train", data), read("test", data)
    kind = entry(name).kind
    if kind in ("pixart", "sana"):
        return generator(name, train, held, count, told), train.hash
    kinds = {"clip": clip, "features": network, "autoencoder": autoencoder, "compressor": autoencoder}
    return kinds[kind](name, train, held), train.hash
