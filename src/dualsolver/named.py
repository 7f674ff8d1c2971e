"""Things by the names that commands take: backbones, objectives, solvers, items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .backbones import Backbone
from .backbones import load as load_backbone
from .checks import check_choice, number
from .clip import Scorer
from .contrast import Contrast, Cosine
from .extras import needs
from .features import Extractor, Seen
from .objectives import (
    Defects,
    FeatureRegression,
    HardLabel,
    Mixed,
    Objective,
    SampleRegression,
    SoftLabel,
    TrajectoryRegression,
)
from .parameters import NAME, is_fixed
from .parameters import load as load_solver
from .solvers import SOLVERS, Solver
from .statistics import Statistics

OBJECTIVES = ("hard-label", "soft-label", "sample", "trajectory", "feature", "defects", "clip", "cosine")
GUIDANCE = {"dit": 1.5, "gmdit": 1.4, "pixart": 3.5, "sana": 4.5, "toy": 1.0}  # the paper's
Loss = Callable[[Tensor], Tensor]


def backbone(
    name: str, dtype: str | None = None, variant: str | None = None, device: str = "cpu"
) -> Backbone:
    """Load a generator of the zoo, "toy", or a diffusers pipeline from a folder or a hub id."""
    from . import zoo
    from .zoo.entries import ENTRIES

    check_choice("dtype", dtype, (None, "float32", "bfloat16", "float16"))
    source = zoo.path(name) if name in ENTRIES and not Path(name).exists() else name
    kind = None if dtype is None else getattr(torch, dtype)
    found = load_backbone(source, dtype=kind, variant=variant, device=device)
    found.name = name
    return found


def guidance(found: Backbone, scale: float | None) -> float:
    """The guidance scale that was given, or the paper's for this kind of backbone."""
    if scale is None:
        return GUIDANCE[type(found).__name__.lower()]
    if number("the guidance scale", scale) < 0:
        raise ValueError(f"the guidance scale must not be negative, but is {scale}")
    return scale


def objective(
    specs: Sequence[str],
    classifiers: Sequence[str],
    features: str,
    device: str = "cpu",
    clips: Sequence[str] = (),
) -> tuple[Objective, dict[str, Any]]:
    """Make an objective of names such as "hard-label" or "feature=0.1" (a weight), and say what it was.

    The second value is for provenance: weights, and the hashes of the networks that judge.
    """
    weights = {name: number(name, weight) for name, weight in map(_weighted, specs)}
    facts: dict[str, Any] = {"objective": weights}
    logits = None
    if {"hard-label", "soft-label"} & set(weights):
        logits, facts["classifiers"] = ensemble(classifiers, device)
    matched = {"clip", "cosine"} & set(weights)
    models, known = pairs(clips, device) if matched else ([], {})
    facts |= {"clip": known} if matched else {}
    parts = [
        (weight, _objective(name, logits, models, features, facts, device))
        for name, weight in weights.items()
    ]
    return (parts[0][1] if len(parts) == 1 else Mixed(parts)), facts


def ensemble(names: Sequence[str], device: str) -> tuple[Loss, dict[str, str]]:
    """The log of the mean probability of some classifiers, and their hashes."""
    from .classifiers import load_classifier

    found = [load_classifier(name, device) for name in names]
    hashes = {classifier.name: classifier.sha256[:16] for classifier in found}
    if len(found) == 1:
        return found[0], hashes

    def together(images: Tensor) -> Tensor:
        return torch.stack([classifier(images).log_softmax(1) for classifier in found]).logsumexp(
            0
        ) - math.log(len(found))

    return together, hashes


def pairs(specs: Sequence[str], device: str) -> tuple[list[Scorer], dict[str, str]]:
    """CLIP models by name, and their hashes; the judge is not for learning."""
    from . import clip, zoo

    if not specs:
        raise ValueError("name a model of open_clip: --clip NAME=FILE, a folder, or zoo:NAME")
    for spec in specs:
        family, _, name = spec.partition(":")
        if family == "zoo":
            check_choice("the zoo's CLIP model", name, [n for n in zoo.names("clip") if n != "emoji-judge"])
    found = [clip.load(spec, device) for spec in specs]
    return found, {spec: model.sha256 for spec, model in zip(specs, found, strict=True)}


def _weighted(spec: str) -> tuple[str, float]:
    name, _, weight = spec.partition("=")
    check_choice("objective", name, OBJECTIVES)
    try:
        return name, float(weight or 1.0)
    except ValueError:
        raise ValueError(f"the weight of {name} must be a number, not {weight!r}") from None


