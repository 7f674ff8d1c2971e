import math

import pytest
import torch
from diffusers import DDIMScheduler

import dualsolver as ds
from conftest import SCHEDULES
from dualsolver.schedule import GRIDS, LearnedTimes, from_config


def node_times(steps=1000):
    return (torch.arange(steps, dtype=torch.float64) + 1) / steps


@pytest.mark.parametrize(
    ("schedule", "betas"),
    [
        (ds.VP.linear(), torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)),
        (ds.VP.scaled_linear(), torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2),
        (ds.VP.from_betas([0.1, 0.3, 0.2]), torch.tensor([0.1, 0.3, 0.2], dtype=torch.float64)),
    ],
)
def test_nodes_are_the_float64_product(schedule, betas):
    alpha, sigma = schedule(node_times(len(betas)))
    product = torch.cumprod(1 - betas, 0)
    assert torch.allclose(alpha, product.sqrt(), rtol=1e-12, atol=0)
    assert torch.allclose(sigma, (1 - product).sqrt(), rtol=1e-9, atol=0)  # 1 - product itself cancels


@pytest.mark.parametrize(
    ("schedule", "name", "options"),
    [
        (ds.VP.linear(), "linear", {"beta_start": 1e-4, "beta_end": 0.02}),
        (ds.VP.scaled_linear(), "scaled_linear", {"beta_start": 0.00085, "beta_end": 0.012}),
        (ds.VP.cosine(), "squaredcos_cap_v2", {}),
    ],
)
def test_nodes_are_those_of_diffusers(schedule, name, options):
    theirs = DDIMScheduler(beta_schedule=name, **options).alphas_cumprod.double()
    ours = schedule(node_times())[0] ** 2
    assert ((ours - theirs) / theirs).abs().max() < (2e-6 if name != "squaredcos_cap_v2" else 1e-4)


def test_t_zero_is_exactly_clean(schedule):
    alpha, sigma = schedule(0.0)
    assert (alpha.item(), sigma.item()) == (1.0, 0.0)


def test_vp_interpolates_log_alpha():
    schedule = ds.VP.linear()
    left, right, between = (schedule(t)[0].log() for t in (0.300, 0.301, 0.30025))
    assert torch.allclose(between, 0.75 * left + 0.25 * right, rtol=1e-12)


def test_continuous_vp_is_the_integral_of_its_beta():
    s = torch.linspace(0, 0.7, 10001, dtype=torch.float64)
    log_alpha = -0.5 * torch.trapezoid(0.1 + 19.9 * s, s)
    assert torch.allclose(ds.VP.continuous()(0.7)[0].log(), log_alpha, rtol=1e-8)


def test_rates_of_flow_and_ve():
    t = torch.tensor([0.25, 0.5], dtype=torch.float64)
    for shift in (1.0, 3.0):
        assert [x.tolist() for x in ds.Flow(shift=shift)(t)] == [[0.75, 0.5], [0.25, 0.5]]
    assert [x.tolist() for x in ds.VE()(t)] == [[1.0, 1.0], [0.25, 0.5]]


def test_inverse(schedule):
    start, end = schedule.span
    t = torch.linspace(end, 0.98 * start, 57, dtype=torch.float64)
    assert torch.allclose(schedule.time(schedule.half_log_snr(t)), t, rtol=1e-10)
    lam = schedule.half_log_snr(t)
    assert torch.allclose(schedule.half_log_snr(schedule.time(lam)), lam, rtol=1e-9, atol=1e-9)


def test_rates_are_differentiable_in_t(schedule):
    t = torch.tensor([0.11337, 0.52342, 0.87651], dtype=torch.float64, requires_grad=True)  # off the knots
    assert torch.autograd.gradcheck(lambda x: schedule(x), t, eps=1e-7, rtol=1e-5)
    assert torch.autograd.gradcheck(lambda x: schedule.time(schedule.half_log_snr(x)), t, eps=1e-7)


def test_velocity_points_along_the_path(schedule):
    t = torch.tensor([0.11337, 0.52342, 0.87651], dtype=torch.float64, requires_grad=True)
    alpha, sigma = schedule(t)
    of_data, of_noise = schedule.velocity(alpha, sigma)
    d_alpha, d_sigma = (torch.autograd.grad(x.sum(), t, retain_graph=True)[0] for x in (alpha, sigma))
    assert torch.allclose(alpha * of_noise - sigma * of_data, torch.ones_like(t).double())
    assert torch.allclose(d_alpha * of_noise, d_sigma * of_data, atol=1e-12)
    assert bool((d_sigma * of_noise > 0).all())


def test_model_time_is_the_training_index():
    assert ds.VP.linear().model_time(node_times())[[0, 499, 999]].tolist() == pytest.approx(
        [0, 499, 999], abs=1e-9
    )
    assert ds.VP.linear().model_time(0.5555).item() == pytest.approx(554.5)  # fractions are kept
    assert ds.Flow().model_time(0.5).item() == 500.0
    assert ds.VP.continuous().model_time(1.0).item() == 999.0
    assert ds.VE().model_time(2.5).item() == 2.5


def test_prior_scales_the_noise():
    noise = torch.randn(4)
    assert torch.equal(ds.VE(0.02, 100.0).prior(noise), 100 * noise)
    assert torch.equal(ds.Flow().prior(noise), noise)
    assert torch.equal(ds.VP.linear().prior(noise), noise)


@pytest.mark.parametrize("kind", GRIDS)
def test_grids_decrease_from_start_to_end(schedule, kind):
    start, end = 0.9, 0.1
    t = schedule.grid(7, kind, start, end)
    assert len(t) == 8
    assert bool((t.diff() < 0).all())
    if kind != "shifted":
        assert (t[0].item(), t[-1].item()) == (start, end)


