"""Backbones: what goes through the core is what diffusers' own pipeline computes."""

import pytest
import torch
from diffusers import DiTPipeline

import dualsolver as ds
import tiny
from conftest import relative
from dualsolver.backbones import guess, load
from dualsolver.backbones.gaussians import mean_velocity
from dualsolver.backbones.gmdit_transformer import GMDiTTransformer2DModel
from dualsolver.backbones.pretrained import schedule_of
from dualsolver.backbones.toy import Mixture


@pytest.fixture(scope="module")
def dit(tmp_path_factory):
    return tiny.dit(tmp_path_factory.mktemp("dit"))


@pytest.fixture(scope="module")
def gmdit(tmp_path_factory):
    return tiny.gmdit(tmp_path_factory.mktemp("gmdit"))


def noise(count=2, seed=0):
    return torch.randn(count, 4, 8, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("guidance", [1.0, 1.5])
def test_ddim_on_a_dit_is_diffusers_pipeline(dit, guidance):
    pipeline, classes, steps = DiTPipeline.from_pretrained(dit), [1, 2], 5
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    theirs = pipeline(classes, guidance, generator, steps, output_type="pt").images
    backbone = load(dit)
    times = [(int(i) + 1) / 1000 for i in pipeline.scheduler.timesteps] + [0.0]
    predict = backbone.predict(backbone.conditions(classes), guidance)
    with torch.no_grad():
        latents = ds.sample(predict, noise(), ds.DDIM(steps, grid=times)(backbone.schedule))
        found = backbone.decode(latents)
    assert theirs.std() > 0.05
    assert torch.allclose(found, theirs, atol=1e-4)


@pytest.mark.parametrize("kind", ["toy", "dit", "gmdit"])
def test_guidance_in_one_doubled_call_is_that_of_two_calls(kind, request):
    backbone = load(kind if kind == "toy" else request.getfixturevalue(kind))
    x, t = torch.randn(2, *backbone.shape, generator=torch.Generator().manual_seed(0)), torch.tensor(0.37)
    condition = backbone.conditions([2, 0])
    calls, model = [], backbone.model
    backbone.model = lambda *given: calls.append(len(given[0])) or model(*given)
    found = backbone.predict(condition, 1.7)(x, t)
    assert calls == [4]
    alone = backbone.predict(condition)(x, t)
    free = backbone.predict(backbone.null(condition))(x, t)
    assert relative(alone.noise, free.noise) > 1e-3
    for guided, given, null in zip(found, alone, free, strict=True):
        assert torch.allclose(guided, null + 1.7 * (given - null), atol=1e-4)


@pytest.mark.parametrize("kind", ["dit", "gmdit"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_inside_the_network(kind, dtype, request):
    folder = request.getfixturevalue(kind)
    full, half = load(folder), load(folder, dtype=dtype)
    seen, model = [], half.model
    half.model = lambda x, time, c: seen.append((x.dtype, time.dtype)) or model(x, time, c)
    assert {p.dtype for p in half.transformer.parameters()} == {dtype}
    predict = half.predict(half.conditions([0, 1]), 1.5)
    with torch.no_grad():
        found = ds.sample(predict, noise(), ds.DPMpp(4)(half.schedule))
        wanted = ds.sample(full.predict(full.conditions([0, 1]), 1.5), noise(), ds.DPMpp(4)(full.schedule))
    assert seen == [(dtype, torch.float32)] * 4
    assert found.dtype == torch.float32
    assert 1e-6 < relative(found, wanted) < 0.1
    assert half.decode(found).dtype == torch.float32


def test_times_are_never_rounded_to_the_networks_dtype(dit):
    """bfloat16 has 8 bits: t = 401 would be seen as 400."""
    half = load(dit, dtype=torch.bfloat16)
    seen = []
    half.model = lambda x, time, c: seen.append(time) or torch.zeros_like(x)
    half.predict(half.conditions([0]))(noise(1), torch.tensor(0.4029, dtype=torch.float64))
    assert seen[0].item() == pytest.approx(401.9, abs=1e-4)


def test_the_mean_of_the_mixture_is_what_the_solver_sees(gmdit):
    backbone = load(gmdit)
    x, t, condition = noise(), 0.3, backbone.conditions([3, 4])
    network = GMDiTTransformer2DModel.from_pretrained(gmdit, subfolder="transformer", variant="bf16")
    with torch.no_grad():
        mixture = network.eval().float()(x, torch.full((2,), 1000 * t), condition)
        velocity = mean_velocity(mixture["means"], mixture["logweights"])
        found = backbone.predict(condition)(x, torch.tensor(t))
    assert torch.allclose(found.data, x - t * velocity, atol=1e-3)
    assert torch.allclose(found.noise, x + (1 - t) * velocity, atol=1e-3)


def test_the_null_class_is_the_last_row_however_many_classes_have_names(dit, gmdit):
    assert load(dit).classes == ("tench", "boot", "bag")
    assert load(dit).null(torch.tensor([2])).tolist() == [1000]
    assert load(gmdit).classes == tuple(map(str, range(10)))
    assert load(gmdit).null(torch.tensor([2])).tolist() == [10]
    assert load(dit).conditions(["bag", 0]).tolist() == [2, 0]


@pytest.mark.parametrize("kind", ["dit", "gmdit"])
def test_networks_are_frozen_and_recomputing_changes_no_gradient(kind, request):
    backbone = load(request.getfixturevalue(kind))
    table_of, condition = ds.DualSolver(3), backbone.conditions([0, 1])
    gradients = []
    for recompute in (False, True):
        predict = backbone.predict(condition, 1.5, recompute)
        image = backbone.decode(ds.sample(predict, noise(), table_of(backbone.schedule)), clamp=False)
        gradients.append(torch.autograd.grad(image.square().mean(), list(table_of.parameters())))
    assert not any(p.requires_grad for p in backbone.transformer.parameters())
    assert max(g.abs().max() for g in gradients[0]) > 0
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-9) for a, b in zip(*gradients, strict=True))


def test_without_a_clamp_saturated_pixels_keep_a_gradient(dit):
    backbone, latents = load(dit), (noise() * 50).requires_grad_()
    images = backbone.decode(latents, clamp=False)
    outside = (images < 0) | (images > 1)
    assert outside.any()
    assert backbone.decode(latents).min() == 0
    assert torch.autograd.grad(images[outside].sum(), latents)[0].abs().max() > 0


def test_a_dit_without_learned_variance_and_under_an_old_name(tmp_path):
    folder = tiny.dit(tmp_path, variance=False)
    for name in ("model_index.json", "transformer/config.json"):
        path = folder / name
        path.write_text(path.read_text().replace("DiTTransformer2DModel", "Transformer2DModel"))
    assert guess(folder) == "dit"
    backbone = load(folder)
    assert backbone.predict(backbone.conditions([0]))(noise(1), torch.tensor(0.5)).data.shape == (1, 4, 8, 8)


def test_a_checkpoint_without_the_variant_loads_its_plain_files(tmp_path):
    folder = tiny.gmdit(tmp_path, variant=None)
    assert load(folder).name == load(folder, variant="fp16").name == str(folder)


def test_pickled_weights_of_old_repositories_load_when_asked_for(tmp_path):
    folder = tiny.dit(tmp_path)
    wanted = load(folder).transformer.state_dict()
    DiTPipeline.from_pretrained(folder).transformer.save_pretrained(
        folder / "transformer", safe_serialization=False
    )
    (folder / "transformer" / "diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no weights in .*variant='pickle' takes its pickles"):
        load(folder)
    DiTPipeline.from_pretrained(folder).vae.save_pretrained(folder / "vae", safe_serialization=False)
    found = load(folder, variant="pickle").transformer.state_dict()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_toy_in_one_class_samples_that_classes_gaussian():
    """Guidance 1 with a condition: the ODE carries N(0, 1) to N(mean, deviation), here 0.6 and 0.5."""
    backbone = load("toy")
    predict = backbone.predict(backbone.conditions([1] * 3))
    x = torch.linspace(-2, 2, 12, dtype=torch.float64).view(3, 4)
    table = ds.DPMpp(60, grid="half_log_snr")(backbone.schedule)
    wanted = Mixture([0.6], [0.5]).solution(x, backbone.schedule, 1.0, float(table.t[-1]))
    assert torch.allclose(ds.sample(predict, x, table), wanted, atol=2e-3)


def test_toy_without_a_class_is_the_whole_mixture():
    backbone = load("toy")
    x, t = torch.randn(2, 4, dtype=torch.float64), torch.tensor(0.4)
    condition = backbone.conditions([0, 1])
    found = backbone.predict(condition, guidance=0.0)(x, t)
    wanted = Mixture([-1.0, 0.6, 1.5], [0.4, 0.5, 0.3]).predict(backbone.schedule)(x, t)
    assert torch.allclose(found.data, wanted.data, atol=1e-6)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}, ds.VP.scaled_linear()),
        ({"beta_schedule": "squaredcos_cap_v2", "num_train_timesteps": 500}, ds.VP.cosine(500)),
        ({"trained_betas": [0.1, 0.2]}, ds.VP.from_betas([0.1, 0.2])),
        ({"shift": 3.0, "use_dynamic_shifting": True}, ds.Flow(3.0)),
        ({"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}, ds.Flow(3.0)),
    ],
)
def test_schedules_of_diffusers_configs(config, wanted):
    assert schedule_of(config)[0] == wanted


