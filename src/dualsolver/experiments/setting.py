"""What experiments are run on: a backbone, the networks that go with it, and how much is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from .. import named
from ..backbones import Backbone, guess
from ..checks import check_choice
from ..classifiers import PAPER
from ..fit import PRESETS, Recipe
from ..judges import DATASET
from ..zoo.entries import ENTRIES, LEARNING
from ..zoo.references import FOLDER, NETWORKS
from ..zoo.registry import recorded


@dataclass(frozen=True)
class Budget:
    """How a solver is learned, of how many images figures are, and from how many seeds both are repeated.

    keep: images for precision and recall; fresh: samples for the cross-entropy of what was learned; gpu:
    whether it is meant for one.
    """

    recipe: Recipe
    count: int
    keep: int
    fresh: int
    teacher: str
    teacher_count: int
    seeds: tuple[int, ...] = (0, 1, 2)


BUDGETS = {
    "quick": Budget(
        replace(PRESETS["fast"], steps=100, batch=20, every=25, held_out=50), 1500, 1500, 500, "ddim:50", 200
    ),
    "full": Budget(PRESETS["paper"], 50_000, 10_000, 1000, "ddim:200", 1000),
}


def changed(budget: Budget, changes: Mapping[str, Any]) -> Budget:
    """Return a budget with some of its numbers, or of its recipe's, replaced; seeds is how many.

    >>> changed(BUDGETS["quick"], {"count": 200, "seeds": 2}).seeds
    (0, 1)
    """
    of_recipe, of_budget = ({f.name for f in fields(kind)} for kind in (Recipe, Budget))
    for name, value in changes.items():
        check_choice("what the budget spends", name, sorted(of_recipe | of_budget - {"recipe"}))
        if name == "seeds":
            budget = replace(budget, seeds=tuple(range(int(value))))
        elif name in of_recipe:
            before = getattr(budget.recipe, name)
            budget = replace(budget, recipe=replace(budget.recipe, **{name: type(before)(value)}))
        else:
            budget = replace(budget, **{name: type(getattr(budget, name))(value)})
    return budget


RELEASED = {
    "facebook/DiT-XL-2-256": "dit",
    "Lakonik/gmflow_imagenet_k8_ema": "gmdit",
    "PixArt-alpha/PixArt-XL-2-512x512": "pixart",
    "Efficient-Large-Model/Sana_600M_512px_diffusers": "sana",
}


class Suite(NamedTuple):
    """The networks that go with a backbone: what solvers are learned through, and who measures the images.

    features: a feature network for each trunk of LPIPS in the paper; network, real, clips: as
    `dual-solver evaluate` takes them.
    """

    objective: str
    classifiers: tuple[str, ...]
    features: Mapping[str, str]
    network: str
    real: str = ""
    clips: tuple[str, ...] = ()


ZOO = tuple(f"zoo:{name}" for name, found in ENTRIES.items() if found.purpose == LEARNING)
FASHION = Suite(
    "hard-label",
    ("zoo:vgg-128", *(name for name in ZOO if name != "zoo:vgg-128")),
    {"AlexNet": "zoo:cnn-8", "VGG": "zoo:vgg-128", "SqueezeNet": "zoo:cnn-32"},
    "judge",
    DATASET,
)
TRUNKS = {"AlexNet": "alex", "VGG": "vgg", "SqueezeNet": "squeeze"}
IMAGENET = Suite(
    "hard-label",
    ("mobilenet_v3_large", *(name for name in PAPER if name != "mobilenet_v3_large")),
    TRUNKS,
    "inception",
)
CLIPS = (
    "RN101=openai",
    "ViT-H-14-378-quickgelu=dfn5b",
    "coca_ViT-L-14=mscoco_finetuned_laion2b_s13b_b90k",
    "EVA02-E-14=laion2b_s4b_b115k",
    "convnext_xxlarge=laion2b_s34b_b82k_augreg",
    "ViT-B-16-SigLIP-256=webli",
    "EVA02-L-14-336=merged2b_s6b_b61k",
    "ViT-L-14=commonpool_xl_laion_s13b_b90k",
    "convnext_base_w=laion_aesthetic_s13b_b82k",
    "convnext_base_w_320=laion_aesthetic_s13b_b82k_augreg",
    "ViT-B-16-plus-240=laion400m_e32",
    "ViT-B-32=laion2b_e16",
    "ViT-B-32-quickgelu=metaclip_fullcc",
    "RN50x16=openai",
    "ViT-B-32=laion400m_e31",
    "ViT-B-16=commonpool_l_text_s1b_b8k",
    "ViT-B-16=commonpool_l_s1b_b8k",
    "ViT-B-32=commonpool_m_text_s128m_b4k",
    "ViT-B-32=commonpool_s_clip_s13m_b4k",
    "coca_ViT-B-32=mscoco_finetuned_laion2b_s13b_b90k",
)
TEXT = Suite("clip", CLIPS, TRUNKS, "inception", clips=CLIPS[:1])


@dataclass(frozen=True)
class Setting:
    """A backbone with its suite and a budget.

    prompts: the file that a text backbone draws from; batch: images a call when measuring; recompute: keep no
    activations when learning; planned: only costs are asked for, so no weights are needed.
    """

    backbone: str
    suite: Suite
    budget: Budget
    scale: float | None = None
    prompts: str | None = None
    dtype: str | None = None
    device: str = "cpu"
    batch: int = 100
    recompute: bool = False
    planned: bool = False

    @cached_property
    def kind(self) -> str:
        """dit, gmdit, pixart or sana."""
        return kind_of(self.backbone)

    @property
    def name(self) -> str:
        """The backbone's name: of a folder, its own alone."""
        return Path(self.backbone).name if Path(self.backbone).exists() else self.backbone

    @property
    def slug(self) -> str:
        """The name as that of a file."""
        return self.name.replace("/", "--")

    @property
    def flow(self) -> bool:
        """Whether it is a flow, whose baselines have their own published forms."""
        return self.kind in ("gmdit", "sana")

    @cached_property
    def weights(self) -> str:
        """A hash of the backbone's weights."""
        if self.backbone in ENTRIES:
            return recorded(self.backbone)[:16]
        return "" if self.planned else self.load().fingerprint()

    @property
    def guidance(self) -> float:
        """The guidance scale: the paper's if none was given."""
        return named.GUIDANCE[self.kind] if self.scale is None else self.scale

    @cached_property
    def items(self) -> list[str]:
        """The classes or prompts that are sampled, encoded at once."""
        backbone = self.load()
        found = named.items(backbone, self.prompts)
        if not backbone.classes:
            backbone.conditions(found)
        return found

    def spec(self, stamp: str) -> str:
        """What a stamped name was stamped from."""
        known = (*self.suite.classifiers, *self.suite.features.values())
        return next(name for name in known if stamped(name) == stamp)

    def load(self) -> Backbone:
        """The backbone itself, loaded once."""
        return _loaded(self.backbone, self.dtype, self.device)


