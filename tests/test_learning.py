"""Learning on the toy backbone, whose classifier is exact: any solver by any objective, to the same bits."""

import json
from functools import partial

import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

import dualsolver as ds
from dualsolver.backbones import load
from dualsolver.draws import draw
from dualsolver.fit import Recipe, State, Workers, cost, fit, held_out, put
from dualsolver.learn import Plan, learn, read_state
from dualsolver.objectives import (
    Defects,
    FeatureRegression,
    HardLabel,
    Mixed,
    Outcome,
    SampleRegression,
    SoftLabel,
    TrajectoryRegression,
)
from dualsolver.table import Table
from dualsolver.task import Task
from dualsolver.teacher import Teacher, _opened

TOY = load("toy")
LEARNED = {
    **{kind: partial(ds.DualSolver, kind=kind) for kind in ("p1", "p1c2", "p2", "p2c2")},
    "direct": partial(ds.DualSolver, parametrisation="direct"),
    "mix": partial(ds.DualSolver, domain="mix"),
    "bns": ds.BNS,
    "bns tied": partial(ds.BNS, tied=True),
    "ds": ds.DS,
    "ds velocity": partial(ds.DS, form="velocity"),
}


def classifier(images):
    """The class probabilities of the toy's data, exact but for a temperature: its classes are far apart."""
    data = (images[:, None] - 0.5) * 4
    means, deviations = torch.tensor([-1.0, 0.6, 1.5])[:, None], torch.tensor([0.4, 0.5, 0.3])[:, None]
    return -(((data - means) / deviations) ** 2 / 2 + deviations.log()).sum(2) / 10


def absolute(images, wanted):
    return (images - wanted).abs().mean(1)


OBJECTIVES = {
    "hard label": HardLabel(classifier),
    "soft label": SoftLabel(classifier),
    "sample": SampleRegression(),
    "trajectory": TrajectoryRegression(),
    "feature": FeatureRegression(absolute),
    "mixed": Mixed([(1.0, FeatureRegression(absolute)), (0.1, HardLabel(classifier)), (1.0, Defects())]),
}


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    table, folder = ds.DDIM(100)(TOY.schedule), tmp_path_factory.mktemp("teacher")
    made = [Teacher(TOY, table, TOY.classes, folder, 1.5, seed, count) for seed, count in ((1, 100), (2, 50))]
    assert [list(teacher.make()) for teacher in made] == [[50, 100], [50]]
    return made


@pytest.fixture
def tasks(teachers):
    """Make the learning and the held-out task for an objective."""

    def make(objective, **options):
        if objective.teacher:
            return [
                Task(TOY, objective, TOY.classes, 1.5, teacher=teacher, **options) for teacher in teachers
            ]
        return [Task(TOY, objective, TOY.classes, 1.5, seed=seed, **options) for seed in (1, 2)]

    return make


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_solver_learns_by_every_objective(name, objective, tasks):
    solver, state = LEARNED[name](3), State()
    recipe = Recipe(steps=6, batch=200, rate=1e-2, held_out=200, every=3)
    task, held = tasks(OBJECTIVES[objective])
    before = held_out(solver, held, recipe, Workers())
    records = list(fit(solver, task, held, recipe, state))
    assert state.best < before - 1e-4 * abs(before)
    assert [r.step for r in records if r.held_out is not None] == [3, 6]
    assert records[-1].evaluations == 6 * 200 * (3 + 2)


def test_the_gradient_is_that_of_finite_differences(tasks):
    solver, (task, _) = ds.DualSolver(3, bound=None), tasks(HardLabel(classifier))
    generator = torch.Generator().manual_seed(0)
    raw = [
        0.3 * float(torch.randn((), generator=generator)) for p in solver.parameters() for _ in p.flatten()
    ]
    put(solver, raw)
    task.loss(solver, range(6), 6, learn=True)
    found = torch.cat([p.grad.flatten() for p in solver.parameters()])
    for i in range(len(raw)):
        ends = []
        for h in (1e-2, -1e-2):
            put(solver, [x + h * (i == j) for j, x in enumerate(raw)])
            ends.append(task.loss(solver, range(6), 6, learn=False))
        assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(float(found[i]), rel=2e-2, abs=2e-3)


