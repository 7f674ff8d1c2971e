"""Feature distances: LPIPS against its formula written out and a published value, real pictures, refusals."""

import warnings
from pathlib import Path

import lpips
import pytest
import torch
from torch.nn import functional
from torchvision import models

import assets
from dualsolver.classifiers import feature_distance, perceptual

AFTER = {"alex": [1, 4, 7, 9, 11], "vgg": [3, 8, 15, 22, 29]}  # the ReLUs that LPIPS looks at


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(*shape, seed=0):
    return torch.rand(*shape, generator=generator(seed))


def by_formula(net, features, first, second):
    """LPIPS as its paper writes it: unit features, squared differences, weights >= 0, mean over positions."""
    heads = torch.load(
        Path(lpips.__file__).parent / "weights" / "v0.1" / f"{net}.pth", "cpu", weights_only=True
    )
    shift, scale = (torch.tensor(v)[:, None, None] for v in ([-0.030, -0.088, -0.188], [0.458, 0.448, 0.450]))
    x, y = ((2 * v - 1 - shift) / scale for v in (first, second))
    total, level = 0, 0
    for i, layer in enumerate(features):
        x, y = layer(x), layer(y)
        if i in AFTER[net]:
            difference = (functional.normalize(x, dim=1) - functional.normalize(y, dim=1)) ** 2
            total = total + functional.conv2d(difference, heads[f"lin{level}.model.1.weight"]).mean((1, 2, 3))
            level += 1
    return total


def random_trunk(net, tmp_path):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trunk = {"alex": models.alexnet, "squeeze": models.squeezenet1_1}[net]()
    torch.save(trunk.state_dict(), tmp_path / f"{net}.pth")
    return trunk.features, tmp_path / f"{net}.pth"


@pytest.mark.filterwarnings("ignore:.*not the published")
def test_lpips_is_its_formula_on_the_trunk_of_the_file(tmp_path):
    features, file = random_trunk("alex", tmp_path)
    before = torch.get_rng_state()
    distance = perceptual(f"alex={file}")
    assert torch.equal(before, torch.get_rng_state())
    x, y = images(2, 3, 70, 90), images(2, 3, 70, 90, seed=1)
    with torch.no_grad():
        wanted = by_formula("alex", features, x, y)
    assert torch.allclose(distance(x, y), wanted, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*not the published")
def test_squeeze_has_seven_levels_and_a_gradient(tmp_path):
    _, file = random_trunk("squeeze", tmp_path)
    distance = perceptual("squeeze", file)
    x, y = images(2, 1, 32, 32).requires_grad_(), images(2, 1, 32, 32, seed=1)
    found = distance(x, y)
    assert found.shape == (2,)
    first = torch.autograd.grad(found[0], x)[0]
    assert first[1].abs().max() == 0  # images do not mix
    assert first[0].abs().max() > 0
    assert not any(p.requires_grad for p in distance.network.parameters())


@pytest.mark.filterwarnings("ignore:.*not the published")
def test_small_grey_images_are_enlarged_and_coloured(tmp_path):
    distance = perceptual("alex", random_trunk("alex", tmp_path)[1])
    x, y = images(2, 1, 32, 32), images(2, 1, 32, 32, seed=1)
    large = [functional.interpolate(v, (64, 64), mode="bilinear").expand(-1, 3, -1, -1) for v in (x, y)]
    assert torch.allclose(distance(x, y), distance(*large))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(distance(x, y), distance(x, y))
        assert distance(x, y).dtype == torch.float32


def test_what_lpips_cannot_do_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(ValueError, match=r"alexnet-owt-7be5be79\.pth: name its file \(alex=path"):
        perceptual("alex")
    with pytest.raises(ValueError, match="net must be one of 'alex', 'vgg', 'squeeze'"):
        perceptual("resnet")
    torch.save({"features.0.weight": torch.zeros(3)}, tmp_path / "short.pth")
    with (
        pytest.warns(UserWarning, match="not the published"),
        pytest.raises(ValueError, match=r"features\.0\.weight of shape \(64, 3, 11, 11\): the file has none"),
    ):
        perceptual("alex", tmp_path / "short.pth")


def test_feature_distance_is_a_mean_square_of_every_feature():
    x, y = images(3, 2, 4, 4), images(3, 2, 4, 4, seed=1)
    one = feature_distance(lambda v: 3 * v)(x, y)
    assert torch.allclose(one, 9 * ((x - y) ** 2).mean((1, 2, 3)))
    two = feature_distance(lambda v: [3 * v, v.mean((2, 3))])(x, y)
    assert torch.allclose(two, one + ((x - y).mean((2, 3)) ** 2).mean(1))
    with pytest.raises(ValueError, match="one shape"):
        feature_distance(lambda v: v)(x, y[:1])


@pytest.mark.assets
@pytest.mark.filterwarnings("ignore:.*not the published")
def test_vgg_gives_the_value_that_torchmetrics_documents():
    """0.3493 in its old example, the mean of ten pairs of uniform noise; a pair deviates by about 0.013."""
    distance = perceptual("vgg", assets.trunk("vgg"))
    x, y = (images(3, 3, 100, 100, seed=seed) for seed in (0, 1))
    with torch.no_grad():
        assert distance(x, y).mean().item() == pytest.approx(0.3493, abs=0.015)


@pytest.mark.assets
@pytest.mark.filterwarnings("ignore:.*not the published")
def test_alex_sees_blur_where_squared_error_sees_a_shift_of_brightness():
    """Why it exists: at equal squared error, a blurred cat is further away than a brighter one."""
    distance = perceptual("alex", assets.trunk("alex"))
    cat = assets.cat()[..., 50:250, 120:320]
    blurred = functional.avg_pool2d(cat, 7, 1, 3, count_include_pad=False)
    brighter = cat + ((blurred - cat) ** 2).mean().sqrt()
    with torch.no_grad():
        same, blur, bright = (distance(x, cat).item() for x in (cat, blurred, brighter))
    assert same == 0
    assert blur > 5 * bright > 0
