"""The diffusion model: PixArt's transformer and a T5 encoder trained along with it, on the noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...schedule import VP
from ..generators import levels
from ..task import Task
from .data import Emoji
from .pipelines import TEXT, drawn_texts, network, save
from .texts import t5_tokenizer

VARIATIONAL = 1e-3  # the weight of the learned variances' loss (Nichol and Dhariwal, 2021)


def encoder(tokenizer: Any) -> nn.Module:
    """An untrained T5 encoder."""
    from transformers import T5Config, T5EncoderModel

    made: nn.Module = T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=TEXT,
            d_kv=32,
            num_heads=TEXT // 32,
            d_ff=2 * TEXT,
            num_layers=3,
            dropout_rate=0.0,
            feed_forward_proj="gated-gelu",
            is_encoder_decoder=False,
        )
    )
    return made


def build(options: dict[str, Any]) -> nn.Module:
    """An untrained transformer for latents of 8 x 8; half of its output are variances."""
    from diffusers import PixArtTransformer2DModel

    width = options["num_attention_heads"] * options["attention_head_dim"]
    model = PixArtTransformer2DModel(
        in_channels=8,
        out_channels=16,
        sample_size=8,
        patch_size=2,
        cross_attention_dim=width,
        caption_channels=TEXT,
        **options,
    )
    return network(model)


def task(options: dict[str, Any], clean: Tensor, emoji: Emoji) -> Task:
    """Mean squared error of the noise, weighted by min(SNR, 5) / SNR, and the variances' own loss."""
    tokenizer, schedule = t5_tokenizer(emoji.rows), VP.linear()
    model = nn.ModuleDict({"transformer": build(options), "text": encoder(tokenizer)})
    texts = drawn_texts(tokenizer, emoji.rows)
    variances = Variances(schedule)

    def loss(model: Any, chosen: Tensor) -> Tensor:
        t = 0.001 + 0.999 * levels(len(chosen)).double()
        alpha, sigma = (rate.float().view(-1, 1, 1, 1) for rate in schedule(t))
        x, noise, said = clean[chosen], torch.randn(len(chosen), *clean.shape[1:]), texts(chosen)
        embeds = model["text"](said.ids, attention_mask=said.mask)[0]
        found = model["transformer"](
            alpha * x + sigma * noise,
            encoder_hidden_states=embeds,
            encoder_attention_mask=said.mask,
            timestep=schedule.model_time(t).float(),
            added_cond_kwargs={"resolution": None, "aspect_ratio": None},
        ).sample.float()
        error, spread = found.chunk(2, 1)[0] - noise, found.chunk(2, 1)[1]
        weight = (5 * (sigma / alpha) ** 2).clamp(max=1)
        mean: Tensor = (weight * error**2).mean()
        return mean + VARIATIONAL * variances(t, error.detach(), spread).mean()

    return Task(model, loss, len(emoji), lambda folder: export(model, tokenizer, folder))


class Variances:
    """The divergence of a reverse step from the true one: by it variances between two bounds are learned."""

    def __init__(self, schedule: VP, steps: int = 1000) -> None:
        alpha, _ = schedule(torch.arange(1, steps + 1).double() / steps)
        total = alpha**2
        before = torch.cat([torch.ones(1).double(), total[:-1]])
        beta = 1 - total / before
        least = beta * (1 - before) / (1 - total)
        least[0] = least[1]  # the last step has none of its own
        self.most, self.least = beta.log().float(), least.log().float()
        self.gain = (beta / ((1 - beta).sqrt() * (1 - total).sqrt())).float()

    def __call__(self, t: Tensor, error: Tensor, spread: Tensor) -> Tensor:
        """Error of the noise (not learned through here) and outputs (B, C, H, W) at times t (B,)."""
        step = (t * len(self.most)).round().long().clamp(1, len(self.most)) - 1
        most, least, gain = (v[step].view(-1, 1, 1, 1) for v in (self.most, self.least, self.gain))
        log = torch.lerp(least.expand_as(spread), most.expand_as(spread), (spread + 1) / 2)
        divergence: Tensor = log - least - 1 + (least - log).exp() + (gain * error) ** 2 * (-log).exp()
        return divergence / 2


def export(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write what plain `PixArtAlphaPipeline.from_pretrained` opens beside its autoencoder."""
    from diffusers import DPMSolverMultistepScheduler

    scheduler = DPMSolverMultistepScheduler(beta_schedule="linear", beta_start=1e-4, beta_end=0.02)
    save("PixArtAlphaPipeline", "AutoencoderKL", model, tokenizer, scheduler, folder)
