"""Tiny random pipelines of the common text-to-image families, with tokenizers that were never trained."""

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
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from tiny import autoencoder, randomised
from tiny_text import t5

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


def clip(kind=CLIPTextModel, width=16, name=""):
    """A CLIP text encoder with its tokenizer, as parts of a pipeline."""
    letters = "abcdefghijklmnopqrstuvwxyz,."
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    tokenizer = CLIPTokenizer({word: i for i, word in enumerate(words)}, [], model_max_length=12)
    config = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=16,
        projection_dim=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=12,
        bos_token_id=0,
        eos_token_id=1,
    )
    return {f"text_encoder{name}": randomised(kind(config)), f"tokenizer{name}": tokenizer}


def stable(folder, prediction="epsilon", **network):
    """Write Stable Diffusion 1.5, or 2.1 with its velocities."""
    scheduler = DDIMScheduler(**BETAS, steps_offset=1, prediction_type=prediction)
    StableDiffusionPipeline(
        unet=randomised(UNet2DConditionModel(**UNET | network), 0.2),
        vae=autoencoder(),
        scheduler=scheduler,
        **clip(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder


def xl(folder, zeros=True):
    """Write Stable Diffusion XL: two encoders, pooled embeddings, time ids and an unconditional zero."""
    options = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4}
    network = UNet2DConditionModel(**UNET, **options, projection_class_embeddings_input_dim=6 * 4 + 8)
    StableDiffusionXLPipeline(
        unet=randomised(network, 0.2),
        vae=autoencoder(),
        scheduler=DDIMScheduler(**BETAS, steps_offset=1),
        **clip(width=8),
        **clip(CLIPTextModelWithProjection, 8, "_2"),
        add_watermarker=False,
        force_zeros_for_empty_prompt=zeros,
    ).save_pretrained(folder)
    return folder


def three(folder, **scheduler):
    """Write Stable Diffusion 3: three encoders."""
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
    encoder, tokenizer = t5()
    StableDiffusion3Pipeline(
        transformer=randomised(network, 0.2),
        scheduler=FlowMatchEulerDiscreteScheduler(**{"shift": 3.0, **scheduler}),
        vae=autoencoder(shift_factor=0.06),
        **clip(CLIPTextModelWithProjection, 8),
        **clip(CLIPTextModelWithProjection, 8, "_2"),
        text_encoder_3=encoder,
        tokenizer_3=tokenizer,
    ).save_pretrained(folder)
    return folder


def flux(folder, guidance=True):
    """Write Flux: packed latents, embedded guidance, dynamic shifting."""
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
        guidance_embeds=guidance,
    )
    encoder, tokenizer = t5()
    FluxPipeline(
        transformer=randomised(network, 0.2),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=autoencoder(shift_factor=0.1, mid_block_add_attention=False),
        **clip(),
        text_encoder_2=encoder,
        tokenizer_2=tokenizer,
    ).save_pretrained(folder)
    return folder
