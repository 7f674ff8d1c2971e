"""The models of the captioned emoji: a CLIP judge before all others, then what learns and generates."""

from __future__ import annotations

from ..entry import Entry
from ..training import Recipe

MATCHING = "a CLIP model to learn solvers with"

EMOJI: dict[str, Entry] = {
    "emoji-judge": Entry(
        "clip",
        "reports CLIP scores and retrieval; never used for learning or choosing",
        Recipe(2000, batch=160, rate=2e-3, decay=0.1, bf16=True, augment=3, seed=11),
        {
            "embed_dim": 256,
            "vision_cfg": {"layers": [1, 1, 2, 1], "width": 16, "image_size": 64},
            "text_cfg": {"width": 128, "heads": 4, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-validation": Entry(
        "clip",
        "CLIP scores on which choices may be made",
        Recipe(4000, batch=160, rate=2e-3, decay=0.1, bf16=True, augment=3, seed=16),
        {
            "embed_dim": 128,
            "vision_cfg": {"timm_model_name": "test_convnext", "timm_proj": "linear", "image_size": 64},
            "text_cfg": {"width": 96, "heads": 3, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-features": Entry(
        "features",
        "features for distances between distributions of emoji; seen by no training",
        Recipe(4000, batch=96, rate=2e-3, decay=0.05, bf16=True, augment=4, seed=17),
        {"family": "vgg", "widths": [32, 64, 128], "depth": 2, "both": True, "classes": 100, "channels": 3},
        data="emoji",
    ),
    "emoji-vit-tiny": Entry(
        "clip",
        MATCHING,
        Recipe(1500, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=21),
        {
            "embed_dim": 64,
            "vision_cfg": {"layers": 1, "width": 32, "head_width": 32, "patch_size": 16, "image_size": 32},
            "text_cfg": {"width": 32, "heads": 1, "layers": 1},
        },
        data="emoji",
    ),
    "emoji-vit-small": Entry(
        "clip",
        MATCHING,
        Recipe(3000, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=22),
        {
            "embed_dim": 96,
            "vision_cfg": {"layers": 2, "width": 64, "head_width": 32, "patch_size": 8, "image_size": 32},
            "text_cfg": {"width": 64, "heads": 2, "layers": 1},
        },
        data="emoji",
    ),
    "emoji-vit-wide": Entry(
        "clip",
        MATCHING,
        Recipe(3000, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=23),
        {
            "embed_dim": 128,
            "vision_cfg": {"layers": 3, "width": 160, "head_width": 32, "patch_size": 8, "image_size": 32},
            "text_cfg": {"width": 96, "heads": 3, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-vit-brief": Entry(
        "clip",
        MATCHING,
        Recipe(400, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=24),
        {
            "embed_dim": 128,
            "vision_cfg": {"layers": 4, "width": 128, "head_width": 32, "patch_size": 4, "image_size": 32},
            "text_cfg": {"width": 96, "heads": 3, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-vit-fine": Entry(
        "clip",
        MATCHING,
        Recipe(2500, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=25),
        {
            "embed_dim": 128,
            "vision_cfg": {"layers": 3, "width": 96, "head_width": 32, "patch_size": 4, "image_size": 32},
            "text_cfg": {"width": 96, "heads": 3, "layers": 2},
        },
        data="emoji",
    ),
    "emoji-vit-base": Entry(
        "clip",
        MATCHING,
        Recipe(4000, batch=160, rate=1e-3, decay=0.1, bf16=True, augment=3, seed=26),
        {
            "embed_dim": 128,
            "vision_cfg": {"layers": 4, "width": 128, "head_width": 32, "patch_size": 4, "image_size": 32},
            "text_cfg": {"width": 96, "heads": 3, "layers": 2},
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
