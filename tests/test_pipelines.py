"""Pipelines of diffusers with our scheduler are our own `sample` on their parts, for every backbone."""

import json
import math
from itertools import islice

import pytest
import torch
from diffusers import DiffusionPipeline

import dualsolver as ds
import tiny
import tiny_more
import tiny_text
from conftest import drawn, relative
from dualsolver.backbones import guess, load
from dualsolver.backbones.configs import latent_shape
from dualsolver.backbones.prompts import Prompts
from dualsolver.cli import main
from dualsolver.diffusers import DualSolverScheduler
from dualsolver.fit import Recipe, State, fit
from dualsolver.objectives import Objective
from dualsolver.task import Task

PROMPTS = ["a bag", "feed a cab, badge"]
SOLVERS = {
    "dual": [drawn(3, gamma=0.4), drawn(5, gamma=0.4)],
    "dpmpp": "dpmpp",
    "unipc": "unipc",
    "bns": ds.BNS(4),
}
WRITE = {
    "dit": tiny.dit,
    "pixart": tiny_text.pixart,
    "sana": tiny_text.sana,
    "sd15": tiny_more.stable,
    "sd21": lambda folder: tiny_more.stable(folder, "v_prediction"),
    "sdxl": tiny_more.xl,
    "sdxl without zeros": lambda folder: tiny_more.xl(folder, zeros=False),
    "sd3": tiny_more.three,
    "sd3.5": lambda folder: tiny_more.three(folder, use_dynamic_shifting=True),
    "flux": tiny_more.flux,
    "flux-schnell": lambda folder: tiny_more.flux(folder, guidance=False),
}
PROMPTED = [kind for kind in WRITE if kind not in ("dit", "flux-schnell")]
SIDE = 16  # latents of Flux, which its config says nothing of; 128 would take long
AS_IT_IS = {"use_resolution_binning": False}
OPTIONS = {"pixart": AS_IT_IS | {"clean_caption": False}, "sana": AS_IT_IS | {"height": 32, "width": 32}}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in ("pipeline", "configs"):
        monkeypatch.setattr(f"dualsolver.backbones.{module}.PACKED", (SIDE, SIDE))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("pipelines")
    return {kind: write(home / kind) for kind, write in WRITE.items()}


def images(kind, pipe, steps, guidance, noise):
    pipe.set_progress_bar_config(disable=True)
    options = {"num_inference_steps": steps, "guidance_scale": guidance, "output_type": "pt"}
    if kind == "dit":
        return pipe([1, 2], generator=torch.Generator().manual_seed(0), **options).images
    if "flux" in kind:
        options |= {"height": 2 * SIDE, "width": 2 * SIDE}
    if kind == "flux-schnell":  # what guides here is the other scale
        options |= {"true_cfg_scale": guidance, "negative_prompt": ["", ""]}
    return pipe(PROMPTS, latents=noise, **OPTIONS.get(kind, {}), **options).images


def noise_for(backbone):
    return torch.randn(2, *backbone.shape, generator=torch.Generator().manual_seed(0))


def ours(backbone, kind, solver, guidance):
    items = [1, 2] if kind == "dit" else PROMPTS
    predict = backbone.predict(backbone.conditions(items), guidance)
    with torch.no_grad():
        return backbone.decode(ds.sample(predict, noise_for(backbone), solver(backbone.schedule)))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", WRITE)
def test_one_line_in_a_pipeline_is_sample(kind, name, folders):
    pipe, backbone = DiffusionPipeline.from_pretrained(folders[kind]), load(folders[kind])
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=SOLVERS[name])
    solver = SOLVERS[name]
    solver = (
        ds.SOLVERS[name](4)
        if isinstance(solver, str)
        else ds.interpolate(*solver, 4)
        if name == "dual"
        else solver
    )
    found = images(kind, pipe, 4, 2.5, noise_for(backbone))
    assert found.std() > 0.05
    assert torch.allclose(found, ours(backbone, kind, solver, 2.5), atol=2e-5)


@pytest.mark.parametrize("kind", ["dit", "pixart", "sana"])
def test_one_step_in_a_pipeline_is_sample(kind, folders):
    """PixArt's pipeline then takes the second value of `step`; a learned step is not what that usually is."""
    pipe, solver = DiffusionPipeline.from_pretrained(folders[kind]), drawn(1)
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=solver)
    backbone = load(folders[kind])
    found = images(kind, pipe, 1, 2.5, noise_for(backbone))
    assert torch.allclose(found, ours(backbone, kind, solver, 2.5), atol=2e-5)


