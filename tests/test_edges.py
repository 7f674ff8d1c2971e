"""Ends of the interval, extreme parameters and step counts: the right limit, or an error that says why."""

import math

import pytest
import torch

import dualsolver as ds
from conftest import MIXTURE, drawn, relative
from dualsolver.solvers.dual import KINDS

X = torch.linspace(-2, 2, 9, dtype=torch.float64)
FIXED = [
    (ds.DDIM, {}),
    (ds.DPMpp, {}),
    (ds.DPMpp, {"order": 3}),
    *[(ds.UniPC, {"order": o, "variant": "bh2"}) for o in (1, 2, 3)],
]


def near(table, other, tolerance):
    """Whether two tables give the same samples."""
    outputs = []
    for found, schedule in (table, other):
        outputs.append(ds.sample(MIXTURE.predict(schedule), X, found).detach())
    assert relative(*outputs) < tolerance


@pytest.mark.parametrize(("solver", "options"), FIXED, ids=lambda x: str(x))
def test_fixed_solvers_tend_to_their_limit_at_alpha_0_and_sigma_0(solver, options):
    schedule, inner = ds.Flow(), [0.8, 0.5, 0.3, 0.2]
    limit = solver(5, [1.0, *inner, 0.0], **options)(schedule)
    distance = []
    for gap in (1e-6, 1e-12):
        table = solver(5, [1 - gap, *inner, gap], **options)(schedule)
        outputs = [ds.sample(MIXTURE.predict(schedule), X, found) for found in (limit, table)]
        distance.append(relative(*outputs))
    # a node at infinity takes no part; on the way there its weight falls like 1 / lambda only
    assert distance[1] < 1e-9 or distance[0] / distance[1] == pytest.approx(2, abs=0.25)
    assert distance[1] < 0.05


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 1.5])
@pytest.mark.parametrize("kind", KINDS)
def test_dual_tends_to_its_limit_at_alpha_0_and_sigma_0(kind, gamma):
    schedule, inner = ds.Flow(), [0.8, 0.5, 0.3]
    limit = drawn(4, kind, gamma=gamma, t=[1.0, *inner, 0.0])(schedule)
    distance = []
    for gap in (1e-6, 1e-12):
        table = drawn(4, kind, gamma=gamma, t=[1 - gap, *inner, gap])(schedule)
        outputs = [ds.sample(MIXTURE.predict(schedule), X, found).detach() for found in (limit, table)]
        distance.append(relative(*outputs))
    for gap, found in zip(
        (1e-6, 1e-12), distance, strict=True
    ):  # residuals vanish like sigma^gamma log^2 sigma
        assert found < 10 * (gap**gamma * math.log(gap) ** 2 if gamma > 0 else 0) + 10 * gap**0.9


@pytest.mark.parametrize("gamma", [-0.2, -1.0, -1.7])
def test_negative_gamma_has_a_limit_at_sigma_0_but_none_from_alpha_0(gamma):
    schedule, inner = ds.Flow(), [0.8, 0.5, 0.3]
    limit = drawn(4, gamma=gamma, t=[0.9, *inner, 0.0])(schedule)
    near((limit, schedule), (drawn(4, gamma=gamma, t=[0.9, *inner, 1e-12])(schedule), schedule), 1e-8)
    with pytest.raises(ValueError, match=r"gamma = -.* < 0 has no limit in a step from alpha = 0"):
        drawn(4, gamma=gamma, t=[1.0, *inner, 0.0])(schedule)


@pytest.mark.parametrize("gamma", [0.0, -0.5])
def test_unlowered_p2_has_a_limit_at_sigma_0_for_gamma_up_to_0(gamma):
    schedule, inner = ds.VP.continuous(), [0.8, 0.5, 0.3]
    options = {"kind": "p2", "gamma": gamma, "lower_order_final": False}
    limit = drawn(4, t=[0.9, *inner, 0.0], **options)(schedule)
    near((limit, schedule), (drawn(4, t=[0.9, *inner, 1e-12], **options)(schedule), schedule), 1e-5)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda t: ds.Euler(3, t), "Euler in half-log-SNR has no finite weights in step 0"),
        (lambda t: ds.UniPC(3, t, variant="bh1"), "UniPC has no finite weights"),
        (
            lambda t: ds.DPMpp(3, t, lower_order_final=False),
            "DPM-Solver.* no finite weights in step 2.*lower the final",
        ),
        (lambda t: ds.UniPC(3, t, lower_order_final=False), "UniPC has no finite weights in step 2"),
        (lambda t: ds.Heun(5, t), "Heun has no finite weights in step"),
        (lambda t: ds.Heun(6, t), "even NFE evaluates at the last time, where sigma = 0"),
        (lambda t: drawn(3, "p2", t=t, gamma=0.5, lower_order_final=False), "p2 with gamma > 0 has no limit"),
        (lambda t: drawn(3, t=t, gamma=0.5, domain="mix"), "'mix' takes log y"),
        (lambda t: drawn(3, t=[0.9, *t[1:]], gamma=0.5, domain="mix"), "'mix' takes log y"),
    ],
)
def test_where_there_is_no_limit_the_error_says_so(build, words):
    with pytest.raises(ValueError, match=words):
        build([1.0, 0.6, 0.3, 0.0])(ds.Flow())


