"""Problems with known answers, shared by the tests."""

import pytest
import torch

import dualsolver as ds
from dualsolver.backbones.toy import Mixture

torch.set_num_threads(1)

GAUSSIAN = Mixture([0.5], [0.6])
MIXTURE = Mixture([-1.0, 0.6, 1.5], [0.4, 0.5, 0.3], [0.3, 0.4, 0.3])
SCHEDULES = {
    "vp": ds.VP.linear(),
    "scaled": ds.VP.scaled_linear(),
    "cosine": ds.VP.cosine(),
    "continuous": ds.VP.continuous(),
    "flow": ds.Flow(),
    "shifted flow": ds.Flow(shift=3.0),
    "ve": ds.VE(0.02, 100.0),
}


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    return SCHEDULES[request.param]


def drawn(nfe, kind="p1c2", seed=0, gamma=None, t=None, **options):
    """A Dual-Solver with random real values, gamma away from its kink at 0 unless given."""
    g = torch.Generator().manual_seed(seed)

    def uniform(low, high, n):
        return (low + (high - low) * torch.rand(n, generator=g, dtype=torch.float64)).tolist()

    def part(n):
        if options.get("parametrisation") == "direct":
            return {"A": uniform(0.2, 1.5, n), "P_u": uniform(-0.3, 0.3, n), "P_v": uniform(-0.3, 0.3, n)}
        sign = [1.0 if x > 0 else -1.0 for x in uniform(-1, 1, n)]
        gammas = (
            [s * x for s, x in zip(sign, uniform(0.2, 1.5, n), strict=True)] if gamma is None else [gamma] * n
        )
        high = 1 if options.get("domain") == "mix" else 2
        taus = {name: uniform(0.1, high, n) for name in ("tau_u", "tau_v")}
        return {"gamma": gammas, **taus, "kappa_u": uniform(-1, 1, n), "kappa_v": uniform(-1, 1, n)}

    t = torch.linspace(0.9, 0.1, nfe + 1, dtype=torch.float64).tolist() if t is None else t
    corrector = part(nfe - 1) if kind.endswith("c2") else None
    return ds.DualSolver.from_values(kind=kind, t=t, predictor=part(nfe), corrector=corrector, **options)


def relative(found, wanted):
    """The largest difference in units of the largest value."""
    return ((found - wanted).abs().max() / wanted.abs().max()).item()
