"""Classifiers: preprocessing against torchvision's and timm's, gradients, loading, refusals, real weights."""

import warnings

import numpy as np
import pytest
import torch
from accelerate import init_empty_weights
from PIL import Image
from torch import nn
from torch.autograd import forward_ad
from torchvision import models

import assets
from dualsolver.classifiers import (
    PAPER,
    Classifier,
    Preprocess,
    load_classifier,
    paper_classifiers,
    straight_through_clamp,
)
from dualsolver.classifiers.fresh import untrained
from dualsolver.classifiers.load import timm_preprocess
from dualsolver.classifiers.views import viewed, views
from dualsolver.classifiers.vision import build, preprocess_of, resolve
from dualsolver.classifiers.weights import fit_in

SMALL = ["mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x1_0", "regnet_x_400mf"]
IDENTITY = Preprocess(8, 8, (0.0,) * 3, (1.0,) * 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def trained_looking(layer, seed=0):
    """Give a head's entries tails, as training does."""
    scale = torch.randn(layer.weight.shape[1:], generator=generator(seed)).exp()
    layer.weight.data = torch.randn(layer.weight.shape, generator=generator(seed + 1)) * scale * 0.05


@pytest.fixture
def weights_file(tmp_path):
    """A file of random weights for mobilenet_v2 whose head could have been trained."""
    torch.manual_seed(0)
    network = models.mobilenet_v2()
    trained_looking(network.classifier[1])
    torch.save(network.state_dict(), tmp_path / "mine.pth")
    return tmp_path / "mine.pth"


class Linear(nn.Module):
    """The smallest classifier of 8 x 8 RGB images."""

    def __init__(self, classes=10):
        super().__init__()
        self.fc = nn.Linear(3 * 64, classes)
        trained_looking(self.fc)

    def forward(self, x):
        return self.fc(x.flatten(1))


def small_classifier():
    return Classifier("small", Linear(), IDENTITY)


# The clamp and the preprocessing


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_clamp_has_clamps_values_and_the_identitys_gradient():
    x = (torch.randn(1000, generator=generator()) * 1e3).requires_grad_()
    wanted = torch.randn(1000, generator=generator(1))
    assert torch.equal(straight_through_clamp(x), x.clamp(0, 1))  # x - x is exactly zero, whatever its size
    assert torch.equal(torch.autograd.grad(straight_through_clamp(x), x, wanted)[0], wanted)
    with forward_ad.dual_level():
        dual = straight_through_clamp(forward_ad.make_dual(x.detach(), wanted))
        assert torch.equal(forward_ad.unpack_dual(dual).tangent, wanted)


@pytest.mark.parametrize("shape", [(300, 451), (451, 300), (256, 256), (64, 64)])
@pytest.mark.parametrize("name", ["vit_h_14", "efficientnet_b5", "swin_v2_t", "convnext_base", "alexnet"])
def test_preprocessing_is_torchvisions(name, shape):
    images = torch.rand(1, 3, *shape, generator=generator())
    weights = resolve(name)
    found, wanted = preprocess_of(weights)(images), weights.transforms()(images)
    assert torch.allclose(found, wanted, atol=1e-4)


def test_every_paper_classifier_is_preprocessed_as_torchvision_does():
    images = torch.rand(1, 3, 120, 97, generator=generator())
    for name in PAPER:
        weights = resolve(name)
        assert torch.allclose(preprocess_of(weights)(images), weights.transforms()(images), atol=1e-4), name


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_gradient_of_the_preprocessing(kind):
    preprocess = Preprocess(6, 4, (0.4, 0.5), (0.2, 0.3), kind)
    images = torch.rand(1, 2, 9, 11, generator=generator(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(preprocess, images)


def test_a_crop_larger_than_the_image_pads_as_torchvision_does():
    from torchvision.transforms.functional import center_crop

    images = torch.rand(1, 1, 5, 8, generator=generator())
    found = Preprocess(5, 11, (0.0,), (1.0,))(images)
    assert torch.equal(found, center_crop(images, [11, 11]))


def test_grey_images_are_three_equal_channels():
    grey = torch.rand(2, 1, 20, 20, generator=generator())
    classifier = small_classifier()
    assert torch.equal(classifier(grey), classifier(grey.expand(-1, 3, -1, -1)))


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        (torch.zeros(1, 4, 8, 8), "3 channels"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), r"float images .* not torch.uint8"),
        (torch.zeros(3, 8, 8), r"not torch.float32 \(3, 8, 8\)"),
    ],
)
def test_other_images_are_refused(images, reason):
    with pytest.raises(ValueError, match=reason):
        small_classifier()(images)


