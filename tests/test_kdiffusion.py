"""k-diffusion's convention: a file learned elsewhere gives the same samples there."""

from itertools import pairwise

import pytest
import torch

import dualsolver as ds
from conftest import MIXTURE, drawn, relative
from dualsolver.kdiffusion import denoiser, sample_dual
from dualsolver.schedule import at_noise_level, noise_level

VP = ds.VP.scaled_linear()
SCHEDULES = {"vp": VP, "flow": ds.Flow(shift=3.0), "ve": ds.VE(0.02, 14.6)}
NOISE = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def model_of(schedule, log=None):
    """The exact denoiser of the mixture where x = data + sigma noise; flows as they are."""
    own = ds.Flow() if isinstance(schedule, ds.Flow) else ds.VE(1e-4, 1e4)

    def model(x, sigma, scale=1.0):
        assert sigma.shape == (len(x),)
        if log is not None:
            log.append((x, sigma[0].item()))
        return scale * MIXTURE.predict(own)(x, sigma[0]).data

    return model


def start_of(schedule, level):
    """What ComfyUI starts from."""
    if isinstance(schedule, ds.VP):
        return NOISE * (1 + level**2) ** 0.5
    return NOISE * level if isinstance(schedule, ds.VE) else NOISE


def learned(folder):
    ds.save(drawn(3, gamma=0.4), folder, schedule=VP, prediction="noise")
    return folder


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_learned_file_gives_the_samples_of_its_own_schedule(name, tmp_path):
    schedule = SCHEDULES[name]
    solver = drawn(4, gamma=0.4, t=(schedule.grid(4) * 0.999).tolist())
    ds.save(solver, tmp_path, schedule=schedule, prediction="data")
    table, log, seen = solver(schedule), [], []
    highest = float(noise_level(schedule, *schedule(schedule.t_max)))
    sigmas = torch.linspace(highest, 0, 5, dtype=torch.float64)
    found = sample_dual(
        model_of(schedule, log), start_of(schedule, highest), sigmas, callback=seen.append, solver=tmp_path
    )
    start = NOISE * table.t[0].item() if name == "ve" else NOISE
    states = ds.trajectory(MIXTURE.predict(schedule), start, table)
    factors = torch.ones_like(table.alpha) if name == "flow" else table.alpha
    assert relative(found, states[-1] / factors[-1]) < 1e-12
    levels = noise_level(schedule, table.alpha, table.sigma)
    for i, (x, sigma) in enumerate(log):
        assert relative(x, states[i] / factors[i]) < 1e-12
        assert sigma == pytest.approx(levels[i].item())
        assert torch.equal(seen[i]["x"], x)
        assert (seen[i]["i"], seen[i]["sigma"].item()) == (i, seen[i]["sigma_hat"].item())
        assert relative(seen[i]["denoised"], MIXTURE.predict(schedule)(states[i], table.t[i]).data) < 1e-10
    assert len(log) == len(seen) == 4


def euler(model, x, sigmas):
    for now, after in pairwise(sigmas):
        slope = (x - model(x, now.expand(len(x)))) / now
        x = x + slope * (after - now)
    return x


def dpmpp_2m(model, x, sigmas):
    """DPM-Solver++(2M) in half-log-SNR, without k-diffusion's last step of first order."""
    old, t = None, -sigmas.log()
    for i in range(len(sigmas) - 1):
        data, h = model(x, sigmas[i].expand(len(x))), t[i + 1] - t[i]
        slope = data if old is None else data + (data - old) * h / (2 * (t[i] - t[i - 1]))
        x = sigmas[i + 1] / sigmas[i] * x - torch.expm1(-h) * slope
        old = data
    return x


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("end", [0.0, 0.3])
def test_a_fixed_solver_takes_sigmas_literally_from_wherever_they_start(name, end, tmp_path):
    schedule, model = SCHEDULES[name], model_of(SCHEDULES[name])
    ds.save(ds.DDIM(10), tmp_path, schedule=schedule)
    sigmas = torch.tensor([0.9, 0.7, 0.5, end], dtype=torch.float64)
    found = sample_dual(model, NOISE, sigmas, solver=tmp_path)
    assert relative(found, euler(model, NOISE, sigmas)) < 1e-9