def _objective(
    name: str,
    logits: Any,
    models: Sequence[Scorer],
    features: str,
    facts: dict[str, Any],
    device: str,
) -> Objective:
    if name in ("clip", "cosine"):
        return (Contrast if name == "clip" else Cosine)(models)
    if name in ("hard-label", "soft-label"):
        return (HardLabel if name == "hard-label" else SoftLabel)(logits)
    if name == "feature":
        distance, facts["features"] = distance_named(features, device)
        return FeatureRegression(distance)
    plain: dict[str, Any] = {
        "sample": SampleRegression,
        "trajectory": TrajectoryRegression,
        "defects": Defects,
    }
    found: Objective = plain[name]()
    return found


def distance_named(name: str, device: str) -> tuple[Callable[[Tensor, Tensor], Tensor], dict[str, str]]:
    """A distance between images: LPIPS by its trunk, or in the features of a network of the zoo."""
    from .classifiers import feature_distance, perceptual, state_hash

    family, _, rest = name.partition(":")
    if family != "zoo":
        with needs("learn"):
            lpips = perceptual(name)
        return lpips, {lpips.name: lpips.sha256[:16]}
    from . import zoo

    check_choice("the zoo's feature network", rest, [n for n in zoo.names("classifier") if n != "judge"])
    network = zoo.load(rest)
    return feature_distance(lambda images: network.features(images * 2 - 1)), {name: state_hash(network)[:16]}


def options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs: true, false, none and numbers mean themselves.

    >>> options(["kind=p2", "shared=true", "bound=4"])
    {'kind': 'p2', 'shared': True, 'bound': 4.0}
    """
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"an option is written NAME=VALUE, not {pair!r}")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text)
    except ValueError:
        return text


def solver(name: str, nfe: int, grid: str | None = None) -> Solver:
    """A fixed solver by its name in the registry, or a learned one from its folder."""
    if name in SOLVERS and is_fixed(SOLVERS[name]):
        return SOLVERS[name](nfe, grid=grid)
    if not (Path(name) / NAME).exists():
        fixed = [n for n, kind in SOLVERS.items() if is_fixed(kind)]
        raise ValueError(f"no learned folder {name} and no fixed solver of that name: {', '.join(fixed)}")
    return load_solver(name, nfe=nfe)[0]


def items(found: Backbone, prompts: str | None) -> list[str]:
    """What a backbone is asked for: its classes, or the prompts of a file (see `captions.prompts`).

    The zoo's own models know captions: those that they were trained on, in an order drawn once.
    """
    from .captions import prompts as read

    if found.classes:
        if prompts is not None:
            raise ValueError(f"{found.name} takes classes, not prompts: leave out --prompts")
        return list(found.classes)
    if prompts is not None:
        return read(prompts)
    if found.name.startswith("emoji-"):
        from .zoo.emoji.data import captions

        return captions("train")
    raise ValueError(f"{found.name} takes prompts: give a file of them, as --prompts FILE")


class Network(NamedTuple):
    """Who looks at images, what the real ones look like to it, and what it is."""

    extractor: Extractor
    statistics: Statistics
    identity: str


def network(spec: str) -> Network:
    """The zoo's "validation" or "judge", or a feature network with statistics: NAME=statistics.npz."""
    from . import features, zoo
    from .zoo.references import NETWORKS, reference
    from .zoo.registry import recorded

    name, equals, file = spec.partition("=")
    check_choice("network", name, (*NETWORKS, *features.EXTRACTORS))
    if not equals and name not in NETWORKS:
        raise ValueError(f"{name} needs statistics of real images: {name}=path/to/statistics.npz")
    statistics = Statistics.load(file) if equals else reference(name)
    extractor = features.of(zoo.load(name)) if name in NETWORKS else features.load(name)
    identity = recorded(name)[:16] if name in NETWORKS else name
    return Network(_agreeing(extractor, statistics, spec), statistics, identity)


def _agreeing(extractor: Extractor, statistics: Statistics, spec: str) -> Extractor:
    """Refuse, at the first batch, features that the statistics are not of; drop those they do not have."""

    def extract(images: Tensor) -> Seen:
        seen = extractor(images)
        if seen.features.shape[1] != len(statistics.mu):
            raise ValueError(
                f"{spec}: the statistics are of {len(statistics.mu)} features, but the network has "
                f"{seen.features.shape[1]}: take statistics made with this network"
            )
        return seen if statistics.spatial is not None else seen._replace(spatial=None)

    return extract


def nfes(specs: Sequence[str]) -> tuple[int, ...]:
    """Read numbers of evaluations, ranges included.

    >>> nfes(["3", "5..7"])
    (3, 5, 6, 7)
    """
    found: set[int] = set()
    for spec in specs:
        first, _, last = spec.partition("..")
        try:
            found |= set(range(int(first), int(last or first) + 1))
        except ValueError:
            raise ValueError(f"an NFE is a whole number or a range such as 3..9, not {spec!r}") from None
    if not found or min(found) < 1:
        raise ValueError(f"NFEs are whole numbers from 1, not {' '.join(specs)}")
    return tuple(sorted(found))