# The classifier


def test_images_beyond_the_ends_are_judged_as_clamped_and_can_come_back():
    classifier = small_classifier()
    images = (torch.randn(4, 3, 8, 8, generator=generator()) * 2).requires_grad_()
    assert torch.equal(classifier(images), classifier(images.clamp(0, 1)))
    gradient = torch.autograd.grad(classifier(images)[:, 0].sum(), images)[0]
    wanted = classifier.network.fc.weight[0].view(3, 8, 8).expand(4, -1, -1, -1)
    assert torch.allclose(gradient, wanted)


def test_logits_are_float32_of_any_input_and_under_autocast():
    classifier = small_classifier()
    images = torch.rand(2, 3, 8, 8, generator=generator())
    plain = classifier(images)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(classifier(images), plain)
    assert classifier(images.bfloat16()).dtype == classifier(images.double()).dtype == torch.float32


def test_features_without_a_head_are_not_logits():
    network = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten())
    trained_looking(network[0])
    with pytest.raises(ValueError, match=r"one of its 16 classes each, not \(2, 576\)"):
        Classifier("headless", network, IDENTITY)(torch.zeros(2, 3, 8, 8))


def test_a_classifier_is_frozen_and_its_hash_knows_its_weights():
    network = Linear().train()
    classifier = Classifier("small", network, IDENTITY)
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())
    other = Linear()
    other.fc.bias.data[0] += 1e-6
    assert classifier.sha256 != Classifier("other", other, IDENTITY).sha256
    assert classifier.sha256 != Classifier("longer", Linear(11), IDENTITY).sha256


# Heads that were never trained


STARTS = {
    "torch": lambda layer: None,
    "mobilenet": lambda layer: (nn.init.normal_(layer.weight, 0, 0.01), nn.init.zeros_(layer.bias)),
    "zeros": lambda layer: nn.init.zeros_(layer.weight),
    "truncated": lambda layer: (
        nn.init.trunc_normal_(layer.weight, 0, 0.02, -0.04, 0.04),
        nn.init.zeros_(layer.bias),
    ),
    "xavier": lambda layer: nn.init.xavier_uniform_(layer.weight),
}


@pytest.mark.parametrize("shape", [(64, 10), (512, 10), (1280, 1000)])
@pytest.mark.parametrize("start", STARTS)
def test_an_initialised_head_is_seen(start, shape):
    torch.manual_seed(1)
    layer = nn.Linear(*shape)
    STARTS[start](layer)
    assert untrained(layer)
    with pytest.raises(ValueError, match="never trained"):
        Classifier("fresh", nn.Sequential(nn.Flatten(), layer), IDENTITY)


@pytest.mark.parametrize("start", STARTS)
def test_a_head_stops_looking_fresh_when_it_is_trained(start):
    """Logistic regression on three blobs, features after a ReLU with scales of their own, as in a network."""
    torch.manual_seed(0)
    layer, centres = nn.Linear(64, 10), torch.randn(10, 64)
    STARTS[start](layer)
    labels = torch.arange(10).repeat(50)
    features = (centres[labels] + torch.randn(500, 64)).relu() * torch.linspace(0.2, 2, 64)
    optimiser = torch.optim.Adam(layer.parameters(), 1e-2)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(layer(features), labels).backward()
        optimiser.step()
    assert not untrained(layer)


# The paper's twenty


def test_the_papers_table():
    """Top-5 as the paper prints it, first and last row and the most efficient one; all have 1000 classes."""
    rows = {row.name: row for row in paper_classifiers()}
    assert len(rows) == 20
    assert (rows["vit_h_14"].top5, rows["vit_h_14"].size) == (98.694, 518)
    assert (rows["mobilenet_v3_large"].top5, rows["mobilenet_v3_large"].gflops) == (92.566, 0.217)
    assert (rows["alexnet"].top5, rows["alexnet"].size) == (79.066, 224)
    assert all(len(resolve(name).meta["categories"]) == 1000 for name in PAPER)
    assert all(str(resolve(weights)) == weights for weights in PAPER.values())


