"""The networks that experiments learn through and measure with, by the family of the backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ..backbones import guess
from ..checks import check_choice
from ..classifiers import PAPER
from ..classifiers.views import VIEWS
from ..judges import DATASET
from ..zoo.entries import ENTRIES, LEARNING
from ..zoo.references import FOLDER, NETWORKS
from ..zoo.registry import recorded

GUIDANCE = {"dit": 1.5, "gmdit": 1.4, "pixart": 3.5, "sana": 4.5}  # the paper's scales
PIPELINES = {"PixArtAlphaPipeline": "pixart", "SanaPipeline": "sana"}
RELEASED = {
    "facebook/DiT-XL-2-256": "dit",
    "Lakonik/gmflow_imagenet_k8_ema": "gmdit",
    "PixArt-alpha/PixArt-XL-2-512x512": "pixart",
    "Efficient-Large-Model/Sana_600M_512px_diffusers": "sana",
}


class Suite(NamedTuple):
    """The networks that go with a backbone: what solvers are learned through, and who measures the images.

    features: a feature network for each trunk of LPIPS in the paper; network, real, clips: as
    `dual-solver evaluate` takes them; chooser: who measures what choices are made by, never reported alone.
    """

    objective: str
    classifiers: tuple[str, ...]
    features: Mapping[str, str]
    network: str
    real: str = ""
    clips: tuple[str, ...] = ()
    chooser: str = ""


ZOO = tuple(f"zoo:{name}" for name, found in ENTRIES.items() if found.purpose == LEARNING)
FASHION = Suite(
    "hard-label",
    ("zoo:vgg-128", *(name for name in ZOO if name != "zoo:vgg-128")),
    {"AlexNet": "zoo:cnn-8", "VGG": "zoo:vgg-128", "SqueezeNet": "zoo:cnn-32"},
    "judge",
    DATASET,
    chooser="validation",
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


def suite_of(backbone: str) -> Suite:
    """The networks for a backbone, if nobody says otherwise."""
    if kind_of(backbone) in ("pixart", "sana"):
        return TEXT
    return FASHION if backbone in ENTRIES else IMAGENET


def kind_of(backbone: str) -> str:
    """The kind of a backbone, one of the paper's four, by its config alone.

    >>> kind_of("fashion-gmdit")
    'gmdit'
    """
    if backbone in ENTRIES:
        return ENTRIES[backbone].kind
    if backbone in RELEASED:
        return RELEASED[backbone]
    found = backbone if backbone == "toy" else guess(backbone)
    if found == "pipeline":
        from ..backbones.pretrained import read_config

        found = PIPELINES.get(read_config(backbone, "").get("_class_name", ""), found)
    check_choice(f"what {backbone} is", found, tuple(GUIDANCE))
    return found


@cache
def stamped(name: str) -> str:
    """The name of a classifier, feature network or judge with the hash of its files, where it is known.

    A file, as in inception=file.npz, and a folder go by their bytes: nobody's paths get into results. What is
    not there is refused where it is loaded, together with all else that is missing. Several may be joined by
    " + ", and a classifier may have views: before its name.
    """
    if " + " in name:
        return " + ".join(map(stamped, name.split(" + ")))
    if name.startswith(VIEWS):
        return VIEWS + stamped(name.removeprefix(VIEWS))
    name, equals, file = name.partition("=")
    if name and Path(name).is_dir():
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