def suite_of(backbone: str) -> Suite:
    """The networks for a backbone, if nobody says otherwise."""
    if kind_of(backbone) in ("pixart", "sana"):
        return TEXT
    return FASHION if backbone in ENTRIES else IMAGENET


def kind_of(backbone: str) -> str:
    """The kind of a backbone, by its config alone.

    >>> kind_of("fashion-gmdit")
    'gmdit'
    """
    if backbone in ENTRIES:
        return ENTRIES[backbone].kind
    return RELEASED.get(backbone) or guess(backbone)


def stamped(name: str) -> str:
    """The name of a classifier, feature network or judge with the hash of its files, where it is known.

    A file, as in inception=file.npz, and a folder go by their bytes: nobody's paths get into results. What is
    not there is refused where it is loaded, together with all else that is missing.
    """
    name, equals, file = name.partition("=")
    if Path(name).is_dir():
        return f"{Path(name).name} {_hash(sorted(Path(name).glob('*.*')))}"
    if equals and Path(file).suffix:
        return f"{name} {_hash([Path(file)] if Path(file).exists() else [])}"
    if equals:  # a tag of open_clip
        return f"{name}={file}"
    if name in NETWORKS:
        return f"{name} {recorded(name)[:8]} {recorded(FOLDER)[:8]}"
    family, colon, rest = name.partition(":")
    return f"{name} {recorded(rest)[:8]}" if colon and family == "zoo" else name


def _hash(files: Sequence[Path]) -> str:
    digest = sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


@cache
def _loaded(name: str, dtype: str | None, device: str) -> Backbone:
    return named.backbone(name, dtype, None, device)