@pytest.mark.parametrize(
    "name", [*PAPER, "inception_v3", "googlenet", "ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1"]
)
def test_our_network_is_what_torchvisions_builder_makes(name, monkeypatch):
    """Same names, shapes and order of parameters as the builder with the weights, and 1000 logits."""
    weights = resolve(name)
    ours = build(weights)
    builder = getattr(models, str(weights).split("_Weights")[0].lower())
    with monkeypatch.context() as patch:
        patch.setattr(models.WeightsEnum, "get_state_dict", lambda self, **rest: {})
        patch.setattr(nn.Module, "load_state_dict", lambda self, state, **rest: None)
        with init_empty_weights():
            theirs = builder(weights=weights)
    auxiliary = ("aux", "AuxLogits")  # heads that only training uses, which the builder drops
    shapes = {k: v.shape for k, v in ours.state_dict().items() if not k.startswith(auxiliary)}
    assert shapes == {k: v.shape for k, v in theirs.state_dict().items() if not k.startswith(auxiliary)}
    assert getattr(ours, "transform_input", None) == getattr(theirs, "transform_input", None)
    images = preprocess_of(weights)(torch.zeros(1, 3, 64, 64, device="meta"))
    assert ours.to("meta").eval()(images).shape == (1, 1000)


@pytest.mark.parametrize("name", SMALL)
def test_the_small_ones_run_with_random_weights(name, tmp_path):
    """From a file, equal to torchvision's own network and transforms, and every pixel has a gradient."""
    torch.manual_seed(0)
    network = models.get_model(name).eval()
    trained_looking([m for m in network.modules() if isinstance(m, nn.Linear)][-1])
    torch.save(network.state_dict(), tmp_path / "mine.pth")
    with pytest.warns(UserWarning, match="not the published"):
        classifier = load_classifier(f"{name}={tmp_path / 'mine.pth'}")
    images = torch.rand(1, 3, 300, 260, generator=generator(), requires_grad=True)
    logits = classifier(images)
    with torch.no_grad():
        wanted = network(resolve(name).transforms()(images))
    assert torch.allclose(logits, wanted, atol=1e-4 * wanted.abs().max().item())
    assert classifier.classes == 1000
    gradient = torch.autograd.grad(logits.logsumexp(1).sum(), images)[0]
    assert (gradient[..., 40:-40, 40:-40].abs().sum(1) > 0).float().mean() > 0.9


# Loading


def test_loading_draws_no_random_numbers_and_knows_the_state(weights_file):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with pytest.warns(UserWarning, match="b0353104"):
        first = load_classifier(f"mobilenet_v2={weights_file}")
    build(resolve("vit_h_14"))  # draws its positions outside of torch.nn.init
    assert torch.equal(before, torch.get_rng_state())
    with pytest.warns(UserWarning, match="b0353104"):
        second = load_classifier(f"MobileNet_V2_Weights.IMAGENET1K_V1={weights_file}")
    assert first.sha256 == second.sha256
    assert first.name == "MobileNet_V2_Weights.IMAGENET1K_V1"


def test_safetensors_are_read_too(weights_file, tmp_path):
    from safetensors.torch import save_file

    state = torch.load(weights_file, weights_only=True)
    save_file(state, tmp_path / "mine.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (
            load_classifier(f"mobilenet_v2={f}") for f in (weights_file, tmp_path / "mine.safetensors")
        )
    assert one.sha256 == two.sha256


def changed(state, change):
    if change == "no head":
        del state["classifier.1.weight"], state["classifier.1.bias"]
    if change == "other head":
        state["fc.weight"] = state.pop("classifier.1.weight")
    if change == "ten classes":
        state["classifier.1.weight"] = state["classifier.1.weight"][:10]
    if change == "fresh head":
        torch.manual_seed(0)
        state["classifier.1.weight"] = nn.Linear(1280, 1000).weight.data
    return state


@pytest.mark.filterwarnings("ignore:.*not the published")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("no head", r"classifier\.1\.weight, classifier\.1\.bias is missing"),
        ("other head", r"classifier\.1\.weight is missing"),
        ("ten classes", r"size mismatch for classifier\.1\.weight.*\[10, 1280\]"),
        ("fresh head", "never trained"),
    ],
)
def test_a_file_without_a_trained_head_is_refused(weights_file, change, reason):
    torch.save(changed(torch.load(weights_file, weights_only=True), change), weights_file)
    with pytest.raises(ValueError, match=reason):
        load_classifier(f"mobilenet_v2={weights_file}")


