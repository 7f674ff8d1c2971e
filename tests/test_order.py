"""Convergence order, measured as a slope, for every registered solver in every variant."""

import math

import pytest
import torch

import dualsolver as ds
from conftest import GAUSSIAN, MIXTURE
from dualsolver.solvers.dual import KINDS

SCHEDULES = {"vp": ds.VP.linear(), "flow": ds.Flow()}
X = torch.linspace(-2, 2, 25, dtype=torch.float64)

VARIANTS = {
    "ddim": [{}],
    "euler": [{"prediction": p} for p in ("noise", "velocity", "data")],
    "dpmpp": [
        {"order": o, "lower_order_final": low} for o, low in ((1, True), (2, True), (2, False), (3, True))
    ],
    "unipc": [
        {"order": o, "variant": v, "prediction": p, "lower_order_final": low}
        for o in (1, 2)
        for v in ("bh1", "bh2")
        for p in ("data", "noise")
        for low in (True, False)
    ],
    "heun": [{"prediction": p} for p in ("noise", "velocity", "data")],
    "bns": [{}, {"tied": True}],
    "ds": [{"form": "data"}, {"form": "velocity"}],
    "dual": [{"kind": k} for k in KINDS],
}


def uniform(steps, start=0.9, end=0.1):
    return torch.linspace(start, end, steps + 1, dtype=torch.float64)


def slope(tables, problem, schedule):
    """The order between the last two tables, one of twice the evaluations of the other."""
    errors = []
    for table in tables:
        exact = problem.solution(X, schedule, table.t[0].item(), table.t[-1].item())
        with torch.no_grad():
            errors.append(
                (ds.sample(problem.predict(schedule), X, table) - exact).square().mean().sqrt().item()
            )
    return math.log2(errors[-2] / errors[-1])


def build(name, nfe, options):
    if name in ("bns", "ds", "dual"):
        return ds.SOLVERS[name](nfe=nfe, t=uniform(nfe), **options)
    return ds.SOLVERS[name](nfe=nfe, grid=uniform(nfe // 2 if name == "heun" else nfe), **options)


def test_every_solver_is_measured():
    assert set(VARIANTS) == set(ds.SOLVERS)


@pytest.mark.parametrize("problem", [GAUSSIAN, MIXTURE], ids=["gaussian", "mixture"])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(
    ("name", "options"), [(n, o) for n, options in VARIANTS.items() for o in options], ids=lambda x: str(x)
)
def test_order(name, options, schedule, problem):
    sizes = (80, 160) if name in ("bns", "ds") else (320, 640)  # tables of BNS grow with the square
    solvers = [build(name, nfe, options) for nfe in sizes]
    found = slope([s(schedule) for s in solvers], problem, schedule)
    assert found == pytest.approx(solvers[0].convergence, abs=0.15)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("variant", ["bh1", "bh2"])
def test_unipc_of_order_3_reaches_at_least_3(variant, schedule):
    tables = [ds.UniPC(n, uniform(n), 3, variant, lower_order_final=False)(schedule) for n in (40, 80)]
    assert slope(tables, MIXTURE, schedule) > 2.85


def accurate_start(steps):
    """A uniform grid behind two steps so small that their lower orders do not show."""
    h = 0.8 / steps
    return torch.cat(
        [torch.tensor([0.9, 0.9 - h**2, 0.9 - 2 * h**2], dtype=torch.float64), uniform(steps)[1:]]
    )


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_3m_has_order_3_from_an_accurate_start_and_without_a_lowered_end(schedule):
    def found(low, published):
        solvers = [ds.DPMpp(n + 2, accurate_start(n), 3, low, published) for n in (160, 320)]
        return slope([s(schedule) for s in solvers], MIXTURE, schedule)

    assert found(low=False, published=False) == pytest.approx(3, abs=0.15)
    assert found(low=True, published=False) == pytest.approx(2, abs=0.15)
    assert found(low=False, published=True) == pytest.approx(2, abs=0.15)  # the formula in use has order 2


def smooth(kind, steps, seed):
    """gamma, tau, kappa drawn once as constants (even seeds) or as one smooth function of t (odd seeds)."""
    g = torch.Generator().manual_seed(seed)
    t = uniform(steps)
    wave = torch.sin(torch.arange(1, 6)[:, None] * (3 * t[:-1] + torch.rand(5, 1, generator=g)))
    level = 2 * torch.rand(5, 1, generator=g) - 1
    curve = level + 0.4 * wave * (seed % 2)
    real = {
        "gamma": 1.2 * curve[0],
        "tau_u": 1 + 0.5 * curve[1],
        "tau_v": 1 + 0.5 * curve[2],
        "kappa_u": curve[3],
        "kappa_v": curve[4],
    }
    predictor = {name: x.tolist() for name, x in real.items()}
    corrector = {name: x[:-1].tolist() for name, x in real.items()} if kind.endswith("c2") else None
    return ds.DualSolver.from_values(kind, t.tolist(), predictor, corrector)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_dual_keeps_its_order_whatever_its_parameters(kind, seed, schedule):
    solvers = [smooth(kind, steps, seed) for steps in (160, 320)]
    found = slope([s(schedule) for s in solvers], MIXTURE, schedule)
    assert found == pytest.approx(solvers[0].convergence, abs=0.15)