def test_heun_with_any_even_nfe_is_refused_at_sigma_0():
    for steps in (1, 2, 4):
        with pytest.raises(ValueError, match="even NFE"):
            ds.Heun(2 * steps, torch.linspace(0.9, 0, steps + 1))(ds.Flow())
        ds.Heun(2 * steps - 1, torch.linspace(0.9, 0, steps + 1))(ds.Flow())


@pytest.mark.parametrize("tau", [1e-12, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("gamma", [-1.9, -1.0, -1e-9, 0.0, 1e-9, 1.0, 1.9])
@pytest.mark.parametrize("schedule", [ds.VP.linear(), ds.Flow(), ds.VE(1e-3, 10.0)], ids=["vp", "flow", "ve"])
def test_residuals_are_exact_for_any_tau(schedule, gamma, tau):
    """B kappa du^2 against 60-digit arithmetic."""
    from mpmath import mp, mpf

    mp.dps = 60
    t = [0.7, 0.6999, 0.002]
    values = {
        "gamma": [gamma] * 2,
        "tau_u": [tau] * 2,
        "tau_v": [tau] * 2,
        "kappa_u": [1.5] * 2,
        "kappa_v": [0.5] * 2,
    }
    solver = ds.DualSolver.from_values("p1", t, values)
    at = solver.nodes(schedule)
    found = solver._scalars(solver.predictor, at.rates(slice(0, 2)), at.rates(slice(1, 3)))
    g, k = (mpf(solver.values()["predictor"][name][0]) for name in ("gamma", "tau_u"))
    a, s = ([mpf(x) for x in rates.tolist()] for rates in (at.alpha, at.sigma))
    for i in range(2):
        y_u, y_v = (
            ([x * y**-g for x, y in zip(a, s, strict=True)], [y ** (1 - g) for y in s])
            if g >= 0
            else ([x ** (1 + g) for x in a], [y * x**g for x, y in zip(a, s, strict=True)])
        )
        B = s[i + 1] ** g if g >= 0 else a[i + 1] ** -g
        for y, kappa, ours in ((y_u, "kappa_u", found.P.u), (y_v, "kappa_v", found.P.v)):
            exact = (
                B
                * mpf(solver.values()["predictor"][kappa][i])
                * ((mp.log(1 + k * y[i + 1]) - mp.log(1 + k * y[i])) / k) ** 2
            )
            assert ours[i].item() == pytest.approx(float(exact), rel=1e-9, abs=1e-200)


@pytest.mark.parametrize("name", ds.SOLVERS)
@pytest.mark.parametrize("nfe", [1, 2, 3, 100])
def test_any_number_of_evaluations(name, nfe):
    for schedule in (ds.VP.linear(), ds.Flow(shift=3.0)):
        options = {"form": "velocity"} if name == "ds" and isinstance(schedule, ds.Flow) else {}
        if name in ("euler", "heun"):  # noise forms start with a factor 1 / alpha
            options = {"grid": schedule.grid((nfe + 1) // 2 if name == "heun" else nfe, start=0.9, end=0.1)}
        table, calls = ds.SOLVERS[name](nfe=nfe, **options)(schedule), []

        def predict(x, t, schedule=schedule, calls=calls):
            calls.append(t)
            return MIXTURE.predict(schedule)(x, t)

        with torch.no_grad():
            out = ds.sample(predict, X, table)
        assert torch.equal(torch.stack(calls), table.t[:-1])
        assert table.nfe == nfe
        if nfe == 100:
            exact = MIXTURE.solution(X, schedule, table.t[0].item(), table.t[-1].item())
            assert (out - exact).abs().max() < 0.35


def test_ve_is_not_a_nan_at_the_initial_values():
    solver = ds.DualSolver(4, t=[10.0, 3.0, 1.0, 0.3, 0.0])
    table = solver(ds.VE(0.02, 10.0))
    table.weights.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in solver.parameters())
    assert torch.allclose(table.weights[:, 1, 0], torch.ones(()).double())  # gamma = 0 carries the state


def test_default_range_does_not_fit_ve_and_says_so():
    with pytest.warns(UserWarning, match=r"give the solver t=schedule.grid\(3\)"):
        ds.DualSolver(3)(ds.VE(0.02, 10.0))
    with pytest.raises(ValueError, match=r"grid from 5.0 to 20.0 does not fit"):
        ds.VE(0.02, 10.0).grid(3, start=5.0, end=20.0)
    with pytest.raises(ValueError, match="leaves the time range"):
        ds.DualSolver(2, t=[20.0, 5.0, 1.0])(ds.VE(0.02, 10.0))
