"""Metrics against closed forms, against torch-fidelity on the same features, and under any split."""

import zipfile

import numpy as np
import pytest
import torch
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric

from dualsolver.metrics import Accuracy, Moments, frechet, precision_recall
from dualsolver.statistics import Statistics


def draw(count, width, seed=0, scale=1.0, offset=0.0):
    g = torch.Generator().manual_seed(seed)
    mixing = torch.randn(width, width, generator=g, dtype=torch.float64) / width**0.5
    return torch.randn(count, width, generator=g, dtype=torch.float64) @ mixing * scale + offset


def split(x, seed):
    """Cut x into a random number of parts of random sizes, in a random order."""
    g = torch.Generator().manual_seed(seed)
    cuts = torch.randperm(len(x) - 1, generator=g)[: int(torch.randint(0, 8, (), generator=g))].add(1).sort()
    parts = torch.tensor_split(x, cuts.values)
    return [parts[i] for i in torch.randperm(len(parts), generator=g)]


@pytest.mark.parametrize("seed", range(20))
def test_moments_are_the_same_under_any_split(seed):
    x = draw(60, 5, seed, offset=1e4)  # a large offset ruins sums of squares
    parts = [Moments.of(part) for part in split(x, seed)]
    half = len(parts) // 2 or 1
    trees = [sum(group[1:], group[0]) for group in (parts[:half], parts[half:]) if group]
    found = sum(trees[1:], trees[0]).statistics()  # two processes, merged
    assert found.count == 60
    assert np.allclose(found.mu, x.numpy().mean(0), rtol=1e-14)
    assert np.allclose(found.sigma, np.cov(x.numpy(), rowvar=False), rtol=1e-9, atol=1e-11)
    assert torch.equal(Moments.over([x]).scatter, Moments.of(x).scatter)


def test_frechet_of_gaussians_that_commute_has_a_closed_form():
    """|mu1 - mu2|^2 + sum (s1 - s2)^2 over shared axes, rotated."""
    axes = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double()).Q
    s1, s2 = torch.linspace(0.1, 2, 6).double(), torch.tensor([1.0, 0.0, 3.0, 0.2, 0.2, 1.0]).double()
    mu1, mu2 = torch.zeros(6), torch.linspace(-1, 1, 6).double()
    first, second = (
        Statistics(mu, (axes * s**2) @ axes.T) for mu, s in ((axes @ mu1.double(), s1), (axes @ mu2, s2))
    )
    wanted = (mu2.square().sum() + (s1 - s2).square().sum()).item()
    assert frechet(first, second) == pytest.approx(wanted, rel=1e-7)
    assert frechet(second, first) == pytest.approx(wanted, rel=1e-7)
    assert frechet(first, first) == pytest.approx(0, abs=1e-7)


def test_frechet_agrees_with_scipys_matrix_root():
    from scipy.linalg import sqrtm

    a, b = (Moments.of(draw(200, 8, seed, scale=seed + 1.0)).statistics() for seed in (0, 1))
    cross = np.trace(sqrtm(a.sigma.numpy() @ b.sigma.numpy()).real)
    wanted = (a.mu - b.mu).square().sum() + a.sigma.trace() + b.sigma.trace() - 2 * cross
    assert frechet(a, b) == pytest.approx(wanted.item(), rel=1e-10)


@pytest.mark.parametrize(("count", "width"), [(400, 16), (50, 100)], ids=["full rank", "fewer than D"])
def test_frechet_is_torch_fidelitys(count, width):
    real, fake = draw(count, width, 0), draw(count, width, 1, scale=1.3, offset=0.2)
    theirs = fid_statistics_to_metric(*map(fid_features_to_statistics, (fake, real)), verbose=False)
    found = frechet(*(Moments.over(split(x, 3)).statistics() for x in (fake, real)))
    assert found == pytest.approx(theirs["frechet_inception_distance"], abs=1e-3, rel=1e-6)


@pytest.mark.parametrize(
    ("seed", "scale", "k", "block"), [(0, 0.8, 3, 7), (1, 1.5, 3, 64), (2, 1.0, 5, 1000)]
)
def test_precision_and_recall_are_torch_fidelitys(seed, scale, k, block):
    real, fake = draw(300, 6, seed), draw(250, 6, seed, scale=scale, offset=0.1) + 5e-3
    theirs = prc_features_to_metric(
        fake, real, prc_neighborhood=k, prc_batch_size=100, save_cpu_ram=False, verbose=False
    )
    precision, recall = precision_recall(real, fake, k, block)
    assert 0.05 < recall < 0.999
    assert precision == pytest.approx(theirs["precision"], abs=1e-6)
    assert recall == pytest.approx(theirs["recall"], abs=1e-6)