def test_mistakes_are_one_line(dit, tmp_path):
    broken, other, bare = (tmp_path / name for name in ("broken", "other", "bare"))
    tiny.gmdit(broken)
    for path in tiny.gmdit(bare).glob("transformer/*.safetensors"):
        path.unlink()
    weights = broken / "transformer" / "diffusion_pytorch_model.bf16.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    (other / "transformer").mkdir(parents=True)
    (other / "transformer" / "config.json").write_text("{}")
    (other / "model_index.json").write_text('{"_class_name": "WanPipeline", "transformer": [null, null]}')
    calls = {
        "no class 'x': there are tench": lambda: load(dit).conditions(["x"]),
        "no class 3: they are numbered 0 to 2": lambda: load(dit).conditions([3]),
        "a list": lambda: load(dit).conditions("boot"),
        "cannot load the index of .*nowhere: no folder": lambda: load(tmp_path / "nowhere"),
        "cannot load transformer of .*broken": lambda: load(broken),
        "no weights in .*it holds config.json": lambda: load(bare),
        "no weights in .*model.bf16.safetensors": lambda: load(broken, variant="fp16"),
        "which no backbone here wraps": lambda: load(other),
        "kind must be one of 'toy', 'dit', 'gmdit', 'pipeline'": lambda: load(dit, kind="flux"),
        "ds.wrap and ds.VE": lambda: schedule_of({"sigma_data": 0.5}),
        "zero_snr": lambda: schedule_of({"rescale_betas_zero_snr": True}),
        "beta_schedule must be": lambda: schedule_of({"beta_schedule": "sigmoid"}),
    }
    for words, call in calls.items():
        with pytest.raises(ValueError, match=words) as error:
            call()
        assert "\n" not in str(error.value)