@pytest.mark.filterwarnings("ignore:.*not the published")
def test_damaged_and_foreign_files_are_refused(weights_file, tmp_path):
    official = tmp_path / "mobilenet_v2-b0353104.pth"
    official.write_bytes(weights_file.read_bytes())
    with pytest.raises(ValueError, match="is damaged: its sha256 begins"):
        load_classifier(f"mobilenet_v2={official}")
    half = tmp_path / "half.pth"
    half.write_bytes(weights_file.read_bytes()[:100_000])
    for name in ("half.pth", "nothing.safetensors"):
        (tmp_path / "nothing.safetensors").write_bytes(b"")
        with pytest.raises(ValueError, match=f"cannot read .*{name}"):
            load_classifier(f"mobilenet_v2={tmp_path / name}")
    torch.save(Linear(), tmp_path / "whole.pth")
    with pytest.raises(ValueError, match="whole pickled model"):
        load_classifier(f"mobilenet_v2={tmp_path / 'whole.pth'}")
    torch.save({"epoch": 3, "model": {}}, tmp_path / "checkpoint.pth")
    with pytest.raises(ValueError, match=r"not epoch, model: save model.state_dict\(\) alone"):
        load_classifier(f"mobilenet_v2={tmp_path / 'checkpoint.pth'}")
    with pytest.raises(ValueError, match="there is no file"):
        load_classifier("mobilenet_v2=/nowhere/mine.pth")


def test_weights_that_cannot_be_had_name_the_place(tmp_path, monkeypatch):
    from urllib.error import URLError

    def offline(*args, **rest):
        raise URLError("offline")

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    monkeypatch.setattr(torch.hub, "urlopen", offline)
    with pytest.raises(ValueError, match=r"not in .*checkpoints and https://.*pth cannot be had .*offline"):
        load_classifier("alexnet")
    (tmp_path / "checkpoints" / "alexnet-owt-7be5be79.pth").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"alexnet-owt-7be5be79\.pth is damaged"):
        load_classifier("alexnet")


@pytest.mark.parametrize("spec", ["", 3, "resnet9000", "AlexNet_Weights.IMAGENET1K_V7", "zoo:nothing"])
def test_wrong_names_are_refused(spec):
    with pytest.raises(ValueError, match=r"named by text|torchvision has no classifier|the zoo's classifier"):
        load_classifier(spec)


def test_fit_in_makes_float32_of_half(weights_file):
    state = {k: v.half() if v.is_floating_point() else v for k, v in torch.load(weights_file).items()}
    network = build(resolve("mobilenet_v2"))
    fit_in(network, state, "halves")
    assert {p.dtype for p in network.parameters()} == {torch.float32}


def test_the_zoos_classifiers_see_images_as_they_were_trained(monkeypatch):
    """They take -1 to 1; the judge only reports."""
    from dualsolver import zoo
    from dualsolver.zoo.networks import FAMILIES

    torch.manual_seed(0)
    network = FAMILIES["mlp"](16, [64])
    trained_looking(network.head)
    monkeypatch.setattr(zoo, "names", lambda kind: ["judge", "mlp-64"])
    monkeypatch.setattr(zoo, "load", lambda name: network)
    images = torch.rand(2, 1, 32, 32, generator=generator()) * 2 - 0.5
    classifier = load_classifier("zoo:mlp-64")
    assert torch.allclose(classifier(images), network(images.clamp(0, 1) * 2 - 1), atol=1e-5)
    assert classifier.classes == 10
    with pytest.raises(ValueError, match="the zoo's classifier must be one of 'mlp-64', not 'judge'"):
        load_classifier("zoo:judge")


def test_every_shipped_classifier_is_taken_for_a_trained_one():
    from dualsolver import zoo

    images = torch.rand(4, 1, 32, 32, generator=generator())
    for name in zoo.names("classifier"):
        if name != "judge":
            wanted = zoo.load(name)(images * 2 - 1)
            assert torch.allclose(load_classifier(f"zoo:{name}")(images), wanted, atol=1e-4), name


