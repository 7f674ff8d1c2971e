"""What holds for every schedule, time, parameter, NFE, shape and dtype, tried on drawn ones."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dualsolver as ds
from conftest import relative
from dualsolver.checks import number, numbers
from dualsolver.draws import draw
from dualsolver.interpolate import stretch
from dualsolver.metrics import Moments, frechet
from dualsolver.prediction import KINDS, basis
from dualsolver.schedule import GRIDS, from_config
from dualsolver.solvers.base import Fixed
from dualsolver.statistics import Statistics

EXACT = [name for name, kind in ds.SOLVERS.items() if issubclass(kind, Fixed) and name != "euler"]
few = settings(max_examples=25, deadline=None, derandomize=True, database=None)
DOUBLE = torch.float64
betas = st.floats(1e-5, 0.5)
SCHEDULES = st.one_of(
    st.builds(
        lambda make, ends, steps: make(min(ends), max(ends), steps),
        st.sampled_from([ds.VP.linear, ds.VP.scaled_linear]),
        st.tuples(st.floats(1e-5, 0.05), st.floats(1e-5, 0.05)),
        st.integers(1, 300),
    ),
    st.builds(ds.VP.cosine, st.integers(2, 300), st.floats(1e-4, 0.1)),
    st.builds(lambda low, more: ds.VP.continuous(low, low + more), st.floats(0.01, 1), st.floats(0.1, 30)),
    st.builds(ds.VP.from_betas, st.lists(betas, min_size=1, max_size=30)),
    st.builds(ds.Flow, st.floats(0.1, 20), st.sampled_from([1.0, 1000.0])),
    st.builds(lambda low, more: ds.VE(low, low + more), st.floats(1e-3, 1), st.floats(0.5, 200)),
)


def made(call):
    """What a call gives, or nothing if it is refused in one line."""
    try:
        return call()
    except ValueError as error:
        if "\n" in str(error):
            raise
        return None


@st.composite
def grids(draw, most=12):
    """A schedule with falling times well inside its range."""
    schedule = draw(SCHEDULES)
    count = draw(st.integers(1, most))
    gaps = torch.tensor(draw(st.lists(st.floats(0.05, 1), min_size=count + 2, max_size=count + 2)))
    shares = 1 - (gaps.double().cumsum(0) / gaps.double().sum())[:-1]
    return schedule, (shares * schedule.t_max).tolist()


@st.composite
def duals(draw, kind=None, wide=1.0, **fixed):
    """A Dual-Solver with drawn scalars, on a drawn schedule."""
    schedule, t = draw(grids())
    kind = kind or draw(st.sampled_from(["p1", "p1c2", "p2", "p2c2"]))

    def part(n):
        spans = {"gamma": (-1.9, 1.9), "tau_u": (1e-3, 5), "tau_v": (1e-3, 5)}
        spans |= {"kappa_u": (-wide, wide), "kappa_v": (-wide, wide)}
        drawn = {
            name: draw(st.lists(st.floats(*span), min_size=n, max_size=n)) for name, span in spans.items()
        }
        return {name: [fixed[name]] * n if name in fixed else values for name, values in drawn.items()}

    corrector = part(len(t) - 2) if kind.endswith("c2") else None
    return ds.DualSolver.from_values(kind, t, part(len(t) - 1), corrector), schedule, t


@few
@given(SCHEDULES, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_rates_are_finite_and_know_their_time(schedule, shares):
    t = torch.tensor(shares, dtype=DOUBLE) * schedule.t_max
    alpha, sigma = schedule(t)
    assert bool((alpha >= 0).all() and (sigma >= 0).all() and (alpha + sigma).isfinite().all())
    if isinstance(schedule, ds.VP):
        assert torch.allclose(alpha**2 + sigma**2, torch.ones_like(t), rtol=1e-12)
    of_data, of_noise = schedule.velocity(alpha, sigma)
    determinant = alpha * of_noise - sigma * of_data
    assert torch.allclose(determinant, torch.ones_like(t), rtol=1e-12)
    inner = t[(t > 1e-3 * schedule.t_max) & (alpha > 1e-4)]
    assert torch.allclose(schedule.time(schedule.half_log_snr(inner)), inner, rtol=1e-6, atol=1e-8)
    assert torch.allclose(schedule.at_model_time(schedule.model_time(t)), t, rtol=1e-9, atol=1e-6)
    ordered = schedule.half_log_snr(inner.sort().values)
    assert bool((ordered.diff() <= 1e-12).all())


@few
@given(SCHEDULES)
def test_a_schedule_is_its_config(schedule):
    again = from_config(schedule.config())
    assert (again, repr(again)) == (schedule, repr(schedule))
    t = torch.linspace(schedule.t_min, schedule.t_max, 7, dtype=DOUBLE)
    assert all(torch.equal(a, b) for a, b in zip(schedule(t), again(t), strict=True))


@few
@given(SCHEDULES, st.integers(1, 40), st.sampled_from([*GRIDS, None]))
def test_grids_fall_from_start_to_end_or_say_why_not(schedule, steps, kind):
    t = made(lambda: schedule.grid(steps, kind))
    if t is None:
        return
    assert t.shape == (steps + 1,)
    assert t.dtype == DOUBLE
    assert bool((t.diff() < 0).all())
    assert schedule.t_min <= t[-1] < t[0] <= schedule.t_max


@few
@given(SCHEDULES, st.floats(0.01, 0.99), st.sampled_from([*KINDS]))
def test_a_prediction_is_what_the_network_says(schedule, share, kind):
    """x and the native output come back from the pair."""
    t = torch.tensor(share * schedule.t_max, dtype=DOUBLE)
    alpha, sigma = schedule(t)
    x, output = torch.randn(2, 5, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    data, noise = basis(kind, schedule, t) @ torch.stack([x, output])
    of_data, of_noise = schedule.velocity(alpha, sigma)
    native = {"data": data, "noise": noise, "velocity": of_data * data + of_noise * noise}[kind]
    scale = 1e-9 / min(float(alpha), float(sigma), 1.0)
    assert torch.allclose(alpha * data + sigma * noise, x, atol=scale)
    assert torch.allclose(native, output, atol=scale)


@few
@given(grids(), st.sampled_from(EXACT))
def test_fixed_methods_are_consistent_on_any_grid(drawn, name):
    """A network that predicts the same pair everywhere is solved exactly, but by Euler in half-log-SNR."""
    schedule, t = drawn
    solver = ds.SOLVERS[name](1).on(t)
    table = solver(schedule)
    assert table.nfe == solver.nfe
    scale = (table.weights.abs().max() + 1) * (table.alpha.max() + table.sigma.max())
    last = ds.defects(table)[-1]
    assert bool((last.abs() < 1e-9 * scale**2).all())


@few
@given(duals("p1", kappa_u=0.0, kappa_v=0.0))
def test_without_residuals_dual_p1_is_ddim(drawn):
    solver, schedule, t = drawn
    found, wanted = (ds.canonical(s(schedule)).detach() for s in (solver, ds.DDIM(len(t) - 1, t)))
    assert relative(found, wanted) < 1e-8


@few
@given(duals("p1c2", kappa_u=0.0, kappa_v=0.0, gamma=1.0))
def test_with_gamma_1_dual_p1c2_is_unipc_of_order_1(drawn):
    solver, schedule, t = drawn
    found, wanted = (ds.canonical(s(schedule)).detach() for s in (solver, ds.UniPC(len(t) - 1, t, order=1)))
    assert relative(found, wanted) < 1e-8


@few
@given(grids())
def test_the_first_orders_are_ddim(drawn):
    schedule, t = drawn
    wanted = ds.canonical(ds.DDIM(len(t) - 1, t)(schedule))
    assert relative(ds.canonical(ds.DPMpp(len(t) - 1, t, order=1)(schedule)), wanted) < 1e-10
    for solver in (ds.BNS(len(t) - 1, t=t), ds.DS(len(t) - 1, t=t)):
        assert relative(ds.canonical(solver(schedule)).detach(), wanted) < 1e-8


@few
@given(duals())
def test_values_make_the_same_solver_and_a_file_the_same_table(tmp_path_factory, drawn):
    solver, schedule, _ = drawn
    folder = tmp_path_factory.mktemp("drawn")
    ds.save(solver, folder, schedule, "noise")
    again, known, _ = ds.load(folder)
    assert known == schedule
    one, other = solver(schedule), again(known)
    assert relative(other.weights.detach(), one.weights.detach()) < 1e-9
    assert torch.allclose(other.t, one.t, rtol=1e-12)
    for p in solver.parameters():
        p.grad = None
    solver(schedule).weights.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in solver.parameters() if p.grad is not None)


SIZES = [*(10.0**k for k in (-300, -12, 0, 12, 150, 308)), *(-(10.0**k) for k in (-12, 0, 12, 308))]


@few
@given(grids(4), st.data())
def test_extreme_scalars_make_a_finite_table_or_one_line(drawn, data):
    schedule, t = drawn

    def part(n):
        names = ("gamma", "tau_u", "tau_v", "kappa_u", "kappa_v")
        return {name: [data.draw(st.sampled_from(SIZES)) for _ in range(n)] for name in names}

    parts = part(len(t) - 1), part(len(t) - 2)
    table = made(lambda: ds.DualSolver.from_values("p2c2", t, *parts, bound=None)(schedule))
    assert table is None or bool(table.weights.isfinite().all())


@few
@given(
    grids(6),
    st.sampled_from(["dpmpp", "unipc", "ddim", "dual", "bns"]),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_a_sample_has_the_shape_and_dtype_of_the_noise_and_each_is_itself(drawn, name, dtype, shape):
    schedule, t = drawn
    kind = ds.SOLVERS[name]
    solver = kind(len(t) - 1, grid=t) if issubclass(kind, Fixed) else kind(len(t) - 1, t=t)
    predict = ds.wrap(lambda x, time: x.tanh(), schedule)
    noise = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    with torch.no_grad():
        table = solver(schedule)
        whole = ds.sample(predict, noise, table)
        parts = torch.cat([ds.sample(predict, noise[i : i + 1], table) for i in range(3)])
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype.itemsize == 2 else {"rtol": 1e-4, "atol": 1e-4}
    assert (whole.shape, whole.dtype) == (noise.shape, dtype)
    assert bool(whole.isfinite().all())
    assert torch.allclose(parts.double(), whole.double(), **close)


@few
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(2, 30))
def test_a_stretched_list_keeps_its_ends_and_its_span(values, length):
    found = stretch(torch.tensor(values), length)
    assert found.shape == (length,)
    assert (found[0], found[-1]) == pytest.approx((values[0], values[-1]), abs=1e-6)
    assert min(values) - 1e-6 <= found.min() <= found.max() <= max(values) + 1e-6


@few
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=12), st.integers(-(2**70), 2**70))
def test_a_sample_depends_on_its_seed_and_index_alone(indices, seed):
    noise, items = draw((2, 3), "abcdef", seed, indices)
    for i in (0, len(indices) - 1):
        alone = draw((2, 3), "abcdef", seed, [indices[i]])
        assert torch.equal(alone.noise[0], noise[i])
        assert alone.items[0] == items[i]


@few
@given(st.integers(1, 5), st.integers(2, 30), st.floats(-9, 9), st.data())
def test_distances_are_symmetric_zero_to_themselves_and_never_nan(width, count, log, data):
    seed = data.draw(st.integers(0, 2**31))
    rows = 10**log * torch.randn(2, count, width, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))
    cut = data.draw(st.integers(1, count - 1))
    one, other = (Moments.of(part).statistics() for part in rows)
    merged = (Moments.of(rows[0][:cut]) + Moments.of(rows[0][cut:])).statistics()
    scale = float(one.sigma.trace() + other.sigma.trace() + 1e-300)
    assert frechet(one, merged) < 1e-6 * scale
    there, back = frechet(one, other), frechet(other, one)
    assert there >= 0
    assert there == pytest.approx(back, rel=1e-6, abs=1e-6 * scale)


@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_a_distance_that_overflows_is_no_zero(size):
    """`max(0.0, nan)` is 0.0: the best distance there is."""
    zero, unit = torch.zeros(2, dtype=DOUBLE), torch.eye(2, dtype=DOUBLE)
    for huge, other in (
        (Statistics(zero, size * unit),) * 2,
        (Statistics(zero + size, unit), Statistics(zero, unit)),
    ):
        with pytest.raises(ValueError, match="too large to compare"):
            frechet(huge, other)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.floats(),
    st.integers(),
    st.lists(st.floats(), max_size=2),
)


@few
@given(ANYTHING)
def test_a_checked_number_is_finite_or_refused(value):
    single, many = made(lambda: number("width", value)), made(lambda: numbers("width", value))
    assert single is None or math.isfinite(single)
    assert many is None or bool(many.isfinite().all())


@few
@given(SCHEDULES, st.sampled_from([float("nan"), float("inf"), -1.0, 1e300]))
def test_times_outside_are_refused(schedule, time):
    with pytest.raises(ValueError, match=r"leaves the time range|must be"):
        schedule(time)
    if math.isnan(time):
        with pytest.raises(ValueError, match="leaves the time range"):
            schedule.time(time)
