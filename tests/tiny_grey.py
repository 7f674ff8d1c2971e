"""Tiny random pipelines of grey images, which the zoo's classifiers and networks look at."""

from diffusers import AutoencoderKL, DDIMScheduler, DiTPipeline, DiTTransformer2DModel

import tiny


def autoencoder():
    sizes = {"block_out_channels": [8, 8], "layers_per_block": 1, "norm_num_groups": 4, "sample_size": 16}
    grey = {"in_channels": 1, "out_channels": 1, "latent_channels": 4}
    return tiny.randomised(AutoencoderKL(**tiny.BLOCKS, **sizes, **grey), 0.1)


def dit(folder):
    """Write a DiTPipeline."""
    network = tiny.randomised(DiTTransformer2DModel(out_channels=4, **tiny.TRUNK), 0.05)
    scheduler = DDIMScheduler(beta_schedule="linear", clip_sample=False)
    DiTPipeline(network, autoencoder(), scheduler).save_pretrained(folder)
    tiny.name_classes(folder)
    return folder


def gmdit(folder):
    """Write a GM-DiT with the same decoder."""
    tiny.gmdit(folder)
    autoencoder().save_pretrained(folder / "vae")
    return folder
