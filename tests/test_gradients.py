"""Gradients through solver(schedule), in every parameter and time."""

import pytest
import torch
from torch.func import functional_call

import dualsolver as ds
from conftest import drawn
from dualsolver.solvers.dual import KINDS

SCHEDULES = {
    "vp": ds.VP.linear(),
    "continuous": ds.VP.continuous(),
    "flow": ds.Flow(),
    "ve": ds.VE(0.02, 10.0),
}


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    return SCHEDULES[request.param]


def moved(solver, scale=0.3):
    """Every raw parameter off its start, by different amounts; times off the knots of the VP schedule."""
    with torch.no_grad():
        for i, parameter in enumerate(solver.parameters()):
            parameter += scale * torch.sin(1.7 * torch.arange(len(parameter)) + i + 1)
    return solver


def check(solver, schedule):
    names, values = zip(*solver.named_parameters(), strict=True)

    def table(*parameters):
        found = functional_call(solver, dict(zip(names, parameters, strict=True)), (schedule,))
        return found.weights, found.t, found.alpha, found.sigma

    leaves = tuple(v.detach().clone().requires_grad_() for v in values)
    assert torch.autograd.gradcheck(table, leaves, eps=1e-7, atol=1e-5, rtol=1e-4)


T = [0.9003, 0.7101, 0.4402, 0.3004, 0.1002]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"domain": "mix"}, {"parametrisation": "direct"}, {"bound": None}], ids=str
)
def test_dual(kind, options, schedule):
    check(drawn(4, kind, t=T, seed=2, **options), schedule)


@pytest.mark.parametrize(
    "options", [{"fixed": {"gamma": -1.0}}, {"fixed": {"gamma": 1.0}}, {"shared": True}], ids=str
)
def test_dual_ablations(options, schedule):
    solver = moved(ds.DualSolver(4, "p2c2", t=T, **options))
    if "shared" in options:
        with torch.no_grad():
            solver.predictor["gamma"] += 1
            solver.corrector["gamma"] -= 1
    check(solver, schedule)


@pytest.mark.parametrize(
    "make", [lambda: ds.BNS(4, t=T), lambda: ds.BNS(4, tied=True, t=T), lambda: ds.DS(4, t=T)]
)
def test_bns_and_ds(make, schedule):
    check(moved(make()), schedule)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("solver", [ds.DPMpp, ds.UniPC])
def test_fixed_solvers_have_finite_gradients_to_the_very_ends(solver, order):
    t = torch.tensor([1.0, 0.8, 0.5, 0.3, 0.0], dtype=torch.float64, requires_grad=True)
    loss(solver(4, t, order=order)(ds.Flow())).backward()
    inner = []
    for i in (1, 2, 3):
        values = []
        for shift in (1e-6, -1e-6):
            moved = t.detach().clone()
            moved[i] += shift
            values.append(loss(solver(4, moved, order=order)(ds.Flow())).item())
        inner.append((values[0] - values[1]) / 2e-6)
    assert t.grad[1:4].tolist() == pytest.approx(inner, rel=1e-5)
    assert bool(t.grad.isfinite().all())


@pytest.mark.parametrize("name", ["ddim", "euler", "dpmpp", "unipc", "heun"])
def test_fixed_solvers_pass_gradients_to_given_times(name, schedule):
    def weights(t):
        return ds.SOLVERS[name](nfe=7 if name == "heun" else 4, grid=t)(schedule).weights

    t = torch.tensor(T, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(weights, t, eps=1e-7, atol=1e-5, rtol=1e-4)


def loss(table):
    """A random linear function of the weights: squares would not see the slope of a weight that is 0."""
    return (table.weights * torch.rand(table.weights.shape, generator=torch.Generator().manual_seed(0))).sum()


def gradients(solver, schedule):
    loss(solver(schedule)).backward()
    return {name: p.grad for name, p in solver.named_parameters()}


def test_initial_values_have_finite_gradients_of_one_side(schedule):
    """gamma starts on its kink: the gradient there is that of the branch gamma >= 0."""
    solver = ds.DualSolver(4, t=T)
    found = gradients(solver, schedule)["corrector.gamma"]
    steps = []
    for i in range(3):
        sums = []
        for shift in (0.0, 1e-7):
            with torch.no_grad():
                solver.corrector["gamma"][i] += shift
                sums.append(loss(solver(schedule)).detach())
                solver.corrector["gamma"][i] -= shift
        steps.append((sums[1] - sums[0]).item() / 1e-7)
    assert found.tolist() == pytest.approx(steps, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("gamma", [1.0, -1.0])
def test_p2_has_the_right_gradient_where_its_step_ratio_is_0_over_0(gamma):
    schedule, solver = ds.VP.continuous(), drawn(4, "p2", t=T, gamma=gamma, bound=None)  # exactly +-1
    assert solver.values()["predictor"]["gamma"] == [gamma] * 4
    found = gradients(solver, schedule)["predictor.gamma"]
    wanted = []
    for i in range(4):
        sums = []
        for shift in (1e-6, -1e-6):
            with torch.no_grad():
                solver.predictor["gamma"][i] += shift
                sums.append(loss(solver(schedule)).detach())
                solver.predictor["gamma"][i] -= shift
        wanted.append((sums[0] - sums[1]).item() / 2e-6)
    assert found.tolist() == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", [(1.0, 0.0), (0.999, 0.001), (0.9, 0.0)])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 1.8])
def test_gradients_are_finite_to_the_very_ends(kind, ends, gamma):
    for schedule in (ds.VP.linear(), ds.Flow()):
        t = torch.linspace(*ends, 6, dtype=torch.float64).tolist()
        for g in gradients(drawn(5, kind, t=t, gamma=gamma), schedule).values():
            assert bool(g.isfinite().all())
            assert g.abs().max() < 1e6