def test_precision_and_recall_of_a_dropped_mode_and_of_an_invented_one():
    """Two far clusters: generating one of them has full precision and half the recall, and the reverse."""
    both = torch.cat([draw(100, 4, 0), draw(100, 4, 0, offset=50.0)])
    one = draw(100, 4, 0) * 0.999
    assert precision_recall(both, one) == (1.0, 0.5)
    assert precision_recall(one, both)[0] == 0.5


def test_precision_does_not_notice_a_far_origin():
    real, fake = draw(200, 6, 0), draw(200, 6, 1)
    assert precision_recall(real + 1e5, fake + 1e5) == precision_recall(real, fake)


def test_accuracy_merges():
    logits, classes = draw(40, 3), torch.arange(40) % 3
    whole = Accuracy.of(logits, classes)
    parts = [Accuracy.of(logits[i : i + 7], classes[i : i + 7]) for i in range(0, 40, 7)]
    assert sum(parts[1:], parts[0]) == whole
    assert whole.share == pytest.approx((logits.argmax(1) == classes).double().mean().item())


def test_statistics_come_back_and_adms_layout_is_read(tmp_path):
    made = Moments.of(draw(30, 4)).statistics("cafe")
    made.save(tmp_path / "own.npz")
    again = Statistics.load(tmp_path / "own.npz")
    assert (again.count, again.source) == (30, "cafe")
    assert torch.equal(again.mu, made.mu)
    assert torch.equal(again.sigma, made.sigma)
    adm = {"arr_0": np.zeros((2, 8, 8, 3), np.uint8), "mu": made.mu.numpy().astype("float32")}
    np.savez(tmp_path / "adm.npz", sigma=made.sigma.numpy(), **adm)
    read = Statistics.load(tmp_path / "adm.npz")
    assert (read.count, read.source) == (None, None)
    assert frechet(read, made) == pytest.approx(0, abs=1e-6)


def bomb(path, length):
    """An array whose header says that it is larger than it is, which NumPy makes room for before it reads."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("mu.npy", "w") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(80))


def test_files_that_are_no_statistics_are_refused_in_one_line(tmp_path):
    np.savez(tmp_path / "half.npz", mu=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", mu=np.array([{}], dtype=object), sigma=np.zeros((1, 1)))
    np.savez(tmp_path / "lopsided.npz", mu=np.zeros(2), sigma=np.array([[1.0, 2.0], [0.0, 1.0]]))
    Moments.of(draw(30, 4)).statistics().save(tmp_path / "own.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "own.npz").read_bytes()[:300])
    (tmp_path / "text.npz").write_text("nothing")
    np.save(tmp_path / "array.npz.npy", np.zeros(2))
    np.savez(tmp_path / "none.npz", mu=np.zeros(0), sigma=np.zeros((0, 0)))
    np.savez(tmp_path / "words.npz", mu=np.array(["a"]), sigma=np.eye(1))
    np.savez(tmp_path / "counts.npz", mu=np.zeros(1), sigma=np.eye(1), count=np.array([1, 2]))
    bomb(tmp_path / "bomb.npz", 10**12)
    found = {"half": "lacks sigma", "pickled": "npz", "lopsided": "symmetric", "cut": "npz", "text": "npz"}
    found |= {"none": "shapes", "words": "mu must hold real", "counts": "count must be a single value"}
    found |= {"bomb": r"mu: its shape \(1000000000000,\) of float64 does not fit its"}
    for name, words in {**found, "absent": "no statistics", "array.npz.npy": "npz"}.items():
        path = tmp_path / (name if "." in name else f"{name}.npz")
        with pytest.raises(ValueError, match=words) as error:
            Statistics.load(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Moments.of(torch.zeros(3)), "features must be a tensor"),
        (lambda: Moments.of(torch.tensor([[float("nan")]])), "not finite"),
        (lambda: Moments.over([]), "no batch"),
        (lambda: Moments.of(torch.zeros(1, 2)).statistics(), "at least 2 images"),
        (lambda: precision_recall(torch.zeros(3, 2), torch.zeros(9, 2)), "more than 3 rows"),
        (lambda: precision_recall(torch.zeros(9, 2), torch.zeros(9, 3)), "2 numbers"),
        (
            lambda: frechet(Statistics([0.0], [[1.0]]), Statistics(torch.zeros(2), torch.eye(2))),
            "same feature",
        ),
        (lambda: Accuracy.of(torch.zeros(3, 2), torch.zeros(2)), "shapes"),
        (lambda: Statistics(torch.zeros(2), torch.eye(3)), "shapes"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