@pytest.mark.parametrize("objective", ["hard label", "trajectory"])
def test_micro_batches_and_recomputation_leave_the_gradient(objective, tasks):
    def gradient(**options):
        solver = ds.DualSolver(4)
        tasks(OBJECTIVES[objective], **options)[0].loss(solver, range(10), 10, learn=True)
        return torch.cat([p.grad.flatten() for p in solver.parameters()])

    whole = gradient()
    for options in ({"micro": 3}, {"micro": 1}, {"recompute": True}, {"micro": 4, "recompute": True}):
        assert torch.allclose(gradient(**options), whole, rtol=1e-4, atol=1e-6)


def test_the_first_evaluation_keeps_no_graph_and_the_cost_is_what_is_counted(tasks, monkeypatch):
    calls = []
    model = type(TOY).model

    def counted(self, x, time, condition):
        calls.append(x.requires_grad or time.requires_grad)
        return model(self, x, time, condition)

    monkeypatch.setattr(type(TOY), "model", counted)
    solver = ds.DualSolver(4)
    for recompute, wanted in ((False, 4), (True, 4 + 3)):
        calls.clear()
        tasks(HardLabel(classifier), recompute=recompute)[0].loss(solver, range(5), 5, learn=True)
        assert len(calls) == wanted
        assert len(calls) + 3 == cost(4, recompute)
        assert calls[0] is False


def test_a_log_loss_is_the_logarithm_of_the_mean_in_any_split(tasks):
    objective = SampleRegression()
    task, held = tasks(objective)
    solver = ds.DualSolver(3)
    record = next(iter(fit(solver, task, held, Recipe(batch=10), State())))
    made, taught = task.outcomes(ds.DualSolver(3), range(10))
    mean = (made.states[-1] - taught.states[-1]).square().mean()
    assert record.loss == pytest.approx(float(mean.detach().log()), rel=1e-5)


def test_a_teacher_is_aligned_in_time():
    """On the straight path x_t = t x_1 any student that walks it has no trajectory loss, at any times."""
    x, alpha = torch.randn(5, 3), torch.ones(8)
    t = torch.linspace(1, 0, 8, dtype=torch.float64)
    taught = Outcome(Table(t, alpha, alpha, torch.zeros(7, 2, 3)), t.float()[:, None, None] * x, None, None)
    times = torch.tensor([1.0, 0.83, 0.41, 0.0], dtype=torch.float64, requires_grad=True)
    table = Table(times, alpha[:4], alpha[:4], torch.zeros(3, 2, 3))
    made = Outcome(table, times.float()[:, None, None] * x, None, None)
    assert TrajectoryRegression()(made, taught).max() < 1e-9
    late = Outcome(table, made.states + torch.tensor([0, 0, 0.5, 0])[:, None, None], None, None)
    assert TrajectoryRegression()(late, taught).tolist() == pytest.approx([0.5**2 / 4] * 5)


def test_a_teacher_is_made_once_and_known_by_all_that_defines_it(teachers, tmp_path):
    teacher, _ = teachers
    before = {path: path.stat().st_mtime_ns for path in (teacher.folder / teacher.key).iterdir()}
    list(teacher.make())
    assert before == {path: path.stat().st_mtime_ns for path in (teacher.folder / teacher.key).iterdir()}
    others = [
        Teacher(TOY, teacher.table, TOY.classes, tmp_path, guidance=2.0, count=100),
        Teacher(TOY, ds.DDIM(99)(TOY.schedule), TOY.classes, tmp_path, 1.5, count=100),
        Teacher(TOY, teacher.table, TOY.classes, tmp_path, 1.5, seed=3, count=100),
        Teacher(TOY, teacher.table, TOY.classes[:2], tmp_path, 1.5, count=100),
        Teacher(TOY, teacher.table, TOY.classes, tmp_path, 1.5, count=100, path=False),
    ]
    assert len({teacher.key, *(other.key for other in others)}) == 6
    noise, items = draw(TOY.shape, TOY.classes, teacher.seed, [63])
    predict = TOY.predict(TOY.conditions(items), 1.5)
    assert torch.allclose(teacher.take([63]).states[-1], ds.sample(predict, noise, teacher.table), atol=1e-6)


