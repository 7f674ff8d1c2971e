import pytest
import torch

import dualsolver as ds
from conftest import MIXTURE, drawn, relative
from dualsolver.rows import Row, cheapest, fold, rows, terms
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
        ({"weights": torch.ones(2, 2, 5)}, r"weights must be 0 where a prediction is not made yet"),
        ({"t": "now"}, "Table.t must be a number or a tensor of numbers, not 'now'"),
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


def test_a_table_that_was_changed_in_place_is_seen():
    schedule, x = ds.VP.linear(), torch.randn(2, 5, dtype=torch.float64)
    network = ds.wrap(lambda x, time: x.sin(), schedule, "noise")
    table = ds.DPMpp(4)(schedule)
    before = ds.sample(network, x, table)
    table.weights[-1] *= 2
    assert relative(ds.sample(network, x, table), 2 * before) < 1e-12


@pytest.mark.parametrize("function", [ds.canonical, ds.defects, lambda x: ds.sample(torch.sin, SIGMA, x)])
def test_what_is_no_table_is_refused(function):
    with pytest.raises(ValueError, match="a Table is needed, not DDIM: call the solver on a schedule first"):
        function(ds.DDIM(3))


@pytest.mark.parametrize("name", ds.SOLVERS)
def test_rows_are_the_weights_in_fewer_terms(name):
    """Both forms of a row, on symbols: the plain weights, and the query built on the new state."""
    table = drawn(6)(ds.Flow()) if name == "dual" else ds.SOLVERS[name](nfe=6)(ds.Flow())
    with torch.no_grad():
        found = rows(table)
    symbols = torch.eye(table.weights.shape[-1], dtype=torch.float64)
    for weights, row in zip(table.weights.detach(), found, strict=True):
        state, query = ds.advance(row, symbols[0], list(symbols[1:]))
        assert torch.allclose(query, weights[1], rtol=1e-12, atol=1e-14)
        assert row is found[-1] or torch.allclose(state, weights[0], rtol=1e-12, atol=1e-14)
    assert found[-1].state is None


@pytest.mark.parametrize(
    ("solver", "most"),
    [
        (ds.DDIM(9), 2),  # x, output
        (ds.DPMpp(9), 4),  # x, output, older x and output
        (ds.UniPC(9), 9),  # 2 for the data; state: 4; query: the new state, the data, the older data
        (
            drawn(9, gamma=0.5),
            8,
        ),  # state: 5, of state and two pairs; query: the new state and the newest pair
    ],
)
@torch.no_grad()
def test_a_step_takes_few_terms(solver, most):
    schedule = ds.VP.linear()
    table = solver(schedule)
    bases = ds.wrap(torch.sin, schedule, "noise").basis(table.t[:-1])
    chosen, sides = cheapest(table, bases)
    assert terms(chosen) + 2 * table.nfe * sides.data <= most * table.nfe
    assert not sides.noise


def test_rows_keep_a_state_that_the_query_does_not_share():
    assert rows(Table(T, ALPHA, SIGMA, torch.tensor([[[0.0, 1.0, 2.0], [1.0, 0.0, 3.0]]] * 2)))[0] == Row(
        [0.0, 1.0, 2.0], [0.0, 1.0, 0.0, 3.0]
    )
