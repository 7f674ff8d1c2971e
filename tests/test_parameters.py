"""The artifact: what is written comes back, and nothing broken is read."""

import copy
import json
import logging
import os
import pickle

import pytest
import torch

import dualsolver as ds
from conftest import SCHEDULES, drawn, relative

SCHEDULE = ds.VP.linear()
X = torch.linspace(-1, 1, 5, dtype=torch.float64)


@pytest.fixture
def folder(tmp_path):
    ds.save(
        [drawn(3), drawn(5)], tmp_path, schedule=SCHEDULE, prediction="noise", backbone="toy", guidance=1.5
    )
    return tmp_path


def edit(folder, change):
    """Change the parsed artifact in place and write it back."""
    path = folder / "scheduler_config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("name", ds.SOLVERS)
def test_every_solver_comes_back(name, tmp_path):
    solver = drawn(4) if name == "dual" else ds.SOLVERS[name](nfe=4)
    note = "weights [1,   2] and [ 3 ]"
    ds.save(solver, tmp_path, schedule=SCHEDULE, backbone="toy", metrics={"frechet": 1.25}, note=note)
    again, schedule, info = ds.load(tmp_path)
    assert type(again) is type(solver)
    assert relative(again(schedule).weights, solver(SCHEDULE).weights) < 1e-12
    assert (info["backbone"], info["metrics"], info["version"]) == ("toy", {"frechet": 1.25}, ds.__version__)
    assert info["note"] == note
    assert schedule == SCHEDULE


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_every_schedule_comes_back(schedule, tmp_path):
    ds.save(ds.DDIM(3), tmp_path, schedule=schedule)
    assert ds.load(tmp_path)[1].config() == schedule.config()


def test_the_file_is_readable_and_says_what_it_is(folder):
    text = (folder / "scheduler_config.json").read_text()
    content = json.loads(text)
    assert list(content["solvers"]) == ["3", "5"]
    assert content["solvers"]["3"]["predictor"].keys() == {"gamma", "tau_u", "tau_v", "kappa_u", "kappa_v"}
    assert content["provenance"]["guidance"] == 1.5
    assert max(map(len, text.splitlines())) < 140
    assert len(text.splitlines()) < 70
    assert os.listdir(folder) == ["scheduler_config.json"]


def test_one_file_holds_several_nfes(folder):
    solver, schedule, info = ds.load(folder, nfe=5)
    assert relative(solver(schedule).weights, drawn(5)(SCHEDULE).weights) < 1e-12
    assert info["prediction"] == "noise"
    with pytest.raises(ValueError, match="holds NFE 3, 5: say which one"):
        ds.load(folder)


def test_between_two_nfes_it_interpolates_and_says_so(folder, caplog):
    with caplog.at_level(logging.WARNING):
        solver, schedule, _ = ds.load(folder, nfe=4)
    assert "NFE 4 was not learned: interpolated between NFE 3 and 5" in caplog.text
    wanted = ds.interpolate(drawn(3), drawn(5), nfe=4)
    assert relative(solver(schedule).weights, wanted(SCHEDULE).weights) < 1e-10


@pytest.mark.parametrize("nfe", [1, 2, 6, 50])
def test_elsewhere_it_names_what_is_there_unless_a_fallback_is_named(folder, nfe, caplog):
    with pytest.raises(ValueError, match=f"NFE {nfe} was not learned: .* holds NFE 3, 5"):
        ds.load(folder, nfe=nfe)
    solver, _, _ = ds.load(folder, nfe=nfe, fallback="dpmpp")
    assert isinstance(solver, ds.DPMpp)
    assert solver.nfe == nfe
    assert "using dpmpp" in caplog.text
    for name in ("best", "dual"):
        with pytest.raises(ValueError, match="fallback must be one of 'ddim'"):
            ds.load(folder, nfe=nfe, fallback=name)


def test_saving_again_changes_nothing_but_rounding(folder, tmp_path):
    solver, schedule, info = ds.load(folder, nfe=5)
    del info["prediction"], info["version"]
    ds.save(solver, tmp_path / "again", schedule=schedule, prediction="noise", **info)
    again = ds.load(tmp_path / "again")[0]
    for part in ("predictor", "corrector"):
        for name, x in solver.values()[part].items():
            assert again.values()[part][name] == pytest.approx(x, rel=1e-13, abs=1e-15)