@pytest.mark.parametrize("kind", PROMPTED)
def test_prompts_matter_and_their_encoders_are_dropped(kind, folders, monkeypatch):
    backbone = load(folders[kind])
    assert guess(folders[kind]) == "pipeline"
    before = torch.get_rng_state()
    condition = backbone.conditions(PROMPTS)
    assert torch.equal(torch.get_rng_state(), before)
    x, t = noise_for(backbone), torch.tensor(0.6)
    one, two = (backbone.predict(condition, g)(x, t).data for g in (1.0, 3.0))
    assert relative(one, two) > 1e-3
    swapped = backbone.predict(backbone.conditions(PROMPTS[::-1]), 3.0)(x, t).data
    assert relative(swapped, two) > 1e-3
    monkeypatch.setattr(backbone._prompts, "_load", lambda: pytest.fail("encoded a second time"))
    again = backbone.predict(backbone.conditions(PROMPTS), 3.0)(x, t).data
    assert torch.equal(again, two)
    with pytest.raises(ValueError, match="a list with one text for each image"):
        backbone.conditions("a bag")


@pytest.mark.parametrize("kind", PROMPTED)
def test_gradients_reach_the_times_and_scalars_through_decoder_and_network(kind, folders):
    backbone, solver = load(folders[kind], dtype=torch.bfloat16), ds.DualSolver(2)
    predict = backbone.predict(backbone.conditions(PROMPTS[:1]), 2.0, recompute=True)
    latents = ds.sample(predict, noise_for(backbone)[:1], solver(backbone.schedule))
    picture = backbone.decode(latents, clamp=False)
    found = torch.autograd.grad(picture.square().mean(), list(solver.parameters()))
    assert latents.dtype == picture.dtype == torch.float32
    assert all(g.isfinite().all() for g in found)
    assert max(float(g.abs().max()) for g in found) > 0


class Bright(Objective):
    """Something to learn that needs no other network."""

    def __call__(self, made, taught):
        return -made.images().flatten(1).mean(1)


@pytest.mark.parametrize("kind", PROMPTED)
def test_a_few_steps_of_learning_help(kind, folders):
    """Small ones: the images of random networks are rough functions of a solver."""
    task, solver = Task(load(folders[kind]), Bright(), PROMPTS, 2.0, recompute=True), ds.DualSolver(2)
    recipe = Recipe(steps=4, batch=2, rate=1e-3, decay=0.0, held_out=1, every=4)
    before = task.loss(solver, range(8), 8, learn=False)
    assert len(list(islice(fit(solver, task, task, recipe, State()), 4))) == 4
    assert task.loss(solver, range(8), 8, learn=False) < before


def test_half_precision_networks_have_their_prompts_in_it(folders):
    for kind, dtype in (("sdxl", torch.bfloat16), ("sana", torch.float16)):
        full, half = load(folders[kind]), load(folders[kind], dtype=dtype, variant="fp16")  # there is none
        found = [backbone.conditions(PROMPTS) for backbone in (full, half)]
        numbers = [name for name, x in found[0].items() if x.is_floating_point()]
        assert {found[1][name].dtype for name in numbers} == {dtype}
        assert all(relative(found[1][name].float(), found[0][name]) < 0.03 for name in numbers)


def test_what_flux_is_told_and_how_long_its_sequence_is(folders, monkeypatch):
    monkeypatch.undo()
    backbone, fast = load(folders["flux"]), load(folders["flux-schnell"])
    assert (backbone.guidance, fast.guidance, load(folders["pixart"]).guidance) == (3.5, 1.0, 3.5)
    assert backbone.shape == (4096, 16)
    assert backbone.schedule.shift == pytest.approx(math.exp(1.15))
    told, condition = [], backbone.conditions(PROMPTS[:1])
    backbone.model = lambda x, time, c: told.append(c["guidance"].tolist()) or x
    for guidance in (1.0, 0.0, 3.0):
        backbone.predict(condition, guidance)(torch.zeros(1, *backbone.shape), torch.tensor(0.5))
    assert told == [[1.0], [0.0], [3.0]]  # one call each, whatever the scale


def test_a_network_under_its_old_name(tmp_path):
    folder = tiny_text.pixart(tmp_path)
    for name in ("model_index.json", "transformer/config.json"):
        path = folder / name
        path.write_text(path.read_text().replace("PixArtTransformer2DModel", "Transformer2DModel"))
    backbone = load(folder)
    assert backbone.model(noise_for(backbone), torch.ones(2), backbone.conditions(PROMPTS)).shape == (
        2,
        4,
        8,
        8,
    )


