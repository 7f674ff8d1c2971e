"""Methods that are the same, as equal canonical matrices."""

from itertools import pairwise

import pytest
import torch

import dualsolver as ds
from conftest import drawn, relative
from dualsolver.solvers.dual import KINDS

T = [0.9, 0.71, 0.44, 0.3, 0.1]
SCHEDULES = {"vp": ds.VP.linear(), "flow": ds.Flow(), "ve": ds.VE(0.02, 10.0)}


@pytest.fixture(params=SCHEDULES)
def schedule(request):
    return SCHEDULES[request.param]


def same(schedule, *solvers, tolerance=1e-10):
    first, second = (ds.canonical(s(schedule)).detach() for s in solvers)
    assert relative(first, second) < tolerance


def constant(kind, gamma=0.0, tau=1.0, kappa=0.0, t=T, **options):
    def part(n):
        values = {"gamma": gamma, "tau_u": tau, "tau_v": tau, "kappa_u": kappa, "kappa_v": kappa}
        return {name: [value] * n for name, value in values.items()}

    corrector = part(len(t) - 2) if kind.endswith("c2") else None
    return ds.DualSolver.from_values(kind, t, part(len(t) - 1), corrector, **options)


@pytest.mark.parametrize("gamma", [-1.5, -1.0, -0.3, 0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize("tau", [1e-12, 1.0, 1e3])
def test_p1_without_residual_is_ddim_for_every_gamma_and_tau(schedule, gamma, tau):
    same(schedule, constant("p1", gamma, tau), ds.DDIM(4, T))


def test_p1c2_in_data_and_noise_form_is_unipc_bh2_of_order_1(schedule):
    same(schedule, constant("p1c2", 1.0), ds.UniPC(4, T, order=1))
    same(schedule, constant("p1c2", -1.0), ds.UniPC(4, T, order=1, prediction="noise"))
    first, other = (ds.canonical(s(schedule)) for s in (constant("p1c2", 1.0), ds.UniPC(4, T, 1, "bh1")))
    assert relative(first.detach(), other) > 1e-3


def test_integral_forms_reduce_to_noise_velocity_and_data(schedule):
    """Without residuals the p2c2 rows weigh only the predictions of the integral form (Table predictions)."""
    if schedule is SCHEDULES["ve"]:
        pytest.skip("alpha is constant: noise and velocity form are one")
    weights = {g: constant("p2c2", g)(schedule).weights.detach() for g in (-1.0, 0.0, 1.0)}
    assert weights[-1.0][:, :, 1::2].abs().max() < 1e-12  # noise form: nothing on data
    assert weights[1.0][:, :, 2::2].abs().max() < 1e-12  # data form: nothing on noise
    velocity = weights[0.0]
    assert torch.allclose(velocity[:, :, 0], torch.ones(()).double())  # velocity form: the state as it is
    table = constant("p1", 0.0)(schedule)
    assert torch.allclose(table.weights[:, 0, 1], table.alpha.diff())
    assert torch.allclose(table.weights[:, 0, 2], table.sigma.diff())


def test_2m_in_ds_and_bns_by_their_coefficients():
    schedule = SCHEDULES["vp"]
    alpha, sigma = schedule(torch.tensor(T, dtype=torch.float64))
    h = (alpha / sigma).log().diff()
    inverse_2r = [0.0, *(h[1:3] / h[:2] / 2).tolist(), 0.0]  # the last step is of first order
    m = [[], *([0.0] * (i - 1) + [-inverse_2r[i]] for i in range(1, 4))]
    same(schedule, ds.DS.from_values("data", T, m), ds.DPMpp(4, T))

    table = ds.canonical(ds.DPMpp(4, T)(schedule))
    b = [(table[i, 1 : i + 2] / alpha.diff()[: i + 1]).tolist() for i in range(4)]
    c = [[0.0] * (i + 1) for i in range(4)]
    same(schedule, ds.BNS.from_values(T, table[:, 0].tolist(), b, c), ds.DPMpp(4, T))


def test_ds_in_flow_form_mixes_velocities():
    schedule, t = SCHEDULES["flow"], torch.tensor(T, dtype=torch.float64)
    m = [[], [-0.5], [0.1, -0.7], [0.05, 0.2, -0.6]]
    x, velocities = torch.linspace(-1, 1, 5, dtype=torch.float64), []
    predict = ds.wrap(lambda x, time: x.cos(), schedule)
    wanted = x
    for i in range(4):
        velocities.append(wanted.cos())
        mixed = sum(w * v for w, v in zip([*m[i], 1 - sum(m[i])], velocities, strict=True))
        wanted = wanted + (t[i + 1] - t[i]) * mixed
    found = ds.sample(predict, x[None], ds.DS.from_values("velocity", T, m)(schedule))
    assert relative(found, wanted[None]) < 1e-12


def test_the_mask_of_ds_leaves_the_last_two_rows_one_weight_each():
    def free(*arguments, **options):
        solver = ds.DS(*arguments, **options)
        solver.m.data += 1
        return [(i, j) for i, row in enumerate(solver.values()["m"]) for j, m in enumerate(row) if m]

    assert free(5) == free(5, masked=True) == [(1, 0), (2, 0), (2, 1), (3, 2), (4, 3)]
    assert (free(1), free(2), free(3)) == ([], [(1, 0)], [(1, 0), (2, 1)])
    assert [len(free(6)), len(free(6, masked=False))] == [8, 15]
    assert [len(free(7)), len(free(7, masked=True))] == [21, 12]


def test_ds_and_bns_start_as_ddim_or_euler(schedule):
    for solver in (ds.BNS(4, t=T), ds.BNS(4, tied=True, t=T), ds.DS(4, t=T), ds.DS(4, "velocity", t=T)):
        same(schedule, solver, ds.DDIM(4, T))


def test_dpmpp_of_order_1_is_ddim_and_unip_2_is_2m(schedule):
    same(schedule, ds.DPMpp(4, T, order=1), ds.DDIM(4, T))
    two, predictor = ds.DPMpp(4, T)(schedule), ds.UniPC(4, T)(schedule)
    assert torch.allclose(predictor.weights[0, 1, :3], two.weights[0, 1, :3])


def test_2m_inside_p1c2_with_direct_parameters():
    """The corrector leaves x + s (data_c - data_p); the next predictor carries it on by A s = Q / (2 r)."""
    schedule = SCHEDULES["vp"]
    alpha, sigma = schedule(torch.tensor(T, dtype=torch.float64))
    h, A = (alpha / sigma).log().diff(), sigma[1:] / sigma[:-1]
    Q = alpha[1:] - A * alpha[:-1]
    slope = torch.cat(
        [(Q * h / 2 / A)[1:3] / h[:2], torch.zeros(1).double()]
    )  # s; 0 before the lowered last step
    zero = [0.0] * 4
    predictor = {"A": A.tolist(), "P_u": zero, "P_v": zero}
    corrector = {"A": A[:3].tolist(), "P_u": (2 * slope - Q[:3]).tolist(), "P_v": zero[:3]}
    dual = ds.DualSolver.from_values("p1c2", T, predictor, corrector, parametrisation="direct")
    same(schedule, dual, ds.DPMpp(4, T))


def test_p2_tends_to_2m_as_tau_grows():
    schedule = SCHEDULES["vp"]
    wanted = ds.canonical(ds.DPMpp(4, T)(schedule))
    distance = [
        relative(ds.canonical(constant("p2", 1.0, tau)(schedule)).detach(), wanted) for tau in (1e2, 1e4, 1e8)
    ]
    assert distance[0] > 10 * distance[1] > 100 * distance[2]
    assert distance[2] < 1e-7
    sigma = schedule(torch.tensor(T, dtype=torch.float64))[1]
    direct = {"A": (sigma[1:] / sigma[:-1]).tolist()}
    direct |= {"P_u": [0.0] * 4, "P_v": [0.0] * 4}
    same(schedule, ds.DualSolver.from_values("p2", T, direct, parametrisation="direct"), ds.DPMpp(4, T))


def test_tau_and_kappa_act_as_one_scalar_in_p1c2(schedule):
    solver = drawn(4, t=T, seed=5)
    values = solver.values()
    table = solver(schedule)
    for part, steps in (("predictor", 4), ("corrector", 3)):
        for side in "uv":
            before = table_residuals(solver, schedule, part)[side]
            values[part][f"tau_{side}"] = [0.5] * steps
            values["bound"] = None
            values[part][f"kappa_{side}"] = [1.0] * steps
            unit = table_residuals(ds.DualSolver.from_values(**values), schedule, part)[side]
            values[part][f"kappa_{side}"] = torch.where(unit == 0, 0, before / unit).tolist()
    same(schedule, ds.DualSolver.from_values(**values), lambda s: table)


def table_residuals(solver, schedule, part):
    at = solver.nodes(schedule)
    end = len(at.t) - 1 if part == "predictor" else len(at.t) - 2
    scalars = solver._scalars(getattr(solver, part), at.rates(slice(0, end)), at.rates(slice(1, end + 1)))
    return {"u": scalars.P.u.detach(), "v": scalars.P.v.detach()}


def test_heun_is_edm_written_out():
    schedule = SCHEDULES["ve"]
    x, predict = (
        torch.linspace(-3, 3, 11, dtype=torch.float64),
        lambda x, t: ds.Prediction(x / (1 + t**2), x * t / (1 + t**2)),
    )
    t = torch.tensor([5.0, 2.0, 0.7, 0.0], dtype=torch.float64)
    wanted = x
    for now, after in pairwise(t):
        slope = (wanted - predict(wanted, now).data) / now
        euler = wanted + (after - now) * slope
        second = (euler - predict(euler, after).data) / after if after > 0 else slope
        wanted = wanted + (after - now) * (slope + second) / 2
    assert relative(ds.sample(predict, x, ds.Heun(5, t)(schedule)), wanted) < 1e-12


def test_heun_of_a_flow_in_velocity_form_is_the_trapezoid_in_t():
    predict = ds.wrap(lambda x, time: x * time[0].double() / 1000 + 1, ds.Flow())
    x, t = torch.ones(1, 3, dtype=torch.float64), [1.0, 0.6, 0.2]

    def velocity(x, t):
        return x * torch.tensor(1000 * t).float().double() / 1000 + 1

    wanted = x
    for now, after in ((1.0, 0.6), (0.6, 0.2)):
        k1 = velocity(wanted, now)
        wanted = wanted + (after - now) * (k1 + velocity(wanted + (after - now) * k1, after)) / 2
    assert relative(ds.sample(predict, x, ds.Heun(4, t, prediction="velocity")(ds.Flow())), wanted) < 1e-6


def test_euler_updates_are_those_of_the_paper():
    schedule, x = SCHEDULES["vp"], torch.tensor([1.3]).double()
    t = torch.tensor([0.6, 0.4], dtype=torch.float64)
    (a0, a1), (s0, s1) = schedule(t)
    h = (a1 / s1).log() - (a0 / s0).log()
    noise = torch.tensor([0.7]).double()
    pair = ds.Prediction((x - s0 * noise) / a0, noise)
    found = {
        p: ds.sample(lambda x, t: pair, x, ds.Euler(1, t, p)(schedule)) for p in ("noise", "data", "velocity")
    }
    assert torch.allclose(found["noise"], a1 / a0 * (x - s0 * h * noise))
    assert torch.allclose(
        found["data"], a1 / a0 * ((1 + h) * torch.exp(-h) * x - torch.exp(-h) * s0 * h * noise)
    )
    d_alpha, d_sigma = a0 * s0**2, -s0 * a0**2  # with respect to lambda
    assert torch.allclose(found["velocity"], x + h * (d_alpha * pair.data + d_sigma * noise))


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_from_values_are_inverse(kind):
    for options in ({}, {"bound": None}, {"domain": "mix"}, {"parametrisation": "direct"}):
        solver = drawn(4, kind, t=T, **options)
        again = ds.DualSolver.from_values(**solver.values())
        assert again.values().keys() == solver.values().keys()
        for part in ("predictor", "corrector"):
            for name, x in solver.values()[part].items():
                assert again.values()[part][name] == pytest.approx(x, rel=1e-12, abs=1e-14)
        assert again.values()["t"] == pytest.approx(T, rel=1e-14)
        same(SCHEDULES["vp"], again, solver)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_predictors_residual_makes_dual_inconsistent(schedule, kind):
    """A constant pair is kept by every fixed method and by Dual-Solver without kappa in its predictor."""
    for solver in (ds.DDIM(4), ds.DPMpp(4), ds.UniPC(4), ds.DualSolver(4, kind, t=T), ds.DS(4, t=T)):
        assert float(ds.defects(solver(schedule)).abs().max()) < 1e-9
    free, ended = (drawn(4, kind, t=T, consistent_end=end) for end in (False, True))
    found, at_end = ds.defects(free(schedule)), ds.defects(ended(schedule))
    assert float(found.detach().abs().max()) > 1e-3
    if kind == "p1c2":  # its corrector keeps the state consistent, so only the last step's residual is seen
        at = free.nodes(schedule)
        p = free._scalars(free.predictor, at.rates(slice(-1)), at.rates(slice(1, None))).P
        assert torch.allclose(found, torch.stack(list(p), 1), atol=1e-9)
        assert float(at_end[-1].abs().max()) < 1e-9
        assert torch.equal(found[:-1], at_end[:-1])


def test_a_value_at_the_bound_itself_is_kept():
    lists = {name: [1.0] for name in ("gamma", "tau_u", "tau_v", "kappa_u", "kappa_v")}
    for gamma in (2.0, -2.0):
        solver = ds.DualSolver.from_values("p1", [0.9, 0.1], {**lists, "gamma": [gamma]})
        assert solver.values()["predictor"]["gamma"] == [gamma]


def test_every_class_rebuilds_itself_from_its_values(schedule):
    for name, kind in ds.SOLVERS.items():
        solver = drawn(4, t=T) if name == "dual" else kind(4, t=T) if name in ("bns", "ds") else kind(4)
        same(schedule, kind.from_values(**solver.values()), solver)


@pytest.mark.parametrize(
    "options",
    [{"fixed": {"gamma": g}} for g in (1.0, 0.0, -1.0)]
    + [{"fixed": {"tau": 1.0}}, {"fixed": {"kappa": 0.0}}, {"shared": True}, {"domain": "mix"}],
)
def test_ablations_hold_while_everything_else_moves(options):
    solver = ds.DualSolver(4, t=T, **options)
    with torch.no_grad():
        for i, parameter in enumerate(solver.parameters()):
            parameter += 0.3 * torch.sin(torch.arange(len(parameter)) + i)
    values = solver.values()
    for part in ("predictor", "corrector"):
        for name, x in values[part].items():
            letter = name.partition("_")[0]
            if letter in options.get("fixed", {}):
                assert x == [options["fixed"][letter]] * len(x)
            else:
                assert len(set(x)) == len(x)
        if options.get("shared"):
            assert values[part]["tau_u"] == values[part]["tau_v"]
            assert values[part]["kappa_u"] == values[part]["kappa_v"]
    same(SCHEDULES["vp"], ds.DualSolver.from_values(**values), solver)


def test_domain_functions_are_the_papers():
    from dualsolver.solvers.base import Rates
    from dualsolver.solvers.formulas import Pair, domain_step

    one = torch.ones(1, dtype=torch.float64)
    c, n, tau = Rates(0.3 * one, 0.95 * one), Rates(0.8 * one, 0.6 * one), Pair(0.7 * one, 0.4 * one)
    for gamma, y in (
        (0.5, lambda r: (r.alpha * r.sigma**-0.5, r.sigma**0.5)),
        (-0.5, lambda r: (r.alpha**0.5, r.sigma * r.alpha**-0.5)),
    ):
        for domain, L in (
            ("loglinear", lambda y, k: torch.log(1 + k * y) / k),
            ("mix", lambda y, k: (1 - k) * y + k * y.log()),
        ):
            found = domain_step(gamma * one, tau, c, n, domain)
            for d, k, before, after in zip(found, tau, y(c), y(n), strict=True):
                assert torch.allclose(d, L(after, k) - L(before, k), rtol=1e-12)