def test_grids_are_even_in_what_their_name_says(schedule):
    assert torch.allclose(schedule.grid(6, "uniform", 0.9, 0.1).diff(), torch.tensor(-0.8 / 6).double())
    lam = schedule.half_log_snr(schedule.grid(6, "half_log_snr", 0.9, 0.1))
    assert torch.allclose(lam.diff(), lam.diff()[0], rtol=1e-8)
    roots = torch.exp(-schedule.half_log_snr(schedule.grid(6, "karras", 0.9, 0.1)) / 7)
    assert torch.allclose(roots.diff(), roots.diff()[0], rtol=1e-8)


def test_shift_is_that_of_sd3():
    t = ds.Flow(shift=3.0).grid(4, start=1.0, end=0.0)
    assert t.tolist() == pytest.approx([3 * s / (1 + 2 * s) for s in (1, 0.75, 0.5, 0.25, 0)])


def test_default_grids_are_the_papers():
    assert ds.VP.linear().grid(3).tolist() == pytest.approx([1.0, 0.667, 0.334, 0.001])
    assert ds.Flow().grid(2).tolist() == pytest.approx([0.999, 0.5, 0.001])
    assert ds.VE(0.02, 80.0).grid(5)[[0, -1]].tolist() == [80.0, 0.02]


def test_config_rebuilds_the_schedule(schedule):
    again = from_config(schedule.config())
    t = torch.linspace(0, 1, 23, dtype=torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(schedule(t), again(t), strict=True))
    assert again.grid(5).tolist() == schedule.grid(5).tolist()
    assert repr(again) == repr(schedule)


def test_learned_times_start_where_told_and_keep_their_ends():
    t = [0.97, 0.5, 0.45, 0.01]
    times = LearnedTimes(t)
    assert times().tolist() == pytest.approx(t, rel=1e-14)
    with torch.no_grad():
        times.logits += torch.tensor([3.0, -1.0, 0.4])
    moved = times()
    assert moved[[0, -1]].tolist() == [0.97, 0.01]
    assert bool((moved.diff() < 0).all())
    small = LearnedTimes([100.0, 1.0, 1e-6, 1e-9, 0.0])()
    assert small.tolist() == pytest.approx([100.0, 1.0, 1e-6, 1e-9, 0.0], rel=1e-13)
    steps = torch.softmax(times.logits, 0) * 0.96
    assert torch.allclose(-moved.diff(), steps)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: ds.VP.linear()(1.2), r"t = 1.2 leaves the time range"),
        (lambda: ds.Flow()(float("nan")), "leaves the time range"),
        (lambda: ds.VP.linear()("0.5"), "t must be a number or a tensor of numbers, not '0.5'"),
        (lambda: ds.VE()(None), "t must be a number or a tensor of numbers, not None"),
        (lambda: ds.Flow().time("x"), "half_log_snr must be a number"),
        (lambda: ds.Flow().grid(3, start="1"), "start must be a finite number, not '1'"),
        (lambda: ds.Flow().grid(3, end=float("nan")), "end must be a finite number, not nan"),
        (lambda: ds.VP.cosine(offset=-2.0), "offset must be a finite number"),
        (lambda: ds.VP.cosine(max_beta="1"), "max_beta must be a finite number"),
        (lambda: ds.VP.from_betas([1.0, 0.1]), "strictly between 0 and 1"),
        (lambda: ds.Flow(shift=0.0), "shift must be a finite number greater than 0"),
        (lambda: ds.VE(3.0, 2.0), "sigma_max must be a finite number greater than 3"),
        (lambda: ds.VP.linear().grid(3, "ramp"), "grid must be one of 'uniform'"),
        (lambda: ds.VP.linear().grid(0), "steps must be a whole number >= 1"),
        (lambda: ds.VP.linear().grid(3, start=0.2, end=0.5), "does not fit"),
        (lambda: ds.Flow().grid(3, "karras", start=1.0), "alpha > 0 at its start"),
        (lambda: ds.VP.linear().time(-50.0), "leaves the time range"),
        (lambda: LearnedTimes([0.5, 0.5]), "strictly decreasing"),
        (lambda: from_config({"type": "vp"}), "type must be one of 'vp-betas'"),
        (lambda: from_config({"type": "flow", "speed": 2}), "speed"),
        (lambda: ds.VP.from_betas([0.1, 1.0]), "zero terminal SNR"),
        (lambda: ds.VP.linear(steps=-1), "steps must be a whole number"),
        (lambda: ds.Flow(shift="3"), "shift must be a finite number greater than 0, not '3'"),
        (lambda: ds.VP.continuous(beta_max=math.inf), "beta_max must be a finite number"),
        (lambda: from_config({"type": "flow", "shift": 2.0}), "lacks time_scale"),
    ],
)
def test_bad_input_is_named(bad, words):
    with pytest.raises(ValueError, match=words):
        bad()


def test_every_schedule_is_tested():
    kinds = {schedule.config()["type"] for schedule in SCHEDULES.values()} | {"vp-betas"}
    assert kinds == set(ds.schedule.SCHEDULES)


def test_cosine_is_a_cosine_at_the_nodes():
    angles = [math.pi / 2 * (t + 0.008) / 1.008 for t in (0.5, 0.0)]
    assert ds.VP.cosine()(0.5)[0].item() == pytest.approx(
        math.cos(angles[0]) / math.cos(angles[1]), rel=1e-12
    )
