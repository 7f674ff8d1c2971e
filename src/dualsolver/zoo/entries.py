"""What the zoo holds: one literal table of names, what each is for, its shape and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..checks import check_choice
from .training import Recipe


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: its kind (see `fit.TASKS`), what it is for, options and recipe."""

    kind: str
    purpose: str
    recipe: Recipe
    options: dict[str, Any] = field(default_factory=dict)
    folder: str | None = None  # below the weights, if it is not the name
    notes: str = ""  # what a new training would not repeat
    data: str = "fashion"  # what it is trained on: fashion or emoji
    latents: str | None = None  # the autoencoder whose latents it is trained on


LEARNING = "a classifier to learn solvers with"
MATCHING = "a CLIP model to learn solvers with"

ENTRIES: dict[str, Entry] = {
    "judge": Entry(
        "classifier",
        "reports figures; never used for learning or choosing",
        Recipe(2800, rate=2e-3, decay=0.05, bf16=True, augment=2, seed=1),
        {"family": "resnet", "widths": [32, 64, 128], "depth": 2},
    ),
    "validation": Entry(
        "classifier",
        "features and classes on which choices may be made",
        Recipe(2000, rate=3e-3, decay=0.05, bf16=True, augment=1, seed=3),
        {"family": "mixer", "width": 48, "depth": 3},
    ),
    "autoencoder": Entry(
        "autoencoder",
        "the latents of both generators: 4 x 8 x 8",
        Recipe(3800, batch=64, rate=1e-3, bf16=True, augment=1, seed=2),
        {"block_out_channels": [24, 48, 64], "layers_per_block": 1, "norm_num_groups": 8},
        folder="fashion-dit/vae",  # where plain diffusers wants it
        notes="The first 4200 steps had batches of 32, a pull of 5e-4 and, until step 2400, absolute errors.",
    ),
    "fashion-dit": Entry(
        "dit",
        "class-conditional generator: VP, 1000 linear betas, noise prediction",
        Recipe(14_000, batch=96, decay=0.0, ema=0.9995, warmup=300, bf16=True, seed=4),
        {"num_attention_heads": 4, "attention_head_dim": 48, "num_layers": 5},
        latents="autoencoder",
    ),
    "fashion-gmdit": Entry(
        "gmdit",
        "class-conditional generator: flow matching, a mixture of velocities",
        Recipe(14_000, batch=96, decay=0.0, ema=0.9995, warmup=300, bf16=True, seed=5),
        {
            "num_attention_heads": 4,
            "attention_head_dim": 48,
            "num_layers": 5,
            "num_gaussians": 8,
            "logstd_inner_dim": 128,
        },
        latents="autoencoder",
    ),
    "linear-2x2": Entry("classifier", LEARNING, Recipe(1500, rate=1e-2), {"family": "linear", "size": 2}),
    "linear-4x4": Entry("classifier", LEARNING, Recipe(2000, rate=1e-2), {"family": "linear", "size": 4}),
    "linear-16x16": Entry("classifier", LEARNING, Recipe(3000), {"family": "linear", "size": 16}),
    "mlp-16": Entry("classifier", LEARNING, Recipe(3000), {"family": "mlp", "size": 8, "widths": [16]}),
    "mlp-64": Entry("classifier", LEARNING, Recipe(3000), {"family": "mlp", "size": 16, "widths": [64]}),
    "mlp-256": Entry(
        "classifier", LEARNING, Recipe(5000), {"family": "mlp", "size": 16, "widths": [256, 128]}
    ),
    "cnn-8": Entry("classifier", LEARNING, Recipe(2000, rate=3e-3), {"family": "cnn", "widths": [4, 8]}),
    "cnn-32": Entry(
        "classifier", LEARNING, Recipe(3000, rate=3e-3), {"family": "cnn", "widths": [8, 16, 32]}
    ),
    "vgg-32": Entry(
        "classifier",
        LEARNING,
        Recipe(3000, rate=3e-3, bf16=True, augment=1),
        {"family": "vgg", "widths": [8, 16, 32], "depth": 2},
    ),
    "vgg-128": Entry(
        "classifier",
        LEARNING,
        Recipe(4000, rate=2e-3, decay=0.05, bf16=True, augment=1),
        {"family": "vgg", "widths": [32, 64, 128], "depth": 2, "both": True},
    ),
    "emoji-judge": Entry(
        "clip",
        "reports CLIP scores and retrieval; never used for learning or choosing",
        Recipe(2500, batch=160, rate=2e-3, decay=0.1, bf16=True, augment=3, seed=11),
        {
            "embed_dim": 256,
            "vision_cfg": {"layers": [1, 1, 2, 1], "width": 16, "image_size": 64},
            "text_cfg": {"width": 128, "heads": 4, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-autoencoder": Entry(
        "autoencoder",
        "the latents of emoji-pixart: 8 x 8 x 8",
        Recipe(6000, batch=48, rate=1.5e-3, ema=0.998, bf16=True, seed=12),
        {
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 8,
            "block_out_channels": [24, 48, 64],
            "layers_per_block": 1,
            "norm_num_groups": 8,
        },
        folder="emoji-pixart/vae",
        data="emoji",
    ),
    "emoji-compressor": Entry(
        "compressor",
        "the latents of emoji-sana: 32 x 4 x 4",
        Recipe(6000, batch=48, rate=1.5e-3, ema=0.998, bf16=True, seed=13),
        {"widths": [24, 48, 96, 128], "depths": [1, 1, 1, 1], "latent_channels": 32},
        folder="emoji-sana/vae",
        data="emoji",
    ),
    "emoji-pixart": Entry(
        "pixart",
        "text to image: VP, 1000 linear betas, noise prediction",
        Recipe(30_000, batch=64, decay=0.0, ema=0.9995, warmup=500, bf16=True, seed=14),
        {"num_attention_heads": 7, "attention_head_dim": 32, "num_layers": 6},
        data="emoji",
        latents="emoji-autoencoder",
    ),
    "emoji-sana": Entry(
        "sana",
        "text to image: flow matching with shift 3",
        Recipe(30_000, batch=64, decay=0.0, ema=0.9995, warmup=500, bf16=True, seed=15),
        {"num_attention_heads": 7, "attention_head_dim": 32, "num_layers": 6},
        data="emoji",
        latents="emoji-compressor",
    ),
}


def entry(name: str) -> Entry:
    """Return the entry of a name; a wrong name is refused with the ones there are."""
    check_choice("the zoo's model", name, tuple(ENTRIES))
    return ENTRIES[name]