def test_a_damaged_file_of_a_teacher_is_named_and_made_again(tmp_path):
    teacher = Teacher(TOY, ds.DDIM(2)(TOY.schedule), TOY.classes, tmp_path, count=10)
    list(teacher.make())
    [path] = tmp_path.glob("*/*")
    whole, wanted = path.read_bytes(), teacher.take([3]).states
    states = load_tensors(whole)["states"]
    damages = [
        whole[:100],
        whole[:-5],
        b"",
        save_tensors({"other": states}),
        save_tensors({"states": states[1:]}),
    ]
    damages += [save_tensors({"states": states.double()}), save_tensors({"states": states * torch.nan})]
    for damage in damages:
        path.write_bytes(damage)
        _opened.cache_clear()
        with pytest.raises(ValueError, match=r"000000.safetensors is damaged \(.*\): delete it") as found:
            teacher.take([3])
        assert "\n" not in str(found.value)
    path.unlink()
    list(teacher.make())
    _opened.cache_clear()
    assert torch.equal(teacher.take([3]).states, wanted)


def test_more_workers_find_the_same_to_rounding(tasks):
    """Two workers, run in turns: each adds its half to what the other found."""
    task, held = tasks(HardLabel(classifier))
    alone, recipe = State(), Recipe(steps=1, batch=10, held_out=10)
    record = next(fit(ds.DualSolver(3), task, held, recipe, alone))
    sums = []
    for rank in range(2):
        halves = []
        workers = Workers(rank, 2, lambda x, halves=halves: halves.append(x) or x)
        next(fit(ds.DualSolver(3), task, held, recipe, State(), workers))
        sums.append(halves[1])
    assert float(sums[0][0] + sums[1][0]) == pytest.approx(record.loss, rel=1e-6)
    assert float((sums[0] + sums[1])[1:].norm()) == pytest.approx(record.gradient, rel=1e-5)


def plan(**changes):
    recipe = Recipe(steps=40, batch=4, rate=2e-2, held_out=20, every=10)
    options = {"nfes": (3, 4), "method": "dual", "options": {}, "recipe": recipe, "patience": None}
    return Plan(**{**options, "facts": {"backbone": "toy"}, **changes})


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("stops", [[7, 3, 55], [39, 1], [41]])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(stops, tasks, tmp_path):
    both = tasks(HardLabel(classifier))
    list(learn(plan(), *both, tmp_path / "whole"))
    for stop in stops:
        run = learn(plan(), *both, tmp_path / "parts")
        for _ in range(stop):
            next(run)
        run.close()
    assert len(list(learn(plan(), *both, tmp_path / "parts"))) >= 80 - sum(stops)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    solver, schedule, info = ds.load(tmp_path / "whole", nfe=4)
    assert (solver.nfe, repr(schedule), info["backbone"]) == (4, repr(TOY.schedule), "toy")


def test_the_best_start_is_chosen_by_the_held_out_loss(tasks, tmp_path):
    task, held = tasks(TrajectoryRegression())
    recipe = Recipe(steps=1, held_out=20, start="best", rate=0.0, last_rate=0.0, batch=1)
    list(learn(plan(recipe=recipe), task, held, tmp_path))
    for nfe in (3, 4):
        solver, _, info = ds.load(tmp_path, nfe=nfe)
        chosen = info["runs"][str(nfe)]
        assert chosen["start"] != "own"
        assert chosen["held_out"] < held_out(ds.DualSolver(nfe), held, recipe, Workers())
        assert chosen["held_out"] == pytest.approx(held_out(solver, held, recipe, Workers()), rel=1e-4)