CHANGES = {
    "another version": (
        lambda c: c.update(format=2),
        "format is 2, but this version of dual-solver reads format 1",
    ),
    "version as a boolean": (lambda c: c.update(format=True), "format is True"),
    "another class": (lambda c: c.update(_class_name="DDIMScheduler"), "_class_name is 'DDIMScheduler'"),
    "no class": (lambda c: c.pop("_class_name"), "_class_name is None, but this is the file of a DualSolver"),
    "no version": (lambda c: c.pop("format"), "format is None"),
    "missing key": (lambda c: c.pop("schedule"), "the file lacks schedule"),
    "extra key": (lambda c: c.update(speed=1), "the file has unknown speed: remove it"),
    "unknown solver": (lambda c: c.update(solver="magic"), "solver: the name must be one of 'ddim'"),
    "unknown prediction": (
        lambda c: c.update(prediction="score"),
        "prediction: it must be one of None, 'noise'",
    ),
    "unknown schedule": (
        lambda c: c["schedule"].update(type="vp"),
        "schedule: type must be one of 'vp-betas'",
    ),
    "schedule lacks": (lambda c: c["schedule"].pop("steps"), "schedule: .*lacks steps"),
    "a schedule that fills the memory": (
        lambda c: c["schedule"].update(steps=10**12),
        "schedule: steps must be a whole number up to 1000000, not 1000000000000",
    ),
    "no solvers": (lambda c: c.update(solvers={}), "solvers must be a non-empty dict"),
    "wrong nfe": (
        lambda c: c["solvers"].update({"4": c["solvers"].pop("3")}),
        "solvers.4 holds values for NFE 3",
    ),
    "not an nfe": (
        lambda c: c["solvers"].update({"x": c["solvers"].pop("3")}),
        "solvers.x holds values for NFE 3",
    ),
    "not an object": (lambda c: c["solvers"].update({"3": [1]}), "solvers.3 must be an object"),
    "unknown kind": (lambda c: c["solvers"]["3"].update(kind="p3"), "solvers.3: kind must be one of 'p1'"),
    "missing value": (lambda c: c["solvers"]["3"].pop("bound"), "solvers.3 lacks bound"),
    "missing list": (lambda c: c["solvers"]["3"].pop("t"), "solvers.3: .*'t'"),
    "missing name": (
        lambda c: c["solvers"]["3"]["predictor"].pop("gamma"),
        "solvers.3: predictor must hold gamma",
    ),
    "extra value": (lambda c: c["solvers"]["3"].update(theta=1), "solvers.3: .*theta"),
    "extra name": (
        lambda c: c["solvers"]["3"]["corrector"].update(theta=[1]),
        "solvers.3: corrector must hold gamma",
    ),
    "short list": (
        lambda c: c["solvers"]["3"]["corrector"]["tau_u"].pop(),
        "corrector.tau_u must hold 2 numbers, not 1",
    ),
    "a word": (
        lambda c: c["solvers"]["3"]["corrector"].update(tau_u=["a", 1]),
        "corrector.tau_u\\[0\\] must be a finite number, not 'a'",
    ),
    "negative tau": (
        lambda c: c["solvers"]["3"]["corrector"].update(tau_u=[-1.0, 1]),
        "corrector.tau_u = .* must be positive",
    ),
    "beyond bound": (
        lambda c: c["solvers"]["3"]["predictor"].update(gamma=[0, 0, 2.5]),
        "gamma = .* goes beyond bound=2.0",
    ),
    "times increase": (lambda c: c["solvers"]["3"].update(t=[0.1, 0.2, 0.3, 0.4]), "strictly decreasing"),
    "contradiction": (
        lambda c: c["solvers"]["3"].update(fixed={"gamma": 0.5}),
        "contradicts fixed or shared",
    ),
    "fixed what": (
        lambda c: c["solvers"]["3"].update(fixed={"theta": 0.5}),
        "a name in fixed must be one of 'gamma'",
    ),
    "digits as text": (
        lambda c: c["solvers"]["3"]["predictor"].update(gamma="010"),
        "predictor.gamma must be a list",
    ),
    "a boolean": (
        lambda c: c["solvers"]["3"]["predictor"].update(gamma=[True, 0, 0]),
        "must be a finite number, not True",
    ),
    "a huge number": (
        lambda c: c["solvers"]["3"]["predictor"].update(gamma=[10**400, 0, 0]),
        "must be a finite number",
    ),
    "fixed as list": (lambda c: c["solvers"]["3"].update(fixed=[1]), "solvers.3"),
    "bound as text": (lambda c: c["solvers"]["3"].update(bound="2"), "solvers.3"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_refused_with_file_field_and_remedy(name, folder):
    change, words = CHANGES[name]
    edit(folder, change)
    with pytest.raises(ValueError, match=words) as caught:
        ds.load(folder, nfe=5)
    assert "scheduler_config.json: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(folder, value):
    path = folder / "scheduler_config.json"
    path.write_text(path.read_text().replace('"bound": 2.0', f'"bound": {value}'))
    with pytest.raises(ValueError, match="every number must be finite"):
        ds.load(folder, nfe=3)


def test_a_file_cut_anywhere_is_refused(folder):
    path = folder / "scheduler_config.json"
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a whole artifact"):
            ds.load(folder, nfe=3)


def test_other_broken_files(folder, tmp_path):
    path = folder / "scheduler_config.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 1, "format": 1'))
    with pytest.raises(ValueError, match="a key is there twice"):
        ds.load(folder, nfe=3)
    path.write_text("[" * 200_000)
    with pytest.raises(ValueError, match="not a whole artifact"):
        ds.load(folder)
    path.write_text("[1, 2]")
    with pytest.raises(ValueError, match="format is 'list'"):
        ds.load(folder)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"scheduler_config\.json"):
        ds.load(folder)
    with pytest.raises(FileNotFoundError, match="is it a folder made by save"):
        ds.load(tmp_path / "nowhere")


def test_what_cannot_be_saved_is_refused_and_leaves_the_old_file(folder):
    before = (folder / "scheduler_config.json").read_bytes()
    for solvers, options, words in (
        ([drawn(3), ds.BNS(4)], {}, "one registered class"),
        ([drawn(3), drawn(3)], {}, "one solver an NFE"),
        (drawn(3), {"loss": [1.0, float("nan")]}, r"provenance.loss\[1\] is not finite"),
        (drawn(3), {"model": object()}, "cannot be written as JSON"),
        (drawn(3), {"prediction": "score"}, "prediction must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            ds.save(solvers, folder, **options)
    assert (folder / "scheduler_config.json").read_bytes() == before
    assert os.listdir(folder) == ["scheduler_config.json"]


def test_a_crash_while_writing_leaves_the_old_file(folder, monkeypatch):
    before = (folder / "scheduler_config.json").read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        ds.save(drawn(3), folder)
    assert (folder / "scheduler_config.json").read_bytes() == before
    assert os.listdir(folder) == ["scheduler_config.json"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ds.DualSolver(0), "nfe must be a whole number >= 1, not 0"),
        (lambda: ds.DualSolver(2.5), "nfe must be a whole number"),
        (lambda: ds.DDIM(-1)(SCHEDULE), "nfe must be a whole number"),
        (lambda: ds.DualSolver(3, kind="p3"), "kind must be one of 'p1', 'p1c2', 'p2', 'p2c2', not 'p3'"),
        (lambda: ds.DualSolver(3, domain="log"), "domain must be one of"),
        (lambda: ds.DualSolver(3, parametrisation="raw"), "parametrisation must be one of"),
        (lambda: ds.DualSolver(3, bound=0.0), "bound must be a finite number greater than 0"),
        (lambda: ds.DualSolver(3, parametrisation="direct", shared=True), "do not go with 'direct'"),
        (lambda: ds.DualSolver(3, t=[0.9, 0.1]), "t must hold 4 numbers, not 2"),
        (lambda: ds.DualSolver(2, t=[0.9, 0.95, 0.1]), "strictly decreasing"),
        (lambda: ds.DualSolver(2, t=[0.9, float("nan"), 0.1]), r"t\[1\] must be a finite number, not nan"),
        (
            lambda: ds.DPMpp(3, [0.9, 0.5, 0.6, 0.1])(SCHEDULE),
            "grid must be at least two strictly decreasing",
        ),
        (lambda: ds.DPMpp(3, order=4)(SCHEDULE), "order must be one of 1, 2, 3, not 4"),
        (lambda: ds.UniPC(3, variant="bh3")(SCHEDULE), "variant must be one of 'bh1', 'bh2'"),
        (lambda: ds.Euler(3, prediction="score")(SCHEDULE), "prediction must be one of"),
        (lambda: ds.DS(3, form="vp"), "form must be one of"),
        (
            lambda: ds.DS.from_values("data", [0.9, 0.5, 0.1], [[], [1.0, 2.0]]),
            r"m\[1\] must hold 1 numbers, not 2",
        ),
        (
            lambda: ds.DS.from_values("data", [4, 3, 2, 1, 0.5], [[], [1], [1, 1], [1, 1, 1]], True),
            "masked=True wants 0",
        ),
        (lambda: ds.BNS.from_values([0.9, 0.5, 0.1], [1.0], [[1], [1, 1]]), "a must hold 2 numbers, not 1"),
        (
            lambda: ds.DualSolver.from_values("p1", [0.9, 0.1], [1]),
            r"predictor must hold gamma, .*, not \[1\]",
        ),
        (lambda: ds.DualSolver(3, t=0.5), "t must be a list of numbers, not 0.5"),
        (lambda: ds.DualSolver(3, fixed=["gamma"]), "fixed must map names to values"),
        (lambda: ds.DualSolver(3, fixed={"tau": -0.5}), "fixed tau must be a finite number greater than 0"),
        (lambda: ds.DualSolver(3, domain="mix", fixed={"tau": 5}), r"fixed tau must lie in \[0, 1\]"),
        (lambda: ds.DualSolver(3, shared="false"), "shared must be one of True, False, not 'false'"),
        (lambda: ds.DDIM(3, grid="ramp"), "grid must be one of 'uniform'"),
        (lambda: ds.DDIM(3, grid=[0.9, 0.1]), "grid must hold 4 numbers, not 2"),
        (
            lambda: ds.sample(lambda x, t: (x, x), torch.ones(1), ds.DDIM(3)),
            "call the solver on a schedule first",
        ),
        (lambda: ds.save(drawn(3), "x", schedule="vp"), "schedule must be a Schedule or None"),
        (lambda: drawn(3, fixed={"gamma": 9.0}), "contradicts fixed"),
    ],
)
def test_bad_arguments_are_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("name", ["bns", "ds", "dual"])
def test_learned_solvers_are_modules_like_any_other(name):
    solver = ds.SOLVERS[name](nfe=4)
    with torch.no_grad():
        for parameter in solver.parameters():
            parameter += 0.1
    wanted = solver(SCHEDULE).weights
    other = ds.SOLVERS[name](nfe=4)
    other.load_state_dict(solver.state_dict())
    for again in (other, copy.deepcopy(solver), pickle.loads(pickle.dumps(solver))):
        assert torch.equal(again(SCHEDULE).weights, wanted)
    torch.nn.Sequential(solver).half()  # half precision is for networks, not for coefficients
    assert torch.equal(solver(SCHEDULE).weights, wanted)
    assert wanted.dtype == torch.float64


def test_fixed_solvers_are_checked_where_they_are_made(tmp_path):
    ds.save(ds.DPMpp(4), tmp_path)
    for change, words in (
        ({"nfe": "4"}, "nfe must be a whole number >= 1, not '4'"),
        ({"nfe": 10**9}, "nfe must be a whole number up to 100000, not 1000000000"),
        ({"order": 9}, "order must be one of 1, 2, 3, not 9"),
        ({"lower_order_final": "no"}, "lower_order_final must be one of True, False"),
        ({"grid": [0.9, 0.1]}, "grid must hold 5 numbers, not 2"),
    ):
        edit(
            tmp_path, lambda c, change=change: c["solvers"].update({"4": {**ds.DPMpp(4).values(), **change}})
        )
        with pytest.raises(ValueError, match=words):
            ds.load(tmp_path)


def test_a_diverged_solver_is_not_blamed_on_the_grid():
    solver = ds.DualSolver(3)
    solver.predictor["kappa_u"].data[1] = float("nan")
    with pytest.raises(ValueError, match=r"step 1, .*: its parameters are not finite"):
        solver(SCHEDULE)


def test_a_solver_starts_where_the_papers_code_does():
    values = ds.DualSolver(5).values()
    for part, steps in (("predictor", 5), ("corrector", 4)):
        assert values[part]["gamma"] == values[part]["kappa_u"] == values[part]["kappa_v"] == [0.0] * steps
        assert values[part]["tau_u"] == values[part]["tau_v"] == pytest.approx([1.3132616875182228] * steps)
    assert values["bound"] == 2.0
    assert values["t"] == pytest.approx([0.999, 0.7994, 0.5998, 0.4002, 0.2006, 0.001])
    table = ds.DualSolver(5)(SCHEDULE)
    alpha, sigma = table.alpha, table.sigma
    d_alpha, d_sigma = (x.diff()[:4] / 2 for x in (alpha, sigma))
    trapezoid = torch.stack([torch.ones(4).double(), d_alpha, d_sigma, d_alpha, d_sigma], 1)
    assert torch.allclose(table.weights[1:, 0], trapezoid)
    ddim = torch.stack([torch.ones(5).double(), alpha.diff(), sigma.diff()], 1)
    assert torch.allclose(table.weights[0, 1, :3], ddim[0])
    assert torch.allclose(table.weights[:, 1, 0], ddim[:, 0])


def test_tied_bns_has_one_set_of_weights():
    solver = ds.BNS(3, tied=True)
    assert [name for name, _ in solver.named_parameters()] == ["a", "b", "times.logits"]
    with torch.no_grad():
        solver.b += 0.5
    table = solver(ds.Flow())
    assert torch.allclose(
        table.weights[0, 1, 1:3], 1.5 * torch.stack([table.alpha.diff()[0], table.sigma.diff()[0]])
    )
