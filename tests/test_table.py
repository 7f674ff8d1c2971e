import pytest
import torch

import dualsolver as ds
from conftest import MIXTURE, drawn, relative
from dualsolver.rows import fold
from dualsolver.table import Table

T, ALPHA, SIGMA = torch.tensor([0.9, 0.5, 0.1]), torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.9, 0.5, 0.1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": torch.zeros(2, 3)}, r"weights must have shape \(M, 2, 1 \+ 2 K\)"),
        ({"weights": torch.zeros(2, 2, 4)}, "weights must have shape"),
        ({"weights": torch.zeros(3, 2, 3)}, r"t must have shape \(4,\) for 3 rows, not \(3,\)"),
        ({"sigma": torch.ones(2)}, r"sigma must have shape \(3,\)"),
        ({"t": torch.tensor([0.9, 0.95, 0.1])}, "t must never increase"),
        ({"alpha": torch.tensor([0.1, float("nan"), 0.9])}, r"alpha\[1\] is not finite: nan"),
        ({"weights": torch.full((2, 2, 3), torch.inf)}, r"weights\[0, 0, 0\] is not finite: inf"),
        ({"sigma": -SIGMA}, "sigma must not be negative"),
    ],
)
def test_a_wrong_table_cannot_be_built(change, words):
    fields = {"t": T, "alpha": ALPHA, "sigma": SIGMA, "weights": torch.zeros(2, 2, 3), **change}
    with pytest.raises(ValueError, match=words):
        Table(**fields)


def test_a_table_is_float64_and_stages_may_repeat_a_time():
    table = Table(torch.tensor([0.9, 0.5, 0.5]), ALPHA, SIGMA, torch.zeros(2, 2, 5))
    assert {x.dtype for x in (table.t, table.alpha, table.sigma, table.weights)} == {torch.float64}
    assert (table.nfe, table.window) == (2, 2)


@pytest.mark.parametrize("kind", ["noise", "data", "velocity"])
@pytest.mark.parametrize("name", ds.SOLVERS)
def test_folding_the_conversion_into_the_weights_changes_nothing(name, kind):
    schedule, x = ds.VP.linear(), torch.randn(40, dtype=torch.float64)
    table = drawn(6)(schedule) if name == "dual" else ds.SOLVERS[name](nfe=6)(schedule)
    exact = MIXTURE.predict(schedule)

    def model(x, time):
        t = (time.double()[0] + 1) / 1000
        pair, rates = exact(x, t), schedule(t)
        of_data, of_noise = schedule.velocity(*rates)
        outputs = {**pair._asdict(), "velocity": of_data * pair.data + of_noise * pair.noise}
        return outputs[kind]

    network = ds.wrap(model, schedule, kind)
    folded = ds.sample(network, x, table)
    plain = ds.sample(lambda x, t: network(x, t), x, table)  # a bare function is not folded
    assert relative(folded, plain) < 1e-10
    assert fold(table, network.basis(table.t[:-1])).window == table.window


def test_a_table_that_was_first_used_without_gradients_still_has_them():
    solver, schedule = ds.DualSolver(3), ds.VP.linear()
    network = ds.wrap(lambda x, time: x.sin(), schedule, "noise")
    table, x = solver(schedule), torch.randn(2, 5, dtype=torch.float64)
    with torch.no_grad():
        before = ds.sample(network, x, table)
    after = ds.sample(network, x, table)
    gradients = torch.autograd.grad(after.sum(), list(solver.parameters()))
    assert relative(after.detach(), before) < 1e-12
    assert sum(float(g.abs().sum()) for g in gradients) > 0


def test_a_table_serves_one_network_after_another():
    schedule, x = ds.VP.linear(), torch.randn(2, 5, dtype=torch.float64)
    table = ds.DPMpp(4)(schedule)
    for kind in ("noise", "velocity", "noise", "data"):
        network = ds.wrap(lambda x, time: x.sin(), schedule, kind)
        for _ in range(2):
            plain = ds.sample(lambda x, t, network=network: network(x, t), x, table)
            assert relative(ds.sample(network, x, table), plain) < 1e-10