def test_dpmpp_2m_on_given_sigmas(tmp_path):
    ds.save(ds.DPMpp(10, lower_order_final=False), tmp_path, schedule=VP)
    sigmas, model = torch.tensor([14.0, 5.0, 2.0, 0.6, 0.1], dtype=torch.float64), model_of(VP)
    found = sample_dual(model, 14.0 * NOISE, sigmas, solver=tmp_path)
    assert relative(found, dpmpp_2m(model, 14.0 * NOISE, sigmas)) < 1e-9


def test_a_length_that_was_not_learned_falls_back_and_heun_needs_one_call_at_the_end(tmp_path, caplog):
    log, folder = [], learned(tmp_path)
    sigmas = torch.tensor([14.0, 5.0, 1.0, 0.3, 0.0], dtype=torch.float64)
    sample_dual(model_of(VP, log), 14.0 * NOISE, sigmas, solver=folder, fallback="heun")
    assert [sigma for _, sigma in log] == pytest.approx([14.0, 5.0, 5.0, 1.0, 1.0, 0.3, 0.3])
    assert "using heun" in caplog.text


def test_what_the_model_is_given_besides_and_the_dtype_of_x(tmp_path):
    folder, x = learned(tmp_path), NOISE.float() * 14.6
    sigmas, model = torch.tensor([14.6, 3.0, 1.0, 0.0]), model_of(VP)
    found = sample_dual(model, x, sigmas, {"scale": 0.0}, None, True, solver=folder)
    assert found.dtype == torch.float32
    assert relative(sample_dual(model, x, sigmas, solver=folder), found) > 0.1
    log = []
    half = sample_dual(model_of(VP, log), x.half(), sigmas, {"scale": 0.0}, None, True, solver=folder)
    assert half.dtype == log[0][0].dtype == torch.float16
    assert relative(half.float(), found) < 1e-2


def test_a_solver_learns_through_a_denoiser():
    solver = ds.DualSolver(2)
    ours = ds.sample(denoiser(model_of(VP), VP), NOISE, solver(VP)).sum()
    ours = torch.autograd.grad(ours, list(solver.parameters()))
    wanted = ds.sample(MIXTURE.predict(VP), NOISE, solver(VP)).sum()
    for one, two in zip(ours, torch.autograd.grad(wanted, list(solver.parameters())), strict=True):
        assert torch.allclose(one, two, rtol=1e-9, atol=1e-9)


def test_the_highest_sigma_may_be_rounded_up():
    highest = noise_level(VP, *VP(1.0)).float()
    for rounded in (highest, torch.nextafter(highest, torch.tensor(20.0))):
        assert at_noise_level(VP, rounded[None]).item() == pytest.approx(1.0, abs=1e-6)


def test_mistakes_are_one_line(tmp_path):
    folder, model = learned(tmp_path / "learned"), model_of(VP)
    ds.save(ds.DualSolver(3), tmp_path / "open")
    calls = {
        "noise, at sigma = 8.303, to 0, but sigmas from 2 to 0: take a fixed one": (
            [2.0, 1.0, 0.5, 0.0],
            folder,
        ),
        "to 0, but sigmas from 14 to 0.1": ([14.0, 1.0, 0.5, 0.1], folder),
        "NFE 2 was not learned": ([14.0, 1.0, 0.0], folder),
        "leaves the schedule open": ([14.0, 1.0, 0.5, 0.0], tmp_path / "open"),
        "sigmas must be at least two strictly decreasing": ([0.0, 1.0], folder),
    }
    for words, (sigmas, solver) in calls.items():
        with pytest.raises(ValueError, match=words) as error:
            sample_dual(model, NOISE, torch.tensor(sigmas), solver=solver)
        assert "\n" not in str(error.value)
