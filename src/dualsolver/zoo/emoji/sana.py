"""The flow model: SANA's transformer and a Gemma 2 trained along with it, on the velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..generators import times
from ..task import Task
from .data import Emoji
from .pipelines import TEXT, drawn_texts, network, save
from .texts import gemma_tokenizer, instruction

SHIFT = 3.0


def encoder(tokenizer: Any) -> nn.Module:
    """An untrained Gemma 2; without soft caps, which not every attention of transformers knows."""
    from transformers import Gemma2Config, Gemma2Model

    made: nn.Module = Gemma2Model(
        Gemma2Config(
            vocab_size=len(tokenizer),
            hidden_size=TEXT,
            intermediate_size=2 * TEXT,
            num_hidden_layers=3,
            num_attention_heads=TEXT // 32,
            num_key_value_heads=2,
            head_dim=32,
            query_pre_attn_scalar=32,
            max_position_embeddings=1024,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            use_cache=False,
        )
    )
    return made


def build(options: dict[str, Any]) -> nn.Module:
    """An untrained transformer for latents of 4 x 4."""
    from diffusers import SanaTransformer2DModel

    heads, size = options["num_attention_heads"], options["attention_head_dim"]
    model = SanaTransformer2DModel(
        in_channels=32,
        out_channels=32,
        sample_size=4,
        interpolation_scale=1,
        num_cross_attention_heads=heads,
        cross_attention_head_dim=size,
        cross_attention_dim=heads * size,
        caption_channels=TEXT,
        **options,
    )
    return network(model)


def task(options: dict[str, Any], clean: Tensor, emoji: Emoji) -> Task:
    """Mean squared error of the velocity noise - data, at shifted times."""
    tokenizer = gemma_tokenizer(emoji.rows)
    model = nn.ModuleDict({"transformer": build(options), "text": encoder(tokenizer)})
    texts = drawn_texts(tokenizer, emoji.rows, instruction())

    def loss(model: Any, chosen: Tensor) -> Tensor:
        t = times(len(chosen))
        t = SHIFT * t / (1 + (SHIFT - 1) * t)
        at, x, noise = t.view(-1, 1, 1, 1), clean[chosen], torch.randn(len(chosen), *clean.shape[1:])
        said = texts(chosen)
        found = model["transformer"](
            (1 - at) * x + at * noise,
            encoder_hidden_states=model["text"](said.ids, attention_mask=said.mask)[0],
            encoder_attention_mask=said.mask,
            timestep=1000 * t,
        ).sample
        mean: Tensor = (found.float() - (noise - x)).square().mean()
        return mean

    return Task(model, loss, len(emoji), lambda folder: export(model, tokenizer, folder))


def export(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write what plain `SanaPipeline.from_pretrained` opens beside its autoencoder."""
    from diffusers import DPMSolverMultistepScheduler

    scheduler = DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=SHIFT
    )
    save("SanaPipeline", "AutoencoderDC", model, tokenizer, scheduler, folder)
