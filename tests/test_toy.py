import pytest
import torch

import dualsolver as ds
from conftest import MIXTURE, SCHEDULES

X = torch.linspace(-2, 2, 17, dtype=torch.float64)


@pytest.mark.parametrize("schedule", [SCHEDULES["vp"], SCHEDULES["flow"]], ids=["vp", "flow"])
def test_the_solution_solves_the_ode(schedule):
    """dx/dt = alpha' data + sigma' noise along the closed-form path (Table predictions, velocity form)."""
    t = torch.tensor(0.45045, dtype=torch.float64)
    path = [MIXTURE.solution(X, schedule, 0.9, t.item() + d) for d in (-1e-5, 0.0, 1e-5)]
    rates = [schedule(t.item() + d) for d in (-1e-5, 1e-5)]
    d_alpha, d_sigma = ((after - before) / 2e-5 for before, after in zip(*rates, strict=True))
    pair = MIXTURE.predict(schedule)(path[1], t)
    assert torch.allclose((path[2] - path[0]) / 2e-5, d_alpha * pair.data + d_sigma * pair.noise, atol=1e-5)


def test_predictions_are_conditional_means():
    """Against a histogram of drawn (data, x_t) pairs."""
    schedule, generator = ds.VP.linear(), torch.Generator().manual_seed(0)
    data = MIXTURE.draw([2_000_000], generator)
    alpha, sigma = schedule(0.3)
    x = alpha * data + sigma * torch.randn(data.shape, dtype=torch.float64, generator=generator)
    for centre in (-0.8, 0.1, 1.2):
        near = (x - centre).abs() < 0.02
        found = MIXTURE.predict(schedule)(torch.tensor([centre]).double(), torch.tensor(0.3)).data
        assert found.item() == pytest.approx(data[near].mean().item(), abs=0.01)


def test_noise_from_t_1_lands_on_the_data():
    schedule, generator = ds.Flow(), torch.Generator().manual_seed(0)
    noise = torch.randn(100_000, dtype=torch.float64, generator=generator)
    data = MIXTURE.solution(noise, schedule, 1.0, 0.0)
    drawn = MIXTURE.draw([100_000], generator)
    for q in (0.02, 0.1, 0.3, 0.5, 0.8, 0.98):
        assert data.quantile(q).item() == pytest.approx(drawn.quantile(q).item(), abs=0.03)