def test_a_second_process_in_the_same_folder_is_told_so(tasks, tmp_path):
    both = tasks(HardLabel(classifier))
    first = learn(plan(), *both, tmp_path / "run")
    next(first)
    with pytest.raises(ValueError, match="run: another process is at work there"):
        next(learn(plan(), *both, tmp_path / "run"))
    next(first)
    first.close()
    assert len(list(learn(plan(), *both, tmp_path / "run"))) >= 78


def test_the_choice_of_a_start_is_not_made_twice(tasks, tmp_path):
    """The first part of 400 steps ends after 10, but the start alone can cost more than that."""
    recipe = Recipe(steps=400, batch=2, held_out=20, start="best", every=50)
    run = learn(plan(nfes=(3,), recipe=recipe), *tasks(HardLabel(classifier)), tmp_path)
    next(run)
    run.close()
    assert read_state(tmp_path / "nfe-3" / "state.json").step == 1


DAMAGES = {
    "raw": [[1, 2], "x", None, 5, {}, [None], [float("nan")]],
    "mean": [[], [1.0], None, ["a"]],
    "best_raw": [[1.0], "", 3, [True]],
    "moments": [[[1.0]], None, [[], []], 7, "ab"],
    "step": [-1, 1.5, True, None, "2", [2]],
    "evaluations": [None, "many"],
    "best_step": [-3, {}],
    "best": [None, "low", [], float("nan")],
    "start": [None, 3],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_state_is_named_with_the_field_and_the_remedy(name, tasks, tmp_path):
    run = learn(plan(nfes=(3,)), *tasks(HardLabel(classifier)), tmp_path)
    next(run)
    run.close()
    path = tmp_path / "nfe-3" / "state.json"
    whole = json.loads(path.read_text())
    changed = [{**whole, name: value} for value in DAMAGES[name]]
    missing, more = {k: v for k, v in whole.items() if k != name}, {**whole, f"{name}s": 1}
    for content in (*changed, missing, more):
        path.write_text(json.dumps(content))
        with pytest.raises(
            ValueError, match=rf"state.json is damaged \(.*{name}.*\): delete .*nfe-3"
        ) as found:
            read_state(path)
        assert "\n" not in str(found.value)
    path.write_text(json.dumps(whole)[:-9])
    with pytest.raises(ValueError, match=r"state\.json is damaged"):
        read_state(path)


def test_another_plan_is_refused_in_the_same_folder(tasks, tmp_path):
    both = tasks(HardLabel(classifier))
    next(learn(plan(), *both, tmp_path))
    with pytest.raises(ValueError, match=r"holds a run with nfes = \[3, 4\], not \[3, 5\]"):
        next(learn(plan(nfes=(3, 5)), *both, tmp_path))
    path = tmp_path / "plan.json"
    path.write_text(path.read_text().replace('"method"', '"surprise": 1, "method"'))
    with pytest.raises(ValueError, match="holds a run with surprise = 1, not None"):
        next(learn(plan(), *both, tmp_path))
    path.write_text("{")
    with pytest.raises(ValueError, match=r"plan.json is damaged \(.*\): take another folder"):
        next(learn(plan(), *both, tmp_path))


def test_patience_stops_a_run_that_no_longer_gains(tasks, tmp_path):
    recipe = Recipe(steps=1000, batch=2, rate=0.0, last_rate=0.0, held_out=10, every=5)
    records = list(learn(plan(nfes=(3,), recipe=recipe, patience=2), *tasks(HardLabel(classifier)), tmp_path))
    assert len(records) == 10


def test_what_is_not_finite_stops_with_the_step_and_keeps_the_best(tasks):
    def broken(images):
        return classifier(images) * (1.0 if images.requires_grad is False else float("nan"))

    state = State()
    with pytest.raises(FloatingPointError, match=r"step 0 \(seed 1\) has loss nan"):
        list(fit(ds.DualSolver(3), *tasks(HardLabel(broken)), Recipe(steps=3), state))
    assert state.best_raw


def test_an_objective_without_what_it_needs_is_refused():
    with pytest.raises(ValueError, match="SampleRegression compares with a teacher"):
        Task(TOY, SampleRegression(), TOY.classes)
