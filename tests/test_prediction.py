import math

import pytest
import torch

import dualsolver as ds
from conftest import GAUSSIAN, SCHEDULES
from dualsolver.prediction import KINDS, basis, combine


def native(kind, schedule, data, noise, t):
    alpha, sigma = schedule(t)
    of_data, of_noise = schedule.velocity(alpha, sigma)
    return {"data": data, "noise": noise, "velocity": of_data * data + of_noise * noise}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_prediction_gives_back_the_pair(schedule, kind):
    data, noise = torch.randn(2, 3, 5, dtype=torch.float64)
    t = torch.tensor(0.37, dtype=torch.float64)
    alpha, sigma = schedule(t)
    predict = ds.wrap(lambda x, time: native(kind, schedule, data, noise, t), schedule, kind)
    found = predict(alpha * data + sigma * noise, t)
    assert torch.allclose(found.data, data, atol=1e-10)
    assert torch.allclose(found.noise, noise, atol=1e-10)


def test_velocity_is_v_prediction_for_vp_and_noise_minus_data_for_flow():
    alpha, sigma = torch.tensor(0.8), torch.tensor(0.6)
    assert [x.item() for x in ds.VP.linear().velocity(alpha, sigma)] == pytest.approx([-0.6, 0.8])
    assert [x.item() for x in ds.Flow().velocity(alpha, sigma)] == [-1.0, 1.0]


def test_flow_velocity_needs_no_division_at_pure_noise():
    x = torch.randn(2, 3)
    found = ds.wrap(lambda x, time: 2 * x, ds.Flow())(x, torch.tensor(1.0))
    assert torch.allclose(found.data, -x)
    assert torch.equal(found.noise, x)


def test_undefined_halves_are_refused():
    with pytest.raises(ValueError, match="nothing of the data where alpha = 0"):
        basis("noise", ds.Flow(), torch.tensor(1.0))
    with pytest.raises(ValueError, match="nothing of the noise where sigma = 0"):
        basis("data", ds.Flow(), torch.tensor(0.0))
    with pytest.raises(ValueError, match="prediction must be one of 'noise', 'data', 'velocity'"):
        ds.wrap(lambda x, time: x, ds.Flow(), "score")


def test_network_sees_its_dtype_and_its_own_time():
    seen = []

    def model(x, time):
        seen.append((x.dtype, time.dtype, time.tolist()))
        return x

    found = ds.wrap(model, ds.VP.linear(), "noise", dtype=torch.bfloat16)(
        torch.randn(2, 3), torch.tensor(0.5)
    )
    assert seen == [(torch.bfloat16, torch.float32, [499.0, 499.0])]
    assert found.data.dtype == found.noise.dtype == torch.float32


def test_gradients_reach_time_through_coefficients_and_network():
    schedule, x = ds.VP.continuous(), torch.randn(2, 3, dtype=torch.float64)
    predict = ds.wrap(lambda x, time: x * time.double()[:, None].cos(), schedule, "noise")
    t = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    gradient = torch.autograd.grad(predict(x, t).data.sum(), t)[0]

    def at(value):
        time = schedule.model_time(value)
        alpha, sigma = schedule(value)
        return ((x - sigma * x * time.cos()) / alpha).sum()

    slope = (at(0.4 + 1e-6) - at(0.4 - 1e-6)) / 2e-6
    assert torch.isclose(gradient, slope, rtol=1e-3)  # the network's time is float32


def test_guidance_is_one_call_on_a_doubled_batch():
    calls = []

    def model(x, time, condition):
        calls.append(condition["label"].tolist())
        return x * condition["label"][:, None]

    x, null, cond = (
        torch.randn(2, 3),
        {"label": torch.tensor([10.0, 10.0])},
        {"label": torch.tensor([1.0, 2.0])},
    )
    output = ds.guided(model, 1.5, cond, null)(x, torch.zeros(2))
    assert calls == [[10.0, 10.0, 1.0, 2.0]]
    assert torch.allclose(output, x * (10 + 1.5 * (cond["label"] - 10))[:, None])
    assert torch.equal(ds.guided(model, 1.0, cond, null)(x, torch.zeros(2)), x * cond["label"][:, None])
    assert torch.equal(ds.guided(model, 0.0, cond, null)(x, torch.zeros(2)), x * 10)
    assert len(calls) == 3
    assert calls[1:] == [[1.0, 2.0], [10.0, 10.0]]  # scales 0 and 1 need half the work


def test_guidance_combines_in_float32():
    def model(x, time, condition):
        return torch.tensor([1.0, 1.0078125], dtype=torch.bfloat16)

    assert (
        ds.guided(model, 0.3, torch.ones(1), torch.zeros(1))(torch.ones(1), torch.ones(1)).dtype
        == torch.float32
    )


def test_negative_guidance_is_refused():
    with pytest.raises(ValueError, match="the guidance scale must not be negative"):
        ds.guided(lambda x, time, c: x, -1.0, torch.ones(1), torch.ones(1))


