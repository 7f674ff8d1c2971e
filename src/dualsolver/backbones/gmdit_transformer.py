"""The GM-DiT transformer: a DiT whose output is a Gaussian mixture of velocities for each latent pixel.

An independent implementation in diffusers' classes; configs and state dicts are those of the released
checkpoint (Gaussian Mixture Flow Matching, Chen et al., 2025). One embedding of time and class serves all
blocks, where DiT has one in each.
"""

from __future__ import annotations

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from diffusers.models.embeddings import PatchEmbed
from torch import Tensor, nn
from torch.nn.functional import silu

from ..checks import check_choice
from .gmdit_blocks import Block, Embedding, LogStd, norm, unpatchify, zeroed


class GMDiTTransformer2DModel(ModelMixin, ConfigMixin):  # type: ignore[misc]  # diffusers is untyped
    """Latents, times and classes -> {"means", "logweights", "logstds"}, as `gaussians` describes them.

    Class `num_embeds_ada_norm` is the null class. Times are float32, 1000 t; they carry gradients.
    """

    _supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]  # noqa: RUF012  # diffusers reads a plain list

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        num_gaussians: int = 16,
        constant_logstd: float | None = None,
        logstd_inner_dim: int = 1024,
        gm_num_logstd_layers: int = 2,
        class_dropout_prob: float = 0.0,
        num_attention_heads: int = 16,
        attention_head_dim: int = 72,
        in_channels: int = 4,
        out_channels: int | None = None,
        num_layers: int = 28,
        dropout: float = 0.0,
        norm_num_groups: int = 32,  # in the released config, used nowhere
        attention_bias: bool = True,
        sample_size: int = 32,
        patch_size: int = 2,
        activation_fn: str = "gelu-approximate",
        num_embeds_ada_norm: int = 1000,
        upcast_attention: bool = False,
        norm_type: str = "ada_norm_zero",
        norm_elementwise_affine: bool = False,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        check_choice("norm_type", norm_type, ("ada_norm_zero",))
        check_choice("norm_elementwise_affine", norm_elementwise_affine, (False,))
        dim = num_attention_heads * attention_head_dim
        self.channels = in_channels if out_channels is None else out_channels
        self.pos_embed = PatchEmbed(sample_size, sample_size, patch_size, in_channels, dim)
        self.emb = Embedding(dim, num_embeds_ada_norm, class_dropout_prob)
        attention = {
            "heads": num_attention_heads,
            "dim_head": attention_head_dim,
            "dropout": dropout,
            "bias": attention_bias,
            "upcast_attention": upcast_attention,
        }
        feedforward = {"dropout": dropout, "activation_fn": activation_fn}
        self.transformer_blocks = nn.ModuleList(
            [Block(dim, norm_eps, attention, feedforward) for _ in range(num_layers)]
        )
        self.norm_out = norm(dim, 1e-6)
        self.proj_out_1 = zeroed(nn.Linear(dim, 2 * dim))
        self.proj_out_2 = nn.Linear(dim, patch_size**2 * num_gaussians * (self.channels + 1))
        learned = constant_logstd is None
        self.gm_out = LogStd(dim, logstd_inner_dim, gm_num_logstd_layers) if learned else None
        self.gradient_checkpointing = False
        self._part_components(num_gaussians)

    @torch.no_grad()
    def _part_components(self, gaussians: int) -> None:
        """Give each mean a start of its own: equal ones would get equal gradients and stay equal for ever."""
        nn.init.normal_(self.proj_out_2.weight, std=0.02)
        starts = torch.zeros(gaussians * (self.channels + 1))
        starts[: gaussians * self.channels].normal_()
        self.proj_out_2.bias.copy_(starts.repeat(self.config.patch_size**2))

    def forward(self, hidden_states: Tensor, timestep: Tensor, class_labels: Tensor) -> dict[str, Tensor]:
        """hidden_states: (B, C, H, W); timestep: (B,), 1000 t; class_labels: (B,) whole numbers."""
        height, width = (size // self.config.patch_size for size in hidden_states.shape[-2:])
        emb = self.emb(timestep, class_labels, hidden_states.dtype)
        x = self.pos_embed(hidden_states)
        for block in self.transformer_blocks:
            if self.gradient_checkpointing and torch.is_grad_enabled():
                x = self._gradient_checkpointing_func(block, x, emb)
            else:
                x = block(x, emb)
        shift, scale = self.proj_out_1(silu(emb))[:, None].chunk(2, -1)
        x = self.proj_out_2(self.norm_out(x) * (1 + scale) + shift)
        return self._mixture(unpatchify(x, height, width, self.config.patch_size), emb)

    def _mixture(self, x: Tensor, emb: Tensor) -> dict[str, Tensor]:
        """Split (B, K (C + 1), H, W): the first K C channels are means, K outermost, the last K logits."""
        gaussians, constant = self.config.num_gaussians, self.config.constant_logstd
        means = x[:, :-gaussians].view(len(x), gaussians, self.channels, *x.shape[-2:])
        logweights = x[:, -gaussians:, None].log_softmax(1)
        if self.gm_out is not None:
            logstds = self.gm_out(emb.detach())[:, :, None, None, None]
        else:
            logstds = x.new_full((len(x), 1, 1, 1, 1), constant)
        return {"means": means, "logweights": logweights, "logstds": logstds}
