"""CLIP models of the emoji, in open_clip's own classes and format: images and captions in one space."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...classifiers.preprocess import Preprocess
from ...contrast import contrast
from ...extras import needs
from ...files import write_whole
from ..augment import augmented
from ..data import scaled
from ..task import Task
from .data import Emoji
from .texts import SIZE, said, t5_tokenizer, tokens

LENGTH = 24  # tokens of a caption
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
TEXT = {  # of every model; `clean` makes letters small, `eos` is where a caption is summed up
    "context_length": LENGTH,
    "vocab_size": SIZE,
    "hf_tokenizer_name": "t5",  # whatever it says, open_clip takes the one in the model's folder
    "tokenizer_kwargs": {"clean": "lower"},
    "pool_type": "eos",
    "eos_id": 1,
    "pad_id": 0,
}
MEAN = STD = (0.5, 0.5, 0.5)


def config(options: dict[str, Any]) -> dict[str, Any]:
    """The model's config for open_clip."""
    return options | {"text_cfg": TEXT | options["text_cfg"]}


def build(options: dict[str, Any]) -> nn.Module:
    """Make an untrained model."""
    with needs("evaluate"):
        from open_clip.model import CLIP
    model: nn.Module = CLIP(**config(options))
    return model.to(memory_format=torch.channels_last)


def task(options: dict[str, Any], strength: int, emoji: Emoji) -> Task:
    """Symmetric cross entropy of which caption belongs to which picture, with a learned temperature."""
    model: Any = build(options)
    tokenizer = t5_tokenizer(emoji.rows)
    captions = tokens(tokenizer, [said(row) for row in emoji.rows], LENGTH).ids
    size = options["vision_cfg"]["image_size"]
    enlarged = Preprocess(size, size, (0.0,) * 3, (1.0,) * 3, "bicubic")

    def loss(model: Any, chosen: Tensor) -> Tensor:
        images = enlarged(augmented(scaled(emoji.pictures[chosen]), strength))
        seen = model.encode_image(images.contiguous(memory_format=torch.channels_last), normalize=True)
        variant = torch.randint(captions.shape[1], (len(chosen),))
        read = model.encode_text(captions[chosen, variant], normalize=True)
        return contrast(seen.float(), read.float(), 1 / model.logit_scale.exp().clamp(max=100)).mean()

    return Task(model, loss, len(emoji), lambda folder: save(model, options, tokenizer, folder))


def save(model: nn.Module, options: dict[str, Any], tokenizer: Any, folder: Path) -> None:
    """Write what open_clip opens as "local-dir:FOLDER": config, tokenizer, and matrices in float16."""
    from safetensors.torch import save as packed

    state = {k: (v.half() if v.ndim > 1 else v).contiguous() for k, v in model.state_dict().items()}
    about = {
        "model_cfg": config(options),
        "preprocess_cfg": {"mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "shortest"},
    }
    write_whole(folder / CONFIG, json.dumps(about, indent=2) + "\n")
    write_whole(folder / WEIGHTS, packed(state))
    tokenizer.save_pretrained(folder)
