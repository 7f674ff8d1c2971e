"""Pipelines of diffusers with our scheduler are our own `sample` on their parts, for every backbone."""

import pytest
import torch
from diffusers import DiTPipeline, PixArtAlphaPipeline, SanaPipeline

import dualsolver as ds
import tiny
import tiny_text
from conftest import drawn, relative
from dualsolver.backbones import guess, load
from dualsolver.diffusers import DualSolverScheduler

PROMPTS = ["a bag", "feed a cab, badge"]
SOLVERS = {
    "dual": [drawn(3, gamma=0.4), drawn(5, gamma=0.4)],
    "dpmpp": "dpmpp",
    "unipc": "unipc",
    "bns": ds.BNS(4),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("pipelines")
    return {
        "dit": tiny.dit(home / "dit"),
        "pixart": tiny_text.pixart(home / "pixart"),
        "sana": tiny_text.sana(home / "sana"),
    }


def pipeline(kind, folder):
    found = {"dit": DiTPipeline, "pixart": PixArtAlphaPipeline, "sana": SanaPipeline}[kind].from_pretrained(
        folder
    )
    found.set_progress_bar_config(disable=True)
    return found


def images(kind, pipe, steps, guidance, noise):
    options = {"num_inference_steps": steps, "guidance_scale": guidance, "output_type": "pt"}
    if kind == "dit":
        return pipe([1, 2], generator=torch.Generator().manual_seed(0), **options).images
    options |= {"use_resolution_binning": False, "latents": noise}
    if kind == "pixart":
        return pipe(PROMPTS, clean_caption=False, **options).images
    return pipe(PROMPTS, height=32, width=32, **options).images


def noise_of(kind):
    side = 16 if kind == "sana" else 8
    return torch.randn(2, 4, side, side, generator=torch.Generator().manual_seed(0))


def ours(backbone, kind, solver, guidance):
    items = [1, 2] if kind == "dit" else PROMPTS
    predict = backbone.predict(backbone.conditions(items), guidance)
    with torch.no_grad():
        return backbone.decode(ds.sample(predict, noise_of(kind), solver(backbone.schedule)))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["dit", "pixart", "sana"])
def test_one_line_in_a_pipeline_is_sample(kind, name, folders):
    pipe, backbone = pipeline(kind, folders[kind]), load(folders[kind])
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=SOLVERS[name])
    assert pipe.scheduler._schedule == backbone.schedule
    solver = SOLVERS[name]
    solver = (
        ds.SOLVERS[name](4)
        if isinstance(solver, str)
        else ds.interpolate(*solver, 4)
        if name == "dual"
        else solver
    )
    found = images(kind, pipe, 4, 2.5, noise_of(kind))
    assert found.std() > 0.05
    assert torch.allclose(found, ours(backbone, kind, solver, 2.5), atol=2e-4)


@pytest.mark.parametrize("kind", ["dit", "pixart", "sana"])
def test_one_step_in_a_pipeline_is_sample(kind, folders):
    """PixArt's pipeline then takes the second value of `step`; a learned step is not what that usually is."""
    pipe, solver = pipeline(kind, folders[kind]), drawn(1)
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=solver)
    found, wanted = images(kind, pipe, 1, 2.5, noise_of(kind)), ours(load(folders[kind]), kind, solver, 2.5)
    assert torch.allclose(found, wanted, atol=2e-4)


@pytest.mark.parametrize("kind", ["pixart", "sana"])
def test_prompts_matter_and_their_encoders_are_dropped(kind, folders, monkeypatch):
    backbone = load(folders[kind])
    assert guess(folders[kind]) == kind
    condition = backbone.conditions(PROMPTS)
    x, t = noise_of(kind), torch.tensor(0.6)
    one, two = (backbone.predict(condition, g)(x, t).data for g in (1.0, 3.0))
    assert relative(one, two) > 1e-3
    swapped = backbone.predict(backbone.conditions(PROMPTS[::-1]), 3.0)(x, t).data
    assert relative(swapped, two) > 1e-3
    monkeypatch.setattr(backbone._prompts, "_load", lambda: pytest.fail("encoded a second time"))
    again = backbone.predict(backbone.conditions(PROMPTS), 3.0)(x, t).data
    assert torch.equal(again, two)
    with pytest.raises(ValueError, match="a list with one text for each image"):
        backbone.conditions("a bag")


@pytest.mark.parametrize("kind", ["pixart", "sana"])
def test_gradients_reach_the_times_and_scalars_through_decoder_and_network(kind, folders):
    backbone, solver = load(folders[kind], dtype=torch.bfloat16), ds.DualSolver(2)
    predict = backbone.predict(backbone.conditions(PROMPTS[:1]), 2.0, recompute=True)
    latents = ds.sample(predict, noise_of(kind)[:1], solver(backbone.schedule))
    picture = backbone.decode(latents, clamp=False)
    found = torch.autograd.grad(picture.square().mean(), list(solver.parameters()))
    assert latents.dtype == picture.dtype == torch.float32
    assert all(g.isfinite().all() for g in found)
    assert max(float(g.abs().max()) for g in found) > 0


def test_a_distilled_sana_is_refused(tmp_path):
    with pytest.raises(ValueError, match="distilled SANA"):
        load(tiny_text.sana(tmp_path, guidance_embeds=True))


FULL = {
    "dit": ({"num_layers": 28, "sample_size": 32, "out_channels": 8}, 749.8),
    "pixart": (
        {
            "num_layers": 28,
            "sample_size": 64,
            "out_channels": 8,
            "cross_attention_dim": 1152,
            "caption_channels": 4096,
        },
        610.9,
    ),
    "sana": (
        {
            "num_layers": 28,
            "num_attention_heads": 36,
            "attention_head_dim": 32,
            "num_cross_attention_heads": 16,
            "cross_attention_head_dim": 72,
            "cross_attention_dim": 1152,
            "sample_size": 16,
        },
        591.7,
    ),
}


@pytest.mark.parametrize("kind", FULL)
def test_networks_of_full_size_go_through_the_same_lines(kind, folders):
    """Without weights: their number is that of the released network, and an evaluation has its shape."""
    backbone, (config, millions) = load(folders[kind]), FULL[kind]
    with torch.device("meta"):
        network = type(backbone.transformer)(**config).eval()
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
    backbone.transformer, channels = network, network.config.in_channels
    backbone.shape = (channels, network.config.sample_size, network.config.sample_size)
    x = torch.empty(2, *backbone.shape, device="meta")
    condition = torch.empty(2, dtype=torch.long, device="meta")
    if kind != "dit":
        embeds = torch.empty(2, 300, network.config.caption_channels, device="meta")
        condition = {"embeds": embeds, "mask": torch.empty(2, 300, device="meta")}
    assert backbone.model(x, torch.empty(2, device="meta"), condition).shape == x.shape
