"""The diffusers scheduler: every run is that of `ds.sample`, under the contract that pipelines rely on."""

import copy
import json
import logging
import pickle
from collections import Counter

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
)
from torch.utils._python_dispatch import TorchDispatchMode

import dualsolver as ds
from conftest import MIXTURE, drawn, relative
from dualsolver.diffusers import DualSolverScheduler
from test_order import VARIANTS

VP, FLOW = ds.VP.linear(), ds.Flow(shift=3.0)
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
CASES = [(name, options) for name, variants in VARIANTS.items() for options in variants]


def native(schedule, kind):
    """The exact network of the mixture, called as a pipeline calls its own: with timesteps."""

    def model(x, timestep):
        t = schedule.at_model_time(timestep)
        data, noise = MIXTURE.predict(schedule)(x.double(), t)
        of_data, of_noise = schedule.velocity(*schedule(t))
        output = {"noise": noise, "data": data, "velocity": of_data * data + of_noise * noise}[kind]
        return output.to(x.dtype)

    return model


def run(scheduler, model, x, start=0):
    for timestep in scheduler.timesteps[start:]:
        x = scheduler.step(model(x, timestep), timestep, x).prev_sample
    return x


def made(name, nfe, options, seed=0):
    """A solver of the registry; a learned one with random values."""
    if name == "dual":
        return drawn(nfe, seed=seed, gamma=0.4, **options)
    solver = ds.SOLVERS[name](nfe, **options)
    torch.manual_seed(seed)
    for parameter in solver.parameters() if name in ("ds", "bns") else ():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return solver


