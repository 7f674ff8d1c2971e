import pytest
import torch

import dualsolver as ds
from conftest import drawn
from dualsolver.interpolate import resample, stretch


def paper(f, n):
    """Definition Linear interpolation, index by index."""
    m, out = len(f), []
    for i in range(n):
        at = i / (n - 1) * (m - 1)
        j = min(int(at), m - 2)
        out.append((1 - (at - j)) * f[j] + (at - j) * f[j + 1])
    return out


@pytest.mark.parametrize(("low", "high", "nfe"), [(3, 5, 4), (5, 9, 6), (5, 9, 7), (2, 9, 3)])
@pytest.mark.parametrize("kind", ["p1", "p1c2", "p2c2"])
def test_interpolation_is_the_appendix_on_real_values(kind, low, high, nfe):
    a, b = drawn(low, kind, seed=1), drawn(high, kind, seed=2)
    found, w = ds.interpolate(b, a, nfe).values(), (high - nfe) / (high - low)
    values = a.values(), b.values()
    for name in values[0]["predictor"]:
        both = [paper(v["predictor"][name], nfe) for v in values]
        wanted = [w * x + (1 - w) * y for x, y in zip(*both, strict=True)]
        assert found["predictor"][name] == pytest.approx(wanted, rel=1e-10)
        if kind != "p1":
            both = [paper([*v["corrector"][name], v["corrector"][name][-1]], nfe)[:-1] for v in values]
            wanted = [w * x + (1 - w) * y for x, y in zip(*both, strict=True)]
            assert found["corrector"][name] == pytest.approx(wanted, rel=1e-10)
    times = [paper(v["t"], nfe + 1) for v in values]
    assert found["t"] == pytest.approx([w * x + (1 - w) * y for x, y in zip(*times, strict=True)], rel=1e-12)


def test_at_a_learned_nfe_it_is_what_was_learned():
    a, b = drawn(3, seed=1), drawn(5, seed=2)
    for solver in (a, b):
        again = ds.interpolate(a, b, solver.nfe)
        weights = again(ds.Flow()).weights
        assert torch.allclose(weights, solver(ds.Flow()).weights, rtol=1e-10)


def test_direct_parameters_scale_with_the_step():
    """A constant A - 1 per time and P per time squared stay constant at any NFE."""

    def direct(nfe):
        dt = 0.8 / nfe
        part = {"A": [1 - 0.5 * dt] * nfe, "P_u": [0.3 * dt**2] * nfe, "P_v": [-0.2 * dt**2] * nfe}
        short = {name: x[:-1] for name, x in part.items()}
        t = torch.linspace(0.9, 0.1, nfe + 1, dtype=torch.float64).tolist()
        return ds.DualSolver.from_values("p1c2", t, part, short, parametrisation="direct")

    found, wanted = ds.interpolate(direct(3), direct(6), 4).values(), direct(4).values()
    for part in ("predictor", "corrector"):
        for name, x in wanted[part].items():
            assert found[part][name] == pytest.approx(x, rel=1e-10)


def test_fixed_values_stay_fixed():
    options = {"parametrisation": "direct", "fixed": {"A": 0.5}}
    a, b = (ds.DualSolver(n, t=torch.linspace(0.9, 0.1, n + 1).tolist(), **options) for n in (3, 5))
    assert ds.interpolate(a, b, 4).values()["predictor"]["A"] == [0.5] * 4


def test_resampling_keeps_the_ends():
    solver = drawn(5, seed=3)
    found = resample(solver, 8).values()
    for name, x in solver.values()["predictor"].items():
        assert found["predictor"][name] == pytest.approx(paper(x, 8), rel=1e-10)
    assert found["t"][0] == solver.values()["t"][0]
    assert found["t"][-1] == solver.values()["t"][-1]
    assert stretch(torch.tensor([1.0, 3.0]), 3).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ds.interpolate(ds.BNS(3), ds.BNS(5), 4), "BNS cannot be interpolated: only Dual-Solver"),
        (lambda: ds.interpolate(ds.DS(3), ds.DS(5), 4), "DS cannot be interpolated"),
        (lambda: ds.interpolate(ds.DDIM(3), drawn(5), 4), "DDIM cannot be interpolated"),
        (lambda: ds.interpolate(drawn(1), drawn(5), 3), "NFE 1 has one step and no corrector"),
        (lambda: resample(drawn(5), 1), "NFE 1 has one step"),
        (lambda: ds.interpolate(drawn(3), drawn(5), 6), "nfe = 6 does not lie between 3 and 5"),
        (lambda: ds.interpolate(drawn(4), drawn(4), 4), "does not lie between 4 and 4"),
        (lambda: ds.interpolate(drawn(3, "p1"), drawn(5), 4), "kind is 'p1' at NFE 3 but 'p1c2' at NFE 5"),
        (lambda: ds.interpolate(drawn(3), drawn(5, bound=None), 4), "bound is 2.0 at NFE 3 but None"),
    ],
)
def test_what_has_no_interpolation_says_why(build, words):
    with pytest.raises(ValueError, match=words):
        build()
