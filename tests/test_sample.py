import subprocess
import sys
import weakref
from dataclasses import replace

import pytest
import torch

import dualsolver as ds
from conftest import GAUSSIAN, MIXTURE, drawn, relative
from dualsolver.backbones import load
from dualsolver.generate import images
from dualsolver.solvers.dual import KINDS

X = torch.linspace(-2, 2, 31, dtype=torch.float64)


def test_the_loop_is_dpmpp_written_out():
    schedule = ds.VP.linear()
    table, predict = ds.DPMpp(nfe=6)(schedule), MIXTURE.predict(schedule)
    t, (alpha, sigma) = table.t, schedule(table.t)
    lam, x, old = (alpha / sigma).log(), X, None
    for i in range(6):
        data, h = predict(x, t[i]).data, lam[i + 1] - lam[i]
        slope = 0 if i in (0, 5) else (data - old) * h / (lam[i] - lam[i - 1]) / 2
        x = sigma[i + 1] / sigma[i] * x - alpha[i + 1] * torch.expm1(-h) * (data + slope)
        old = data
    assert relative(ds.sample(predict, X, table), x) < 1e-12


@pytest.mark.parametrize("domain", ["loglinear", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_is_dual_solver_written_out(kind, domain):
    """Alg. predictor-corrector with Eqs. fo-pred, so-pred and so-corr, by L and its inverse as printed."""
    schedule, solver = ds.VP.continuous(), drawn(4, kind, seed=3, domain=domain)
    values, predict = solver.values(), MIXTURE.predict(schedule)
    t = torch.tensor(values["t"], dtype=torch.float64)
    alpha, sigma = schedule(t)

    def step(part, i):
        """A, B, and for data and noise (increment of L^-1, K, 1 / r), with the scalars of step i."""
        p = {name: torch.tensor(x[i], dtype=torch.float64) for name, x in values[part].items()}
        g, c, n = p["gamma"], i, i + 1
        if g >= 0:
            y_u, y_v = alpha * sigma**-g, sigma ** (1 - g)
            A, B = (sigma[n] / sigma[c]) ** g, sigma[n] ** g
        else:
            y_u, y_v = alpha ** (1 + g), sigma * alpha**g
            A, B = (alpha[n] / alpha[c]) ** -g, alpha[n] ** -g

        def increments(y, tau, kappa):
            u = torch.log(1 + tau * y) / tau if domain == "loglinear" else (1 - tau) * y + tau * y.log()
            return y[n] - y[c], kappa * (u[n] - u[c]) ** 2, (u[n] - u[c]) / (u[c] - u[c - 1])

        return A, B, increments(y_u, p["tau_u"], p["kappa_u"]), increments(y_v, p["tau_v"], p["kappa_v"])

    x, now, old = X, predict(X, t[0]), None
    for i in range(4):
        A, B, *sides = step("predictor", i)
        total = A * x
        for k, (L, K, inverse_r) in enumerate(sides):
            if kind in ("p1", "p1c2") or i in (0, 3):  # the last step is lowered
                total = total + B * now[k] * (L + K)
            else:
                total = total + B * (now[k] * L + (now[k] - old[k]) * inverse_r / 2 * (L + K))
        if i == 3:
            break
        new, query = predict(total, t[i + 1]), total
        if kind.endswith("c2"):
            A, B, *sides = step("corrector", i)
            query = A * x
            for k, (L, K, _) in enumerate(sides):
                query = query + B * (now[k] * L + (new[k] - now[k]) / 2 * (L + K))
        x, old, now = query, now, new
    assert relative(ds.sample(predict, X, solver(schedule)), total) < 1e-12


def test_trajectory_and_steps_show_the_same_run():
    schedule = ds.Flow()
    table, predict = drawn(5)(schedule), MIXTURE.predict(schedule)
    path, steps = ds.trajectory(predict, X, table), list(ds.steps(predict, X, table))
    assert path.shape == (6, 31)
    assert torch.equal(path[0], X)
    assert torch.equal(path[-1], ds.sample(predict, X, table))
    for i, step in enumerate(steps):
        assert step.index == i
        assert torch.equal(step.query, path[i + 1])
        assert torch.equal(step.prediction.data, predict(path[i], step.t).data)


def test_steps_can_stop_early_and_cost_nothing_more():
    calls = []

    def predict(x, t):
        calls.append(float(t))
        return GAUSSIAN.predict(ds.Flow())(x, t)

    for step in ds.steps(predict, X, ds.DDIM(nfe=50)(ds.Flow())):
        if step.index == 2:
            break
    assert len(calls) == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_noise_comes_back_as_it_came_but_is_computed_in_float32(dtype):
    seen = []

    def model(x, time):
        seen.append(x.dtype)
        return 0.5 * x

    out = ds.sample(ds.wrap(model, ds.Flow()), torch.randn(2, 3).to(dtype), ds.DPMpp(nfe=4)(ds.Flow()))
    assert out.dtype == dtype
    assert set(seen) == {torch.float64 if dtype == torch.float64 else torch.float32}


@torch.no_grad()
@pytest.mark.parametrize("name", ["ddim", "dpmpp", "unipc", "heun", "dual"])
def test_memory_is_a_window(name):
    schedule, alive = ds.Flow(), []

    def predict(x, t):
        pair = GAUSSIAN.predict(schedule)(x, t)
        alive.append(weakref.ref(pair.data))
        return pair

    table = ds.SOLVERS[name](nfe=12)(schedule)
    for step in ds.steps(predict, X, table):
        del step  # it shows the newest prediction
        assert sum(ref() is not None for ref in alive) <= table.window


def test_gradients_of_a_sample_are_those_of_finite_differences():
    schedule = ds.VP.continuous()
    solver, predict = drawn(3, seed=1), MIXTURE.predict(schedule)

    def loss():
        return ds.sample(predict, X, solver(schedule)).square().sum()

    loss().backward()
    for name, parameter in solver.named_parameters():
        for i in range(len(parameter)):
            with torch.no_grad():
                parameter[i] += 1e-6
                above = loss()
                parameter[i] -= 2e-6
                below = loss()
                parameter[i] += 1e-6
            assert parameter.grad[i].item() == pytest.approx(
                ((above - below) / 2e-6).item(), rel=1e-4, abs=1e-6
            ), name


def test_core_needs_torch_alone():
    code = (
        "import sys, torch; before = set(sys.modules); import dualsolver as ds;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(new - {'dualsolver'} - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_images_that_are_not_finite_are_refused_with_their_seeds():
    toy = load("toy")
    table = ds.DDIM(3)(toy.schedule)
    with pytest.raises(ValueError, match=r"images of seeds \[5, 6\] are not finite: the solver diverges"):
        list(images(toy, replace(table, weights=table.weights * 1e30), ["0", "1"], [5, 6], 1.0, 2))
