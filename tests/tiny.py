"""Tiny random pipelines in diffusers' own format, made in a moment; none of them has seen an image."""

import json

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    FlowMatchEulerDiscreteScheduler,
)
from torch import nn

from dualsolver.backbones.gmdit_transformer import GMDiTTransformer2DModel

TRUNK = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8}
BLOCKS = {"down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2}
NAMES = {"0": "tench, Tinca tinca", "1": "boot", "2": "bag"}


def randomised(network, std=0.3):
    """Give every parameter a random value: what starts at zero would hide what it does."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=std)
    return network.eval()


def autoencoder(**options):
    torch.manual_seed(0)
    sizes = {"block_out_channels": [8, 8], "layers_per_block": 1, "norm_num_groups": 4}
    return AutoencoderKL(**BLOCKS, **sizes, latent_channels=4, sample_size=16, **options).eval()


def dit(folder, variance=True, **scheduler):
    """Write a DiTPipeline; the outputs' second half is the learned variance."""
    network = DiTTransformer2DModel(out_channels=8 if variance else 4, **TRUNK)
    schedule = DDIMScheduler(
        **{"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "linear", "clip_sample": False, **scheduler}
    )
    pipeline = DiTPipeline(randomised(network), autoencoder(), schedule)
    pipeline.save_pretrained(folder)
    name_classes(folder)
    return folder


def gmdit(folder, variant="bf16", **network):
    """Write the folders of a GM-DiT as its repository has them, with an index that nobody can import."""
    options = {"num_gaussians": 3, "logstd_inner_dim": 16, "num_embeds_ada_norm": 10, **TRUNK, **network}
    model = randomised(GMDiTTransformer2DModel(**options)).to(torch.bfloat16)
    model.save_pretrained(folder / "transformer", variant=variant)
    autoencoder().save_pretrained(folder / "vae")
    FlowMatchEulerDiscreteScheduler().save_pretrained(folder / "scheduler")
    index = {"_class_name": "GMDiTPipeline", "transformer": ["lib.models", "_GMDiTTransformer2DModel"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def name_classes(folder):
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": NAMES}))