def test_encodings_of_different_lengths_are_refused():
    def encode(prompts, null):
        return {"embeds": torch.zeros(len(prompts), 1 + max(map(len, prompts)), 2)}

    with pytest.raises(ValueError, match="as long as their prompts"):
        Prompts(lambda: encode, torch.device("cpu"), torch.float32)(["a bag"])


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"_class_name": "StableNonsensePipeline"}, "diffusers has no such class"),
        ({"_class_name": "DDPMPipeline"}, "it is not called with prompts, a size and guidance"),
        ({"_class_name": "StableDiffusionInpaintPipeline"}, "it starts from an image"),
        ({"unet": [None, None]}, "it has no unet or transformer"),
        ({"vae": ["diffusers", "AutoencoderTiny"]}, "its decoder is none of AutoencoderKL, AutoencoderDC"),
    ],
)
def test_pipelines_of_another_kind_are_refused(index, words, folders, tmp_path, capsys):
    known = json.loads((folders["sd15"] / "model_index.json").read_text())
    (tmp_path / "model_index.json").write_text(json.dumps(known | index))
    assert main(["learn", "--backbone", str(tmp_path), "--out", str(tmp_path / "run"), "--threads", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"which no backbone here wraps ({words}): use ds.wrap" in line


def test_mistakes_are_one_line(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    flux, stable = load(folders["flux"]), load(folders["sd15"])
    inpainting = tiny_more.stable(tmp_path / "inpainting", in_channels=9)
    bare = tiny_more.stable(tmp_path / "bare")
    for file in (bare / "text_encoder").iterdir():
        file.unlink()
    calls = {
        "the hub gives none .offline": lambda: load("someone/some-model"),
        "the guidance scale must not be negative, but is -1": lambda: stable.predict(None, -1.0),
        "the guidance scale must not be negative, but is -2": lambda: flux.predict(None, -2.0),
        "its network has 9 channels, its decoder 4": lambda: load(inpainting),
        "is distilled for few steps": lambda: load(tiny_more.stable(tmp_path / "lcm", time_cond_proj_dim=8)),
        "cannot load text encoders of": lambda: load(bare).conditions(PROMPTS),
        "and SanaPipeline disagree on whether its network is told its guidance": lambda: load(
            tiny_text.sana(tmp_path / "sprint", guidance_embeds=True)
        ).conditions(PROMPTS),
    }
    for words, call in calls.items():
        with pytest.raises(ValueError, match=words) as error:
            call()
        assert "\n" not in str(error.value)


UNET = {"sample_size": 64, "cross_attention_dim": 768}
XL = {
    "sample_size": 128,
    "cross_attention_dim": 2048,
    "block_out_channels": (320, 640, 1280),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 10),
    "attention_head_dim": (5, 10, 20),
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
THREE = {
    "sample_size": 128,
    "num_layers": 24,
    "num_attention_heads": 24,
    "caption_projection_dim": 1536,
    "joint_attention_dim": 4096,
    "pooled_projection_dim": 2048,
    "pos_embed_max_size": 192,
    "out_channels": 16,
}
PIXART = {"num_layers": 28, "sample_size": 64, "out_channels": 8, "cross_attention_dim": 1152}
SANA = {
    "num_layers": 28,
    "num_attention_heads": 36,
    "attention_head_dim": 32,
    "num_cross_attention_heads": 16,
    "cross_attention_head_dim": 72,
    "cross_attention_dim": 1152,
    "sample_size": 16,
}
FULL = {  # kind: config, millions of parameters, shapes of what it is told
    "dit": ({"num_layers": 28, "sample_size": 32, "out_channels": 8}, 749.8, {}),
    "pixart": (
        {**PIXART, "caption_channels": 4096},
        610.9,
        {"encoder_hidden_states": (120, 4096), "encoder_attention_mask": (120,)},
    ),
    "sana": (SANA, 591.7, {"encoder_hidden_states": (300, 2304), "encoder_attention_mask": (300,)}),
    "sd15": (UNET, 859.5, {"encoder_hidden_states": (77, 768)}),
    "sdxl": (
        XL,
        2567.5,
        {
            "encoder_hidden_states": (77, 2048),
            "added_cond_kwargs.text_embeds": (1280,),
            "added_cond_kwargs.time_ids": (6,),
        },
    ),
    "flux": (
        {"guidance_embeds": True},
        11901.4,
        {"encoder_hidden_states": (512, 4096), "pooled_projections": (768,), "guidance": ()},
    ),
    "sd3": (THREE, 2028.3, {"encoder_hidden_states": (333, 4096), "pooled_projections": (2048,)}),
}


@pytest.mark.parametrize("kind", FULL)
def test_networks_of_full_size_go_through_the_same_lines(kind, folders):
    """Without weights: their number is that of the released network, and an evaluation has its shape."""
    backbone, (config, millions, told) = load(folders[kind]), FULL[kind]
    name = "transformer" if kind == "dit" else "network"
    with torch.device("meta"):
        network = type(getattr(backbone, name))(**config).eval()
        condition = {key: torch.empty(2, *shape) for key, shape in told.items()}
        condition = condition or torch.empty(2, dtype=torch.long)
        x = torch.empty(2, *latent_shape(network.config))
        assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
        if kind == "flux":
            condition |= {"img_ids": torch.empty(SIDE**2 // 4, 3), "txt_ids": torch.empty(512, 3)}
        setattr(backbone, name, network)
        backbone.shape = x.shape[1:]
        assert backbone.model(x, torch.empty(2), condition).shape == x.shape
