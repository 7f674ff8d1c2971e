"""Tiny random text-to-image pipelines, with tokenizers that were never trained."""

import torch
from diffusers import (
    AutoencoderDC,
    DPMSolverMultistepScheduler,
    PixArtAlphaPipeline,
    PixArtTransformer2DModel,
    SanaPipeline,
    SanaTransformer2DModel,
)
from transformers import Gemma2Config, Gemma2Model, GemmaTokenizer, T5Config, T5EncoderModel, T5Tokenizer

from tiny import autoencoder, randomised

TRUNK = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "cross_attention_dim": 16}


def t5():
    """A T5 encoder and its tokenizer."""
    letters = [(f"▁{c}", -2.0) for c in "abcdefgh"] + [(chr(i), -3.0) for i in range(33, 127)]
    tokenizer = T5Tokenizer(
        vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), *letters], extra_ids=0
    )
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = T5Config(
        **sizes, feed_forward_proj="gated-gelu", is_encoder_decoder=False, vocab_size=len(tokenizer)
    )
    return randomised(T5EncoderModel(config)), tokenizer


def pixart(folder):
    """Write a PixArtAlphaPipeline with learned variances."""
    encoder, tokenizer = t5()
    network = PixArtTransformer2DModel(
        **TRUNK, in_channels=4, out_channels=8, caption_channels=16, sample_size=8
    )
    parts = (tokenizer, encoder, autoencoder(), randomised(network), DPMSolverMultistepScheduler())
    PixArtAlphaPipeline(*parts).save_pretrained(folder)
    return folder


def sana(folder, **network):
    """Write a SanaPipeline; its scheduler is that of the released one."""
    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *map(chr, range(33, 127))]
    tokenizer = GemmaTokenizer(vocab={w: i for i, w in enumerate(words)}, merges=[], add_bos_token=True)
    sizes = {"head_dim": 8, "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    config = Gemma2Config(
        **sizes,
        num_key_value_heads=1,
        num_hidden_layers=1,
        vocab_size=len(tokenizer),
        attn_implementation="eager",
        max_position_embeddings=4096,
        query_pre_attn_scalar=8,
    )
    options = {"in_channels": 4, "out_channels": 4, "sample_size": 16, "caption_channels": 16, **network}
    heads = {"num_cross_attention_heads": 2, "cross_attention_head_dim": 8}
    model = SanaTransformer2DModel(**TRUNK, **heads, **options)
    scheduler = DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    parts = (tokenizer, randomised(Gemma2Model(config)), compressor(), randomised(model, 0.2), scheduler)
    SanaPipeline(*parts).save_pretrained(folder)
    return folder


def compressor():
    torch.manual_seed(0)
    blocks, channels = ("ResBlock", "EfficientViTBlock"), (8, 8)
    sides = {f"{side}_block_types": blocks for side in ("encoder", "decoder")}
    sides |= {f"{side}_block_out_channels": channels for side in ("encoder", "decoder")}
    sides |= {f"{side}_layers_per_block": (1, 1) for side in ("encoder", "decoder")}
    sides |= {f"{side}_qkv_multiscales": ((), (5,)) for side in ("encoder", "decoder")}
    return AutoencoderDC(
        latent_channels=4,
        attention_head_dim=2,
        **sides,
        downsample_block_type="conv",
        upsample_block_type="interpolate",
        decoder_norm_types="rms_norm",
        decoder_act_fns="silu",
        scaling_factor=0.41407,
    ).eval()
