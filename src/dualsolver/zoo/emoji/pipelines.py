"""What both text-to-image models share: how they start, what they are told, and how they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ...files import write_whole
from ..generators import DROPPED, write_index
from .data import Row
from .texts import Tokens, said, tokens

TEXT = 192  # the width of the text encoders


def network(model: Any) -> nn.Module:
    """Start a transformer with small times and with blocks and output that add nothing yet."""
    time = getattr(model, "adaln_single", None) or model.time_embed
    nn.init.normal_(time.linear.weight, std=0.02)
    for block in model.transformer_blocks:
        nn.init.zeros_(block.attn2.to_out[0].weight)
    nn.init.zeros_(model.proj_out.weight)
    nn.init.zeros_(model.proj_out.bias)
    found: nn.Module = model
    return found


def drawn_texts(tokenizer: Any, rows: Sequence[Row], before: str = "") -> Callable[[Tensor], Tokens]:
    """Return what draws a text for each emoji of a batch; some are dropped, with what is said before all."""
    every = tokens(tokenizer, [[before + text for text in said(row)] for row in rows])
    empty = tokens(tokenizer, [[""]])
    nothing = Tokens(empty.ids[0], empty.mask[0])

    def draw(chosen: Tensor) -> Tokens:
        return every.drawn(chosen).dropped(nothing, DROPPED)

    return draw


def save(pipeline: str, autoencoder: str, model: Any, tokenizer: Any, scheduler: Any, folder: Path) -> None:
    """Write all but the autoencoder, the networks in float16; they load in float32."""
    networks = {"transformer": model["transformer"].half(), "text_encoder": model["text"].half()}
    parts = {**networks, "tokenizer": tokenizer, "scheduler": scheduler}
    index = {"vae": ["diffusers", autoencoder]}
    for name, part in parts.items():
        part.save_pretrained(folder / name)
        library = "transformers" if name in ("text_encoder", "tokenizer") else "diffusers"
        index[name] = [library, type(part).__name__]
    config = folder / "text_encoder" / "config.json"
    write_whole(config, json.dumps(json.loads(config.read_text()) | {"dtype": "float32"}, indent=2) + "\n")
    write_index(folder, pipeline, index)
