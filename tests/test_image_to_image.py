"""A pipeline that starts in the middle, from an image with noise added, is our own `sample` from there."""

import pytest
import torch
from diffusers import DDIMScheduler, StableDiffusionImg2ImgPipeline, UNet2DConditionModel

import dualsolver as ds
from conftest import drawn
from dualsolver.diffusers import DualSolverScheduler
from dualsolver.prediction import guided
from tiny import autoencoder, randomised
from tiny_more import BETAS, UNET

ABSENT = dict.fromkeys(("text_encoder", "tokenizer", "safety_checker", "feature_extractor"))
SOLVERS = {"dual": drawn(4, gamma=0.4), "dpmpp": "dpmpp", "unipc": "unipc", "heun": "heun"}


def given(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pipeline(prediction, solver):
    parts = {"vae": autoencoder(), "unet": randomised(UNet2DConditionModel(**UNET), 0.2)}
    theirs = DDIMScheduler(**BETAS, steps_offset=1, prediction_type=prediction)
    ours = DualSolverScheduler.from_config(theirs.config, solver=solver)
    found = StableDiffusionImg2ImgPipeline(**parts, scheduler=ours, **ABSENT, requires_safety_checker=False)
    found.set_progress_bar_config(disable=True)
    return found


@pytest.mark.parametrize("strength", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("name", SOLVERS)
def test_an_image_with_noise_is_where_the_rest_of_the_run_starts(name, prediction, strength):
    pipe, start = pipeline(prediction, SOLVERS[name]), 4 - round(4 * strength)
    latents, condition, null = given(2, 4, 8, 8, seed=0), given(2, 6, 16, seed=1), given(2, 6, 16, seed=2)
    options = {"guidance_scale": 3.0, "num_inference_steps": 4, "output_type": "latent"}
    found = pipe(
        image=latents,
        strength=strength,
        prompt_embeds=condition,
        negative_prompt_embeds=null,
        generator=torch.Generator().manual_seed(3),
        **options,
    ).images
    schedule, kind = ds.VP.scaled_linear(), {"epsilon": "noise", "v_prediction": "velocity"}[prediction]
    solver = SOLVERS[name] if name == "dual" else ds.SOLVERS[name](4)
    table = solver.rest(schedule, start)
    model = guided(lambda x, t, c: pipe.unet(x, t, encoder_hidden_states=c).sample, 3.0, condition, null)
    x = table.alpha[0].float() * latents + table.sigma[0].float() * given(2, 4, 8, 8, seed=3)
    with torch.no_grad():
        wanted = ds.sample(ds.wrap(model, schedule, kind), x, table)
    assert torch.allclose(found, wanted, atol=2e-4 * wanted.abs().max())