class Operations(TorchDispatchMode):
    """Counts what torch is called for."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.found[operation.overloadpacket.__name__] += 1
        return operation(*args, **(kwargs or {}))


def scheduler_of(solver, schedule=VP, prediction="noise", **options):
    return DualSolverScheduler(solver, prediction=prediction, schedule=schedule, **options)


@pytest.mark.parametrize(
    ("schedule", "kind"), [(VP, "noise"), (VP, "velocity"), (VP, "data"), (FLOW, "velocity")]
)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_solver_is_sample(name, options, schedule, kind):
    solver = made(name, 5, options)
    scheduler, model = scheduler_of(solver, schedule, kind), native(schedule, kind)
    scheduler.set_timesteps(5)
    wanted = ds.sample(ds.wrap(model_of(model), schedule, kind), X, solver(schedule))
    assert len(scheduler.timesteps) == 5
    assert len(scheduler.sigmas) == 6
    assert relative(run(scheduler, model, X), wanted) < 1e-5


def model_of(model):
    return lambda x, time: model(x, time[0])


@pytest.mark.parametrize("start", [1, 2, 3, 4])
@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] != "bns"])
def test_a_start_in_the_middle_is_a_run_of_its_own(name, options, start):
    """With begin_index or without; the times are those of the whole run."""
    solver = made(name, 5, options)
    table = solver.rest(VP, start)
    assert torch.allclose(table.t, solver(VP).t[start:], atol=1e-12)
    wanted = ds.sample(MIXTURE.predict(VP), X.double(), table)
    for told in (True, False):
        scheduler = scheduler_of(solver)
        scheduler.set_timesteps(5)
        if told:
            scheduler.set_begin_index(start)
        assert relative(run(scheduler, native(VP, "noise"), X, start), wanted) < 5e-5


@pytest.mark.parametrize("name", ["ddim", "dpmpp", "unipc", "heun"])
@pytest.mark.parametrize("start", [2, 4])
def test_the_rest_of_a_fixed_run_is_the_method_on_the_rest_of_the_grid(name, start):
    solver = ds.SOLVERS[name](8)
    evaluations = type(solver).evaluations
    grid = solver(VP).t[::evaluations] if name != "heun" else VP.grid(4)
    wanted = ds.SOLVERS[name](8 - start, grid=grid[start // evaluations :])(VP)
    assert torch.allclose(solver.rest(VP, start).weights, wanted.weights, atol=1e-10)


def test_a_heun_that_starts_inside_a_step_waits_for_the_next():
    rest = ds.Heun(6).rest(VP, 1)
    assert rest.weights[0].tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]] * 2
    assert torch.equal(rest.weights[1:], ds.Heun(4, grid=VP.grid(3)[1:])(VP).weights)
    assert ds.Heun(6).rest(VP, 5).weights.tolist() == [[[1.0, 0.0, 0.0, 0.0, 0.0]] * 2]


def test_the_rest_of_a_learned_run_has_the_scalars_of_its_steps():
    """The rows without history are those of the whole run; only the first loses its correction."""
    solver = drawn(6)
    whole, rest = solver(VP).weights, solver.rest(VP, 2).weights
    assert torch.allclose(rest[1:], whole[3:], atol=1e-10)
    assert rest[0, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    mixed = made("ds", 6, {"form": "data", "masked": False})
    rows = mixed.mixture()[2:, 2:]
    assert torch.allclose(
        torch.tensor(mixed.tail(2)["m"][3], dtype=torch.float64), rows[3, :3].detach().double()
    )


def test_bns_does_not_start_in_the_middle():
    scheduler = scheduler_of(ds.BNS(4))
    scheduler.set_timesteps(4)
    scheduler.set_begin_index(1)
    with pytest.raises(ValueError, match="BNS starts every step from x_T"):
        scheduler.step(X, scheduler.timesteps[1], X)


@pytest.mark.parametrize(
    ("name", "options"), [("dual", {"kind": "p2c2"}), ("unipc", {}), ("heun", {}), ("bns", {})]
)
def test_a_step_never_reads_a_tensor(name, options):
    """A tensor without values stands for one on a GPU: whoever asked for one would wait, and here fails."""
    scheduler = scheduler_of(made(name, 4, options))
    x = torch.empty(2, 3, device="meta")
    for start in (0,) if name == "bns" else (0, 2):
        scheduler.set_timesteps(4, device="meta")
        assert run(scheduler, lambda x, t: x, x, start).device == x.device
        assert scheduler.step_index == 4


def test_the_first_step_is_found_by_place_or_by_value():
    scheduler = scheduler_of("heun")
    scheduler.set_timesteps(6)
    t = scheduler.timesteps
    assert [scheduler.index_for_timestep(x) for x in t] == list(range(6))
    values = [t[1].clone(), t[1].item(), int(t[1]), t[1].half(), t[1:2].clone().expand(4), t[2].double()]
    assert [scheduler.index_for_timestep(x) for x in values] == [2] * 6  # the start of a step, not its end


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precision_in_is_precision_out_with_float32_inside(dtype):
    solver = drawn(5, gamma=0.4)
    scheduler = scheduler_of(solver)
    scheduler.set_timesteps(5)
    found = run(scheduler, lambda x, t: native(VP, "noise")(x.double(), t).to(dtype), X.to(dtype))
    wanted = ds.sample(MIXTURE.predict(VP), X.double(), solver(VP))
    assert found.dtype == dtype
    assert (
        relative(found.double(), wanted)
        < {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.float64: 1e-5}[dtype]
    )


def test_half_precision_is_rounded_only_where_it_is_handed_over():
    scheduler = scheduler_of(ds.DDIM(1, grid=[0.5, 0.4]))
    scheduler.set_timesteps(1)
    x, output = (torch.randn(1000, generator=torch.Generator().manual_seed(i)).bfloat16() for i in (1, 2))
    found = scheduler.step(output, scheduler.timesteps[0], x).prev_sample
    row = ds.DDIM(1, grid=[0.5, 0.4])(VP)
    alpha, sigma = VP(torch.tensor([0.5, 0.4]))
    data = (x.double() - sigma[0] * output.double()) / alpha[0]
    wanted = alpha[1] * data + sigma[1] * output.double()
    assert row.nfe == 1
    assert (found == wanted.bfloat16()).double().mean() > 0.99


def test_previews_are_the_data_that_the_network_sees():
    scheduler, model = scheduler_of(ds.DPMpp(4), FLOW, "velocity"), native(FLOW, "velocity")
    scheduler.set_timesteps(4)
    t = scheduler.timesteps[0]
    output = scheduler.step(model(X, t), t, X)
    assert torch.allclose(output.pred_original_sample, X - t / 1000 * model(X, t), atol=1e-6)
    for t in scheduler.timesteps[1:]:
        last = scheduler.step(X, t, X)
    assert torch.equal(last.pred_original_sample, last.prev_sample)


def test_a_tuple_holds_the_sample_and_only_the_last_what_pixart_takes_for_it():
    scheduler, model = scheduler_of(ds.DPMpp(2), FLOW, "velocity"), native(FLOW, "velocity")
    scheduler.set_timesteps(2)
    t, end = scheduler.timesteps
    x = scheduler.step(model(X, t), t, X).prev_sample
    wanted = scheduler.step(model(x, end), end, x).prev_sample
    scheduler.set_timesteps(2)
    [found] = scheduler.step(model(X, t), t, X, return_dict=False)
    assert torch.equal(found, x)
    last = scheduler.step(model(x, end), end, x, return_dict=False)
    assert [torch.equal(part, wanted) for part in last] == [True, True]


@torch.no_grad()
@pytest.mark.parametrize("name", ["ddim", "dpmpp", "unipc", "dual"])
def test_steps_take_as_few_operations_as_sample(name):
    solver, output = ds.SOLVERS[name](4), torch.randn_like(X)
    scheduler, network, table = scheduler_of(solver), ds.wrap(lambda x, t: output, VP, "noise"), solver(VP)
    ds.sample(network, X, table)  # a run is planned once, and again by set_timesteps
    scheduler.set_timesteps(4)

    def stepped():
        x = X
        for t in scheduler.timesteps:
            x = scheduler.step(output, t, x, return_dict=False)[0]
        return x

    with Operations() as found:
        stepped()
    with Operations() as wanted:
        ds.sample(network, X, table)
    sums = ("mul", "add", "add_", "zeros_like")
    assert [found.found[name] for name in sums] == [wanted.found[name] for name in sums]


def test_a_step_is_differentiable():
    scheduler = scheduler_of(drawn(3, gamma=0.4))

    def last(scale):
        scheduler.set_timesteps(3)
        return run(scheduler, lambda x, t: torch.tanh(x * scale), X.double())

    assert torch.autograd.gradcheck(last, torch.tensor(0.7, dtype=torch.float64, requires_grad=True))


def test_edits_between_steps_count_where_the_state_is_the_sample():
    def edited(name):
        scheduler = scheduler_of(made(name, 4, {}), FLOW, "velocity")
        scheduler.set_timesteps(4)
        scheduler.step(X, scheduler.timesteps[0], X)
        zero = torch.zeros_like(X)
        return scheduler.step(zero, scheduler.timesteps[1], zero).prev_sample.abs().max()

    assert edited("ddim") == 0
    assert edited("bns") > 0.1


def test_copies_go_on_by_themselves():
    model, scheduler = native(VP, "noise"), scheduler_of(drawn(4, gamma=0.4))
    scheduler.set_timesteps(4)
    first = scheduler.timesteps[0]
    x = scheduler.step(model(X, first), first, X).prev_sample
    copies = [copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))]
    ends = []
    for one in (scheduler, *copies):
        y = x
        for t in one.timesteps[1:]:
            y = one.step(model(y, t), t, y).prev_sample
        ends.append(y)
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])
    assert copies[0].config == scheduler.config


def test_one_step_works_and_timesteps_are_not_rounded():
    for solver in (ds.DualSolver(1), ds.DPMpp(1), ds.Heun(1)):
        scheduler = scheduler_of(solver)
        scheduler.set_timesteps(1)
        assert run(scheduler, native(VP, "noise"), X).isfinite().all()
    scheduler = scheduler_of(ds.DualSolver(2, t=[0.9993, 0.3337, 0.001]))
    scheduler.set_timesteps(2)
    assert scheduler.timesteps.tolist() == pytest.approx([998.3, 332.7], abs=1e-3)


def test_noise_is_added_by_the_schedule_each_sample_at_its_time():
    noise = torch.randn_like(X)
    scheduler = scheduler_of("ddim")
    theirs = DDIMScheduler(beta_schedule="linear").add_noise(X, noise, torch.tensor([999, 10]))
    assert torch.allclose(scheduler.add_noise(X, noise, torch.tensor([999, 10])), theirs, atol=1e-5)
    flow, euler = scheduler_of("ddim", FLOW, "velocity"), FlowMatchEulerDiscreteScheduler(shift=3.0)
    t = euler.timesteps[[7, 7]]
    assert torch.allclose(flow.scale_noise(X, t, noise), euler.scale_noise(X, t, noise), atol=1e-6)
    assert flow.add_noise(X.half(), noise.half(), t).dtype == torch.float16
    assert scheduler.scale_model_input(X) is X
    assert len(scheduler) == len(flow) == 1000
    assert scheduler.init_noise_sigma == 1.0
    assert scheduler_of("ddim", ds.VE(0.02, 80.0)).init_noise_sigma == 80.0


def test_given_nodes_are_taken_literally():
    flow = scheduler_of("dpmpp", FLOW, "velocity")
    flow.set_timesteps(sigmas=[1.0, 0.7, 0.2], mu=1.15)
    assert flow.timesteps.tolist() == [1000.0, pytest.approx(700.0), pytest.approx(200.0)]
    assert flow.sigmas.tolist() == [1.0, pytest.approx(0.7), pytest.approx(0.2), 0.0]
    flow.set_timesteps(timesteps=torch.tensor([999.0, 432.1]))
    assert flow.timesteps.tolist() == [999.0, pytest.approx(432.1)]
    vp, theirs = scheduler_of("ddim"), DPMSolverMultistepScheduler(final_sigmas_type="sigma_min")
    theirs.set_timesteps(4)
    vp.set_timesteps(sigmas=theirs.sigmas[:-1].tolist())
    assert torch.allclose(vp.sigmas[:-1], theirs.sigmas[:-1], rtol=1e-4)
    assert torch.allclose(vp.timesteps, theirs.timesteps.float(), atol=0.01)
    vp.set_timesteps(sigmas=[10.0, 1.0, 0.0])
    assert len(vp.timesteps) == 2
    heun = scheduler_of("heun", FLOW, "velocity")
    heun.set_timesteps(sigmas=[0.9, 0.5])
    assert heun.timesteps.tolist() == pytest.approx([900.0, 500.0, 500.0])


def test_mu_shifts_the_grid_of_a_fixed_solver_and_leaves_learned_times_alone():
    theirs = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    grid = torch.linspace(0.999, 0.001, 6)[:-1]
    theirs.set_timesteps(sigmas=grid.tolist(), mu=0.8)
    flow = scheduler_of("dpmpp", FLOW, "velocity")
    flow.set_timesteps(5, mu=0.8)
    assert torch.allclose(flow.sigmas[:-1], theirs.sigmas[:-1], atol=1e-5)
    learned = scheduler_of(drawn(5), FLOW, "velocity")
    learned.set_timesteps(5, mu=0.8)
    assert torch.allclose(learned.sigmas, drawn(5)(FLOW).sigma.float())


def test_a_learned_solver_keeps_its_times(caplog):
    scheduler = scheduler_of([drawn(3), drawn(5)], FLOW, "velocity")
    own = drawn(5)(FLOW).t[:-1]
    with caplog.at_level(logging.WARNING):
        scheduler.set_timesteps(sigmas=own.tolist())
    assert not caplog.text
    scheduler.set_timesteps(sigmas=[1.0, 0.8, 0.6, 0.4, 0.2])
    assert "keeps its own times" in caplog.text
    assert torch.allclose(scheduler.sigmas[:-1], own.float())


def test_numbers_of_steps_learned_interpolated_or_fallen_back(caplog):
    scheduler = scheduler_of([drawn(3), drawn(5)])
    scheduler.set_timesteps(4)
    assert "interpolated between NFE 3 and 5" in caplog.text
    wanted = ds.interpolate(drawn(3), drawn(5), 4)
    assert relative(scheduler.sigmas, (lambda t: t.sigma / t.alpha)(wanted(VP)).float()) < 1e-5
    with pytest.raises(ValueError, match="NFE 20 was not learned: the scheduler holds NFE 3, 5"):
        scheduler.set_timesteps(20)
    caplog.clear()
    scheduler = scheduler_of([drawn(3), drawn(5)], fallback="dpmpp")
    for _ in range(3):
        scheduler.set_timesteps(20)
    assert caplog.text.count("using dpmpp") == 1
    assert torch.allclose(run(scheduler, native(VP, "noise"), X), fixed_run(20), atol=1e-5)


def fixed_run(nfe):
    return ds.sample(MIXTURE.predict(VP), X, ds.DPMpp(nfe)(VP))


def test_a_folder_a_config_and_back(tmp_path):
    """ds.save -> from_pretrained -> save_pretrained -> from_pretrained and ds.load: one and the same run."""
    ds.save(
        [drawn(3, gamma=0.4), drawn(5, gamma=0.4)], tmp_path / "a", schedule=VP, prediction="noise", seed=7
    )
    first = DualSolverScheduler.from_pretrained(tmp_path / "a", fallback="ddim")
    first.save_pretrained(tmp_path / "b")
    second = DualSolverScheduler.from_pretrained(tmp_path / "b")
    assert second.config.fallback == "ddim"
    config = DDIMScheduler(beta_schedule="linear").config
    assert DualSolverScheduler.from_config(config, solver=tmp_path / "b").config.fallback == "ddim"
    assert second.config.provenance["seed"] == 7
    loaded, schedule, info = ds.load(tmp_path / "b", nfe=5)
    assert info["seed"] == 7
    wanted = ds.sample(MIXTURE.predict(VP), X, drawn(5, gamma=0.4)(VP))
    assert relative(ds.sample(MIXTURE.predict(VP), X, loaded(schedule)), wanted) < 1e-6
    for scheduler in (first, second, DualSolverScheduler.from_config(first.config)):
        scheduler.set_timesteps(5)
        assert relative(run(scheduler, native(VP, "noise"), X), wanted) < 1e-5


def test_what_the_artifact_leaves_open_the_pipeline_says(tmp_path, caplog):
    ds.save(drawn(4), tmp_path / "open")
    with pytest.raises(
        ValueError, match=r"nothing says the schedule: use .*from_config\(pipe.scheduler.config"
    ):
        DualSolverScheduler.from_pretrained(tmp_path / "open")
    theirs = DDIMScheduler(
        beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, prediction_type="v_prediction"
    )
    ours = DualSolverScheduler.from_config(theirs.config, solver=tmp_path / "open")
    assert (ours._schedule, ours._kind) == (ds.VP.scaled_linear(), "velocity")
    assert ours.config.beta_start == 0.00085
    assert str(tmp_path) not in ours.to_json_string()
    back = DDIMScheduler.from_config(ours.config)
    assert {k: v for k, v in back.config.items() if k in theirs.config} == {**theirs.config} | {
        "_use_default_values": back.config["_use_default_values"]
    }
    again = DualSolverScheduler.from_config(back.config)
    assert again.config.solvers == ours.config.solvers
    flow = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    ours = DualSolverScheduler.from_config(flow.config, solver="dpmpp")
    assert (ours._schedule, ours._kind) == (FLOW, "velocity")
    assert ours.config.use_dynamic_shifting
    assert not [r for r in caplog.records if r.name.startswith("dualsolver")]


def test_what_disagrees_is_said_and_overruled_by_name(tmp_path, caplog):
    ds.save(drawn(4), tmp_path, schedule=VP, prediction="noise")
    theirs = DDIMScheduler(beta_schedule="scaled_linear", prediction_type="v_prediction")
    ours = DualSolverScheduler.from_config(theirs.config, solver=tmp_path)
    assert "predicts noise, but the pipeline says velocity" in caplog.text
    assert "learned for the schedule vp-linear" in caplog.text
    assert (ours._schedule, ours._kind) == (VP, "noise")
    caplog.clear()
    ours = DualSolverScheduler.from_config(
        theirs.config, solver=tmp_path, prediction_type="v_prediction", schedule=VP
    )
    assert (ours._schedule, ours._kind) == (VP, "velocity")
    assert not caplog.text


def test_another_diffusers_scheduler_takes_our_config():
    cases = ((ds.VP.cosine(), "data"), (ds.VP.from_betas([0.1, 0.2, 0.3]), "noise"), (FLOW, "velocity"))
    for schedule, kind in cases:
        theirs = DPMSolverMultistepScheduler.from_config(scheduler_of("ddim", schedule, kind).config)
        read = {k: v for k, v in theirs.config.items() if k not in ("format", "schedule", "prediction")}
        again = DualSolverScheduler.from_config(read, solver="ddim")
        assert (again._schedule, again._kind) == (schedule, kind)


def test_mistakes_are_one_line(tmp_path):
    good, extra, cut, later = (
        ds.save(drawn(4), tmp_path / n, schedule=VP, prediction="noise") for n in "abcd"
    )
    extra.write_text(json.dumps(json.loads(good.read_text()) | {"solverz": 1}))
    later.write_text(json.dumps(json.loads(good.read_text()) | {"format": 2}))
    cut.write_text(cut.read_text()[:200])
    config = DDIMScheduler().config
    ready = scheduler_of("ddim")
    ready.set_timesteps(2)
    done = scheduler_of("ddim", solvers=None)
    done.set_timesteps(1)
    run(done, native(VP, "noise"), X)
    calls = {
        "unknown solverz: remove it": lambda: DualSolverScheduler.from_pretrained(tmp_path / "b"),
        "not a valid JSON": lambda: DualSolverScheduler.from_pretrained(tmp_path / "c"),
        "format is 2, but this version": lambda: DualSolverScheduler.from_pretrained(tmp_path / "d"),
        "the scheduler of /no/where: no folder of that name": lambda: DualSolverScheduler.from_pretrained(
            "/no/where"
        ),
        "not a whole artifact": lambda: DualSolverScheduler.from_config(config, solver=tmp_path / "c"),
        "say which solver": lambda: DualSolverScheduler.from_config(config),
        "no folder nowhere of a learned solver, and no fixed": lambda: DualSolverScheduler.from_config(
            config, solver="nowhere"
        ),
        "dual is learned": lambda: DualSolverScheduler.from_config(config, solver="dual"),
        "unknown sovler": lambda: DualSolverScheduler.from_config(config, solver="ddim", sovler=1),
        "takes a config": lambda: DualSolverScheduler.from_config("folder"),
        "fallback must be one of": lambda: scheduler_of(drawn(4), fallback="best"),
        "prediction_type must be": lambda: DualSolverScheduler.from_config(
            config, solver="ddim", prediction_type="noise"
        ),
        "prediction: it must be": lambda: scheduler_of("ddim", VP, "epsilon"),
        "call set_timesteps before": lambda: scheduler_of("ddim").step(X, 999, X),
        "all 1 steps are done": lambda: done.step(X, 999, X),
        "take a learned variance off": lambda: ready.step(torch.cat([X, X]), 999, X),
        "timestep 700 is none of": lambda: ready.step(X, 700, X),
        "say how many steps": lambda: ready.set_timesteps(),
        "mu must be a finite number": lambda: scheduler_of("ddim", FLOW, "velocity").set_timesteps(4, mu="a"),
        "not both": lambda: ready.set_timesteps(sigmas=[1.0], timesteps=[1.0]),
        "num_inference_steps = 3, but 2": lambda: ready.set_timesteps(3, sigmas=[2.0, 1.0]),
        "num_inference_steps must be a whole": lambda: ready.set_timesteps(0),
        "strictly decreasing": lambda: ready.set_timesteps(sigmas=[1.0, 2.0]),
        "leaves the time range": lambda: ready.set_timesteps(timesteps=[5000, 1]),
        "begin_index must be": lambda: ready.set_begin_index(-1),
    }
    for words, call in calls.items():
        with pytest.raises((ValueError, OSError), match=words) as error:
            assert call() is NotImplemented, words
        assert "\n" not in str(error.value)
