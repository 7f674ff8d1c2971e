"""Tiny random pipelines of the common text-to-image families, without text encoders: they take embeddings."""

import torch
from diffusers import (
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)

from tiny import autoencoder, randomised

UNET = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "attention_head_dim": 4,
    "cross_attention_dim": 16,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}
BETAS = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012, "clip_sample": False}


def embeds(count=2, length=6, width=16, seed=0):
    return torch.randn(count, length, width, generator=torch.Generator().manual_seed(seed))


def stable(prediction="epsilon"):
    """Stable Diffusion 1.5, or 2.1 with its velocities."""
    scheduler = DDIMScheduler(**BETAS, steps_offset=1, prediction_type=prediction)
    parts = {
        "vae": autoencoder(),
        "unet": randomised(UNet2DConditionModel(**UNET), 0.2),
        "scheduler": scheduler,
    }
    none = ("text_encoder", "tokenizer", "safety_checker", "feature_extractor")
    return StableDiffusionPipeline(**parts, **dict.fromkeys(none), requires_safety_checker=False)


def xl():
    """Stable Diffusion XL: pooled embeddings and time ids."""
    options = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4}
    network = UNet2DConditionModel(**UNET, **options, projection_class_embeddings_input_dim=6 * 4 + 16)
    none = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")
    return StableDiffusionXLPipeline(
        vae=autoencoder(),
        unet=randomised(network, 0.2),
        scheduler=DDIMScheduler(**BETAS, steps_offset=1),
        **dict.fromkeys(none),
        add_watermarker=False,
        force_zeros_for_empty_prompt=False,
    )


def three(**scheduler):
    """Stable Diffusion 3."""
    network = SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        pos_embed_max_size=16,
    )
    none = [f"{part}{i}" for part in ("text_encoder", "tokenizer") for i in ("", "_2", "_3")]
    return StableDiffusion3Pipeline(
        transformer=randomised(network, 0.2),
        scheduler=FlowMatchEulerDiscreteScheduler(**{"shift": 3.0, **scheduler}),
        vae=autoencoder(),
        **dict.fromkeys(none),
    )


def flux():
    """Flux: packed latents, embedded guidance, dynamic shifting."""
    network = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(2, 2, 4),
        guidance_embeds=True,
    )
    none = [f"{part}{i}" for part in ("text_encoder", "tokenizer") for i in ("", "_2")]
    return FluxPipeline(
        transformer=randomised(network, 0.2),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=autoencoder(),
        **dict.fromkeys(none),
    )
