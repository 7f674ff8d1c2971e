"""Learned solvers that start as other methods."""

import pytest
import torch

import dualsolver as ds
from conftest import relative

SCHEDULES = {"vp": ds.VP.linear(), "flow": ds.Flow()}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize(
    ("learned", "fixed"),
    [
        (lambda n: ds.DualSolver(n, parametrisation="direct"), ds.DDIM),
        (lambda n: ds.DualSolver(n, parametrisation="direct"), ds.DPMpp),
        (lambda n: ds.DualSolver(n, "p2", parametrisation="direct"), ds.DPMpp),
        (lambda n: ds.DualSolver(n, "p1"), ds.DDIM),
        (ds.BNS, ds.UniPC),
        (lambda n: ds.DS(n, masked=False), ds.DPMpp),
    ],
)
def test_what_a_parametrisation_contains_is_met_exactly(learned, fixed, schedule):
    solver, target = learned(5), fixed(5)(schedule)
    residual = ds.project(solver, target, schedule)
    assert residual < 1e-9
    assert relative(ds.canonical(solver(schedule)).detach(), ds.canonical(target)) < 1e-8
    assert solver.values()["t"] == pytest.approx(target.t.tolist(), rel=1e-12)


def test_elsewhere_the_residual_is_the_distance_that_is_left():
    schedule = SCHEDULES["vp"]
    solver, target = ds.DualSolver(3), ds.DDIM(3)(schedule)
    before = ds.DualSolver(3, t=target.t)
    wanted = ds.canonical(target)

    def distance(s):
        return ((ds.canonical(s(schedule)).detach() - wanted).norm() / wanted.norm()).item()

    residual = ds.project(solver, target, schedule)
    assert residual == pytest.approx(distance(solver), rel=1e-6)
    assert 1e-4 < residual < distance(before) / 2


def test_a_learned_neighbour_starts_another_class():
    schedule = SCHEDULES["flow"]
    neighbour = ds.resample(ds.DualSolver(3, t=[0.9, 0.5, 0.3, 0.1]), 4)
    solver = ds.BNS(4)
    assert ds.project(solver, neighbour(schedule), schedule) < 1e-9
    predict, x = (
        ds.wrap(lambda x, time: x.sin(), schedule),
        torch.linspace(-1, 1, 7, dtype=torch.float64)[None],
    )
    assert (
        relative(ds.sample(predict, x, solver(schedule)), ds.sample(predict, x, neighbour(schedule))) < 1e-7
    )


def test_counts_must_agree():
    with pytest.raises(ValueError, match="the table has 4 evaluations and the solver 3"):
        ds.project(ds.BNS(3), ds.DDIM(4)(SCHEDULES["vp"]), SCHEDULES["vp"])


def test_what_cannot_be_projected_says_why_and_stays_as_it_was():
    schedule = SCHEDULES["vp"]
    solver = ds.BNS(5)
    with pytest.raises(ValueError, match="t must be at least two strictly decreasing times"):
        ds.project(solver, ds.Heun(5)(schedule), schedule)  # stages repeat a time
    assert torch.equal(solver(schedule).weights, ds.BNS(5)(schedule).weights)
    with pytest.raises(ValueError, match="a Table is needed, not DDIM: call the solver on a schedule first"):
        ds.project(solver, ds.DDIM(5), schedule)
    with pytest.raises(ValueError, match="only learned solvers can be set to other methods, not DDIM"):
        ds.project(ds.DDIM(3), ds.DDIM(3)(schedule), schedule)


def test_projection_works_without_gradients_around_it_and_from_pure_noise():
    schedule = SCHEDULES["flow"]
    with torch.inference_mode():
        assert ds.project(ds.BNS(4), ds.DPMpp(4)(schedule), schedule) < 1e-9
    for nfe in (2, 3, 4):
        grid = torch.linspace(1, 0, nfe + 1).tolist()
        solver = ds.DualSolver(nfe, "p1")
        assert ds.project(solver, ds.DDIM(nfe, grid)(schedule), schedule) < 1e-9
    everything = ds.DualSolver(3, "p1", fixed={"gamma": 1.0, "tau": 1.0, "kappa": 0.0})
    assert ds.project(everything, ds.DDIM(3)(schedule), schedule) < 1e-12
