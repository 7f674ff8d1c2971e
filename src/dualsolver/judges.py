"""Who judges images, by the names that commands take: feature networks, CLIP, real images beside them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from . import features, images
from .clip import Scorer
from .clip import load as load_clip
from .named import Network, network
from .statistics import Statistics

logger = logging.getLogger(__name__)

DATASET = "fashion-mnist"


class Judges(NamedTuple):
    """Networks and scorers by name, and what the networks see of real images, for precision and recall."""

    networks: Mapping[str, Network]
    scores: Mapping[str, Scorer]
    real: Mapping[str, Tensor]
    keep: int

    def identity(self) -> dict[str, Any]:
        """What is remembered of images depends on this."""
        found: dict[str, Any] = {name: one.identity for name, one in self.networks.items()}
        return {"networks": found | {name: one.sha256 for name, one in self.scores.items()}}

    def references(self) -> dict[str, Statistics]:
        """The statistics of real images, those of sFID apart."""
        found = {name: one.statistics for name, one in self.networks.items()}
        spatial = {f"{name}, spatial": s.spatial for name, s in found.items() if s.spatial is not None}
        return found | spatial

    def provenance(self) -> dict[str, Any]:
        """What the figures were measured against."""
        return {
            name: {"images": statistics.count, "hash": statistics.source}
            for name, statistics in self.references().items()
        }

    def warn_of_few(self, count: int) -> None:
        """Say it if a covariance cannot have full rank."""
        for name, statistics in self.references().items():
            if count <= (size := len(statistics.mu)):
                logger.warning(
                    "%d images for %d features (%s): their covariance is singular and the distance is too "
                    "large, comparable only at this very count; take more images than features",
                    count,
                    size,
                    name,
                )


def judges(
    networks: Sequence[str], clips: Sequence[str], real: str | None, keep: int, device: str = "cpu"
) -> Judges:
    """Load who judges. `real`: images for precision and recall, compared with the first `keep` samples."""
    found: dict[str, Network] = {}
    for spec in networks:
        name = spec.partition("=")[0]
        if name in found:
            raise ValueError(f"{name} is named twice: measure against other statistics in a run of its own")
        found[name] = network(spec)
    seen: dict[str, Tensor] = {}
    if real is not None:
        pictures = real_images(real, keep)
        for name, one in found.items():
            seen[name] = features.gathered(features.each(one.extractor, pictures)).features
    scores = {f"clip score ({_short(spec)})": load_clip(spec, device) for spec in clips}
    return Judges(found, scores, seen, keep if real is not None else 0)


def _short(spec: str) -> str:
    return Path(spec.partition("=")[0]).name


def real_images(source: str, count: int) -> Tensor:
    """The first images of a folder, an .npz with arr_0, or the test set of Fashion-MNIST, in [0, 1]."""
    if source != DATASET:
        return images.read(source, count)
    from .zoo.data import read
    from .zoo.references import unit

    return unit(read("test").pictures[:count])
