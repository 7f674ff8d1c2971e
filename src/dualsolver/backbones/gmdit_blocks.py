"""The parts of the GM-DiT transformer; attribute names are the released checkpoint's keys."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from diffusers.models.attention import FeedForward
from diffusers.models.attention_processor import Attention
from diffusers.models.embeddings import TimestepEmbedding, get_timestep_embedding
from torch import Tensor, nn
from torch.nn.functional import silu


class Embedding(nn.Module):
    """Time and class as one vector; the class table has a row more than classes, the null class."""

    def __init__(self, dim: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.timestep_embedder = TimestepEmbedding(256, dim)
        table = nn.Embedding(classes + 1, dim)
        nn.init.normal_(table.weight, std=0.02)
        self.class_embedder = nn.ModuleDict({"embedding_table": table})
        self.null, self.dropout = classes, dropout

    def forward(self, timestep: Tensor, labels: Tensor, dtype: torch.dtype) -> Tensor:
        """timestep, labels: (B,) -> (B, D), the sinusoid in float32 whatever the dtype."""
        waves = get_timestep_embedding(timestep.float(), 256, flip_sin_to_cos=True, downscale_freq_shift=0)
        if self.training and self.dropout > 0:
            dropped = torch.rand(labels.shape, device=labels.device) < self.dropout
            labels = torch.where(dropped, self.null, labels)
        of_time: Tensor = self.timestep_embedder(waves.to(dtype))
        of_class: Tensor = self.class_embedder["embedding_table"](labels)
        return of_time + of_class


class Block(nn.Module):
    """Attention and a feed-forward network, each shifted, scaled and gated by the embedding (adaLN-zero)."""

    def __init__(self, dim: int, eps: float, attention: dict[str, Any], feedforward: dict[str, Any]) -> None:
        super().__init__()
        self.norm1 = nn.ModuleDict({"norm": norm(dim, 1e-6), "linear": zeroed(nn.Linear(dim, 6 * dim))})
        self.attn1 = Attention(dim, **attention)
        self.norm3 = norm(dim, eps)
        self.ff = FeedForward(dim, **feedforward)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        """x: (B, tokens, D), emb: (B, D)."""
        parts = self.norm1["linear"](silu(emb))[:, None].chunk(6, -1)
        shift, scale, gate, shift_ff, scale_ff, gate_ff = parts
        x = x + gate * self.attn1(self.norm1["norm"](x) * (1 + scale) + shift)
        changed: Tensor = gate_ff * self.ff(self.norm3(x) * (1 + scale_ff) + shift_ff)
        return x + changed


class LogStd(nn.Module):
    """The embedding -> one log standard deviation a sample."""

    def __init__(self, dim: int, inner: int, layers: int) -> None:
        super().__init__()
        pairs = pairwise([dim, *[inner] * (layers - 1), 1])
        self.logstd_layers = nn.Sequential(*(m for a, b in pairs for m in (nn.SiLU(), nn.Linear(a, b))))

    def forward(self, emb: Tensor) -> Tensor:
        """emb: (B, D) -> (B, 1)."""
        logstd: Tensor = self.logstd_layers(emb)
        return logstd


def unpatchify(x: Tensor, height: int, width: int, patch: int) -> Tensor:
    """(B, height * width, patch * patch * C), laid out (row, column, channel) -> (B, C, H, W).

    >>> unpatchify(torch.arange(4.0).view(1, 1, 4), 1, 1, 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    grid = x.view(len(x), height, width, patch, patch, -1)
    return torch.einsum("bhwpqc->bchpwq", grid).reshape(len(x), -1, height * patch, width * patch)


def norm(dim: int, eps: float) -> nn.LayerNorm:
    """Layer norm without weights: the embedding supplies them."""
    return nn.LayerNorm(dim, elementwise_affine=False, eps=eps)


def zeroed(linear: nn.Linear) -> nn.Linear:
    """The layer with all its parameters 0, so that what it modulates starts as if it were not there."""
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
