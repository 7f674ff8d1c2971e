"""Agreement with an independent implementation: diffusers' schedulers on the same grid and model."""

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EDMEulerScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    UniPCMultistepScheduler,
)

import dualsolver as ds
from conftest import MIXTURE, relative

X = torch.linspace(-2, 2, 33, dtype=torch.float64)[None]
LINEAR = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}
VP = ds.VP.linear()


def exact_noise(schedule, x, t):
    return MIXTURE.predict(schedule)(x, t).noise


def run(scheduler, steps, model, x=X, **arguments):
    """A pipeline's loop: model(x, timestep) at each timestep, then step."""
    scheduler.set_timesteps(steps, **arguments)
    x = x * scheduler.init_noise_sigma if isinstance(scheduler, EDMEulerScheduler) else x
    for timestep in scheduler.timesteps:
        x = scheduler.step(model(x, timestep), timestep, x).prev_sample
    return x


def vp_model(x, timestep):
    return exact_noise(VP, x, (timestep.double() + 1) / 1000)


def vp_grid(scheduler, end):
    return [*((scheduler.timesteps.double() + 1) / 1000).tolist(), end]


@pytest.mark.parametrize("steps", [2, 4, 10])
def test_ddim(steps):
    scheduler = DDIMScheduler(**LINEAR, clip_sample=False, timestep_spacing="trailing")
    theirs = run(scheduler, steps, vp_model)
    ours = ds.sample(MIXTURE.predict(VP), X, ds.DDIM(steps, vp_grid(scheduler, 0.0))(VP))
    assert relative(ours, theirs) < 1e-5


@pytest.mark.parametrize(("final", "end"), [("zero", 0.0), ("sigma_min", 0.001)])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_dpmpp(order, final, end):
    scheduler = DPMSolverMultistepScheduler(
        **LINEAR, solver_order=order, timestep_spacing="trailing", final_sigmas_type=final
    )
    theirs = run(scheduler, 8, vp_model)
    table = ds.DPMpp(8, vp_grid(scheduler, end), order, published=True)(VP)
    assert relative(ds.sample(MIXTURE.predict(VP), X, table), theirs) < 1e-5


@pytest.mark.parametrize("low", [True, False])
def test_dpmpp_with_and_without_a_lowered_end(low):
    scheduler = DPMSolverMultistepScheduler(
        **LINEAR, timestep_spacing="trailing", final_sigmas_type="sigma_min", lower_order_final=low
    )
    theirs = run(scheduler, 6, vp_model)
    table = ds.DPMpp(6, vp_grid(scheduler, 0.001), lower_order_final=low)(VP)
    assert relative(ds.sample(MIXTURE.predict(VP), X, table), theirs) < 1e-5


@pytest.mark.parametrize(("final", "end"), [("zero", 0.0), ("sigma_min", 0.001)])
@pytest.mark.parametrize("variant", ["bh1", "bh2"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("prediction", ["data", "noise"])
def test_unipc(prediction, order, variant, final, end):
    if final == "zero" and (prediction, variant) != ("data", "bh2"):
        pytest.skip("diffusers returns NaN: infinite half-log-SNR")
    scheduler = UniPCMultistepScheduler(
        **LINEAR,
        solver_order=order,
        solver_type=variant,
        timestep_spacing="trailing",
        final_sigmas_type=final,
        predict_x0=prediction == "data",
    )
    theirs = run(scheduler, 8, vp_model)
    table = ds.UniPC(8, vp_grid(scheduler, end), order, variant, prediction)(VP)
    assert relative(ds.sample(MIXTURE.predict(VP), X, table), theirs) < 1e-5


def flow_model(x, timestep, sigma):
    data, noise = MIXTURE.predict(ds.Flow())(x, sigma)
    return noise - data


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_flow_euler_is_ddim(shift):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=shift)
    theirs = run(scheduler, 6, lambda x, t: flow_model(x, t, t.double() / 1000))
    ours = ds.sample(MIXTURE.predict(ds.Flow()), X, ds.DDIM(6, scheduler.sigmas.tolist())(ds.Flow()))
    assert relative(ours, theirs) < 1e-5


def test_flow_heun_is_heun_in_velocity_form():
    scheduler = FlowMatchHeunDiscreteScheduler()
    theirs = run(scheduler, 4, lambda x, t: flow_model(x, t, t.double() / 1000))
    grid = [t.item() for i, t in enumerate(scheduler.sigmas) if i == 0 or t != scheduler.sigmas[i - 1]]
    table = ds.Heun(2 * (len(grid) - 1) - 1, grid, prediction="velocity")(ds.Flow())
    assert relative(ds.sample(MIXTURE.predict(ds.Flow()), X, table), theirs) < 1e-5


@pytest.mark.parametrize(
    ("kind", "solver"), [(DPMSolverMultistepScheduler, ds.DPMpp), (UniPCMultistepScheduler, ds.UniPC)]
)
def test_multistep_on_flow(kind, solver):
    scheduler = kind(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0)
    scheduler.set_timesteps(8)
    sigmas, at = scheduler.sigmas.double(), iter(scheduler.sigmas.double())
    theirs = run(scheduler, 8, lambda x, t: flow_model(x, t, next(at)))
    ours = ds.sample(MIXTURE.predict(ds.Flow()), X, solver(8, sigmas.tolist())(ds.Flow()))
    assert relative(ours, theirs) < 1e-5


def test_edm_euler_is_ddim_on_a_karras_grid():
    scheduler = EDMEulerScheduler(sigma_min=0.02, sigma_max=80.0)
    schedule, steps = ds.VE(0.02, 80.0), 8
    scheduler.set_timesteps(steps)
    grid = schedule.grid(steps - 1, "karras")
    assert relative(scheduler.sigmas[:-1].double(), grid) < 1e-5
    table = ds.DDIM(steps, [*grid.tolist(), 0.0])(schedule)
    x = 80.0 * X
    for sigma, after in zip(scheduler.sigmas[:-1].double(), scheduler.sigmas[1:].double(), strict=True):
        data = MIXTURE.predict(schedule)(x, sigma).data
        x = x + (after - sigma) * (x - data) / sigma
    assert relative(ds.sample(MIXTURE.predict(schedule), 80.0 * X, table), x) < 1e-5