# timm


def test_timm_models_come_with_their_own_preprocessing(tmp_path):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    network = timm.create_model("resnet18").eval()
    trained_looking(network.fc)
    torch.save(network.state_dict(), tmp_path / "mine.pth")
    classifier = load_classifier(f"timm:resnet18={tmp_path / 'mine.pth'}")
    images = torch.rand(1, 3, 300, 260, generator=generator())
    with torch.no_grad():
        assert torch.allclose(classifier(images), network(classifier.preprocess(images)), atol=1e-4)
    with pytest.raises(ValueError, match="timm gives no resnet9000"):
        load_classifier("timm:resnet9000=there")
    with pytest.raises(ValueError, match="has no classifier's head"):
        load_classifier("timm:vit_small_patch14_dinov2=there")


@pytest.mark.parametrize("mode", ["center", "squash"])
def test_timms_crops(mode):
    """Against timm's own transform, which works on bytes: it rounds twice, by half a level."""
    data = pytest.importorskip("timm.data")
    config = {"input_size": (3, 96, 96), "interpolation": "bilinear", "mean": (0.5,) * 3, "std": (0.5,) * 3}
    config |= {"crop_pct": 0.9, "crop_mode": mode}
    smooth = torch.nn.functional.interpolate(
        torch.rand(1, 3, 5, 6, generator=generator()), (200, 240), mode="bicubic"
    )
    picture = (smooth.clamp(0, 1) * 255).round().byte()
    pil = Image.fromarray(picture[0].permute(1, 2, 0).numpy().astype(np.uint8))
    wanted = data.create_transform(**config)(pil)
    found = timm_preprocess(config)(picture.float() / 255)[0]
    assert (found - wanted).abs().max() < 2 * 1.01 / 255


# Real weights


@pytest.mark.assets
def test_mobilenet_v2_classifies_photographs():
    """torchvision's own file: its hash fits, and a cat and a cup are what they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = load_classifier(f"mobilenet_v2={assets.mobilenet()}")
    names = resolve("mobilenet_v2").meta["categories"]
    for picture, name, probability in (
        (assets.cat(), "Egyptian cat", 0.717),
        (assets.coffee(), "espresso", 0.992),
    ):
        found = classifier(picture).softmax(1)[0]
        assert names[int(found.argmax())] == name
        assert found.max().item() == pytest.approx(probability, abs=0.05)


@pytest.mark.assets
def test_weights_come_from_torchs_cache(tmp_path, monkeypatch):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / assets.mobilenet().name).symlink_to(assets.mobilenet())
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    by_name, by_file = load_classifier("mobilenet_v2"), load_classifier(f"mobilenet_v2={assets.mobilenet()}")
    assert by_name.sha256 == by_file.sha256


@pytest.mark.assets
def test_mobilenet_v2_leads_images_to_a_class():
    """What learning needs: steps along the gradient of the cross entropy turn noise into the wanted class."""
    classifier = load_classifier(f"mobilenet_v2={assets.mobilenet()}")
    x = (torch.rand(1, 3, 64, 64, generator=generator()) * 3 - 1).requires_grad_()
    wanted = torch.tensor([285])
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(classifier(x), wanted)
        gradient = torch.autograd.grad(loss, x)[0]
        x = (x - 2 * gradient / gradient.norm()).detach().requires_grad_()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_all_views_of_an_image_have_to_agree():
    """A classifier of contrast alone is swayed by it; the mean over the views is not."""
    images = torch.rand(4, 1, 32, 32, generator=generator())

    def contrast(x):
        return torch.stack([100 * x.std((1, 2, 3)), torch.full((len(x),), 20.0)], 1)

    def shape(x):
        return torch.stack([x[:, 0, 16:].mean((1, 2)), x[:, 0, :16].mean((1, 2))], 1)

    found = viewed(contrast)(images).exp()
    assert (contrast(images).softmax(1)[:, 0] > 0.99).all()
    assert (found[:, 0] < contrast(images).softmax(1)[:, 0]).all()
    torch.testing.assert_close(viewed(shape)(images).argmax(1), shape(images).argmax(1))
    left, right = views(images)[3:]
    assert torch.equal(left[..., :-2], images[..., 2:])
    assert torch.equal(right[..., 2:], images[..., :-2])
