"""Things by the names that commands take: backbones, objectives, solvers, items."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .backbones import BACKBONES, Backbone
from .backbones import load as load_backbone
from .checks import check_choice, check_device, number
from .clip import Scorer
from .contrast import Contrast, Cosine
from .extras import needs
from .features import Extractor, Seen
from .hub import artifact, is_id
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
from .parameters import is_fixed, read
from .parameters import load as load_solver
from .prediction import check_guidance
from .schedule import from_config, same_rates
from .solvers import SOLVERS, Solver
from .statistics import Statistics

logger = logging.getLogger(__name__)

OBJECTIVES = ("hard-label", "soft-label", "sample", "trajectory", "feature", "defects", "clip", "cosine")
Loss = Callable[[Tensor], Tensor]


def backbone(
    name: str, dtype: str | None = None, variant: str | None = None, device: str = "cpu"
) -> Backbone:
    """Load a generator of the zoo, "toy", or a diffusers pipeline from a folder or a hub id."""
    from . import zoo
    from .zoo.entries import ENTRIES

    check_choice("dtype", dtype, (None, "float32", "bfloat16", "float16"))
    check_device(device)
    source: str | Path = name
    if not (name == "toy" or is_id(name) or Path(name).exists()):
        ours = [n for n, entry in ENTRIES.items() if entry.kind in BACKBONES]
        if name not in ours:
            raise ValueError(f"no folder {name} and no hub id (OWNER/NAME); built in: {', '.join(ours)}, toy")
        source = zoo.path(name)
    kind = None if dtype is None else getattr(torch, dtype)
    found = load_backbone(source, dtype=kind, variant=variant, device=device)
    found.name = name
    return found


def guidance(found: Backbone, scale: float | None) -> float:
    """The guidance scale that was given, or the backbone's usual one."""
    if scale is None:
        return found.guidance
    check_guidance(scale)
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
    """The log of the mean probability of some classifiers, and their hashes.

    One with views: before its name looks at paler, bolder and moved copies, too.
    """
    from .classifiers import load_classifier
    from .classifiers.views import VIEWS, viewed

    found: list[Loss] = []
    hashes = {}
    for name in names:
        classifier, several = load_classifier(name.removeprefix(VIEWS), device), name.startswith(VIEWS)
        found.append(viewed(classifier) if several else classifier)
        hashes[VIEWS * several + classifier.name] = classifier.sha256[:16]
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


def solver(name: str, nfe: int | None, grid: str | None = None) -> Solver:
    """A fixed solver by its name in the registry (of 10 evaluations if `nfe` is None), or a learned one.

    A learned one comes from a folder, a file or the hub.
    """
    if name in SOLVERS and is_fixed(SOLVERS[name]):
        return SOLVERS[name](10 if nfe is None else nfe, grid=grid)
    return load_solver(artifact(name), nfe=nfe)[0]


def tell_apart(name: str, backbone: Backbone, guidance: float) -> None:
    """Warn where a solver was learned with another guidance scale, schedule or prediction."""
    if name in SOLVERS:
        return
    content = read(artifact(name))
    schedule = content["schedule"] and from_config(content["schedule"])
    if schedule and same_rates(schedule, backbone.schedule):
        schedule = None  # perhaps of another grid, which is the solver's business
    for what, learned, here in (
        ("guidance", content["provenance"].get("guidance"), guidance),
        ("prediction", content["prediction"], backbone.kind),
        ("schedule", schedule, backbone.schedule),
    ):
        if learned not in (None, here):
            logger.warning("%s was learned with %s %s, but here it is %s", name, what, learned, here)


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


def network(spec: str, device: str = "cpu") -> Network:
    """The zoo's "validation" or "judge", or a feature network with statistics: NAME=statistics.npz."""
    from . import features, zoo
    from .zoo.references import NETWORKS, reference
    from .zoo.registry import recorded

    name, equals, file = spec.partition("=")
    check_choice("network", name, (*NETWORKS, *features.EXTRACTORS))
    if not equals and name not in NETWORKS:
        raise ValueError(f"{name} needs statistics of real images: {name}=path/to/statistics.npz")
    statistics = Statistics.load(file) if equals else reference(name)
    ours = name in NETWORKS
    if ours:
        shipped = zoo.load(name).to(device)
        extractor = features.of(shipped, shipped.channels)
    else:
        extractor = features.load(name, device=device)
    identity = recorded(name)[:16] if ours else name
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
    return _wholes("an NFE", specs, 1)


def seeds(specs: Sequence[str]) -> tuple[int, ...]:
    """Read seeds, ranges included.

    >>> seeds(["0..3"])
    (0, 1, 2, 3)
    """
    return _wholes("a seed", specs, 0)


def _wholes(what: str, specs: Sequence[str], least: int) -> tuple[int, ...]:
    found: set[int] = set()
    for spec in specs:
        first, _, last = spec.partition("..")
        try:
            found |= set(range(int(first), int(last or first) + 1))
        except ValueError:
            raise ValueError(f"{what} is a whole number or a range such as 3..9, not {spec!r}") from None
    if not found or min(found) < least:
        raise ValueError(f"{what} is a whole number from {least}, or a range of them, not {' '.join(specs)}")
    return tuple(sorted(found))