def test_clipping_keeps_the_pair_consistent():
    schedule, x, t = ds.VP.linear(), 3 * torch.randn(50, dtype=torch.float64), torch.tensor(0.6)
    plain = GAUSSIAN.predict(schedule)
    found = ds.clipped(plain, schedule, -0.5, 0.5)(x, t)
    alpha, sigma = schedule(t)
    assert plain(x, t).data.abs().max() > 0.5
    assert found.data.abs().max() == 0.5
    assert torch.allclose(alpha * found.data + sigma * found.noise, x)


def test_checkpointing_changes_no_gradient_and_keeps_no_activation():
    weight = torch.randn(8, 8, requires_grad=True)
    runs = []

    def model(x, time):
        runs.append(torch.is_grad_enabled())
        return torch.tanh(x @ weight)

    def gradient(f):
        x = torch.ones(2, 8, requires_grad=True)
        f(x, torch.zeros(2)).sum().backward()
        return x.grad

    plain = gradient(model)
    assert len(runs) == 1
    assert torch.equal(gradient(ds.checkpointed(model)), plain)
    assert len(runs) == 3


def test_combine_skips_zeros_and_leaves_its_inputs_alone():
    x, y = torch.ones(3), torch.full((3,), float("nan"))
    assert combine([1.0, 0.0], [x, y]) is x
    assert combine([1.0, 2.0], [x, x]).tolist() == [3.0] * 3
    assert combine([0.0, 0.0], [x, x]).tolist() == [0.0] * 3
    assert x.tolist() == [1.0] * 3
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    combine([1.0, weight, 0.5], [x, x, x]).sum().backward()
    assert weight.grad.item() == 3.0


def test_all_schedules_are_covered():
    assert {type(s) for s in SCHEDULES.values()} == {ds.VP, ds.Flow, ds.VE}


def test_what_is_not_a_pair_is_refused():
    schedule, x = ds.Flow(), torch.ones(4, 3)
    table = ds.DPMpp(3)(schedule)
    for predict in (lambda x, t: x, lambda x, t: (x, x[:2]), lambda x, t: None):
        with pytest.raises(ValueError, match=r"returns Prediction\(data, noise\), both of shape \(4, 3\)"):
            ds.sample(predict, x, table)
    with pytest.raises(
        ValueError, match=r"tensor of shape \(4, 3\) like its input, not a tensor of shape \(4, 6\)"
    ):
        ds.sample(ds.wrap(lambda x, time: torch.cat([x, x], 1), schedule), x, table)
    with pytest.raises(ValueError, match="conditions are tensors, or tuples or dicts"):
        ds.guided(lambda x, time, c: x, 2.0, None, None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ds.wrap(None, ds.Flow()), r"called as model\(x, time\), but a NoneType is not callable"),
        (lambda: ds.wrap(torch.sin, "flow"), "a schedule is one of ds.VP, ds.Flow and ds.VE, not 'flow'"),
        (lambda: ds.DDIM(3)("vp"), "a schedule is one of ds.VP, ds.Flow and ds.VE, not 'vp'"),
        (lambda: ds.DualSolver(3)(None), "a schedule is one of ds.VP, ds.Flow and ds.VE, not None"),
        (lambda: from_noise([1.0, 2.0]), r"noise must be a tensor of floating-point .*, not \[1.0, 2.0\]"),
        (lambda: from_noise(torch.tensor(1.0)), r"batch first, not tensor\(1.\)"),
        (lambda: from_noise(torch.ones(2, dtype=torch.int)), "noise must be a tensor of floating-point"),
        (lambda: from_noise(torch.tensor([1.0, math.nan])), "noise must be finite, but holds NaN"),
        (lambda: from_noise(torch.tensor([math.inf])), "noise must be finite"),
        (lambda: ds.clipped(torch.sin, "flow"), "a schedule is one of"),
        (lambda: ds.clipped(torch.sin, ds.Flow(), 1.0, -1.0), "high must be a finite number greater than 1"),
    ],
)
def test_what_is_no_model_schedule_or_noise_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def from_noise(noise):
    return ds.sample(ds.wrap(lambda x, time: x, ds.Flow()), noise, ds.DDIM(2)(ds.Flow()))


def test_a_table_for_another_schedule_is_refused():
    predict = ds.wrap(lambda x, time: x, ds.VP.linear(), "noise")
    with pytest.raises(
        ValueError, match="made for another schedule: its alpha differs from that of vp-linear"
    ):
        ds.sample(predict, torch.ones(2, 3), ds.DPMpp(3)(ds.Flow()))


def test_a_model_may_change_its_time_in_place():
    predict = ds.wrap(lambda x, time: x + time.mul_(2).view(-1, 1), ds.Flow(), "data")
    x = torch.ones(1, 3)
    assert torch.equal(
        ds.sample(predict, x, ds.DDIM(3)(ds.Flow())), ds.sample(predict, x, ds.DDIM(3)(ds.Flow()))
    )


def test_half_precision_predictions_do_not_lower_the_states():
    schedule, seen = ds.Flow(), []

    def predict(x, t):
        seen.append(x.dtype)
        return ds.Prediction(x.bfloat16(), x.bfloat16())

    ds.sample(predict, torch.ones(2, 3), ds.DDIM(3)(schedule))
    assert seen == [torch.float32] * 3
