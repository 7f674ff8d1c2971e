"""The shipped models do what their cards say, without a network; where the dataset is present, on it too."""

import json

import pytest
import torch

import dualsolver as ds
from dualsolver import features
from dualsolver.draws import noise
from dualsolver.metrics import Accuracy, Moments, frechet
from dualsolver.zoo import classifiers, data, entries, generate, measure, references

GENERATORS = ("fashion-dit", "fashion-gmdit")
LEARNERS = [name for name, found in entries.ENTRIES.items() if found.purpose == entries.LEARNING]


@pytest.fixture(scope="module")
def test_split():
    try:
        return data.read("test")
    except ValueError as error:
        pytest.skip(str(error))


def figures(name):
    return json.loads((ds.zoo.path(name) / "figures.json").read_text())


@pytest.fixture(scope="module", params=GENERATORS)
def drawn(request):
    """A generator and 60 guided images of it by few steps, classes in turn."""
    backbone, classes = ds.zoo.load(request.param), torch.arange(60) % 10
    batches = generate.images(backbone, ds.DPMpp(10), classes, backbone.guidance, batch=30)
    return request.param, backbone, classes, torch.cat(list(batches))


def test_samples_are_seen_as_their_class(drawn):
    _, _, classes, images = drawn
    logits = features.of(ds.zoo.load("validation"))(images).logits
    assert Accuracy.of(logits, classes).share > 0.75


def test_an_image_is_the_same_in_any_batch(drawn):
    _, backbone, classes, images = drawn
    alone = generate.images(backbone, ds.DPMpp(10), classes[17:18], backbone.guidance, first=17)
    assert torch.allclose(next(alone)[0], images[17], atol=1e-3)


def test_more_evaluations_come_closer_to_the_exact_solution(drawn):
    _, backbone, classes, _ = drawn
    start = backbone.schedule.prior(noise(backbone.shape, range(4)))
    predict = backbone.predict(classes[:4], backbone.guidance)
    with torch.no_grad():
        exact, *few = (ds.sample(predict, start, ds.DDIM(n)(backbone.schedule)) for n in (80, 5, 10, 20))
    errors = [(x - exact).square().mean().sqrt().item() for x in few]
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]


def test_plain_diffusers_opens_the_dit_and_draws_the_same_image():
    """DiTPipeline with its own DDIM, from the same noise and at the same times, ends at the same image."""
    from diffusers import DiTPipeline

    pipeline = DiTPipeline.from_pretrained(ds.zoo.path("fashion-dit"), local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    labels = pipeline.get_label_ids(["sneaker", "dress"])
    theirs = pipeline(labels, 1.5, generator, num_inference_steps=10, output_type="np").images
    backbone = ds.zoo.load("fashion-dit")
    start = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    times = [(index + 1) / 1000 for index in range(900, -1, -100)] + [0.0]  # their "leading" spacing
    predict = backbone.predict(torch.tensor(labels), 1.5)
    with torch.no_grad():
        ours = backbone.decode(ds.sample(predict, start, ds.DDIM(10, grid=times)(backbone.schedule)))
    assert theirs.shape == (2, 32, 32, 1)
    assert torch.allclose(ours[:, 0], torch.from_numpy(theirs[..., 0]), atol=2e-3)


def test_the_null_class_is_a_row_of_its_own():
    backbone = ds.zoo.load("fashion-dit")
    x, time = torch.randn(2, 4, 8, 8), torch.tensor([500.0, 500.0])
    null = backbone.null(torch.tensor([3, 7]))
    assert null.tolist() == [1000, 1000]
    with torch.no_grad():
        with_class, without = (backbone.model(x, time, c) for c in (torch.tensor([3, 7]), null))
    assert (with_class - without).abs().mean() > 1e-3


def test_classifiers_range_from_weak_to_strong():
    found = [figures(name)["test accuracy"] for name in LEARNERS]
    assert len(found) == 10
    assert min(found) < 0.65
    assert max(found) > 0.92


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["linear-2x2", "mlp-64", "vgg-32", "judge"])
def test_accuracies_are_those_of_the_cards(name, test_split):
    pictures, classes = test_split.pictures[:2000], test_split.classes[:2000]
    share = classifiers.accuracy(ds.zoo.load(name), pictures, classes)
    assert share == pytest.approx(figures(name)["test accuracy"], abs=0.025)  # 4 deviations of 2000 draws


@pytest.mark.dataset
def test_reference_statistics_are_of_these_images(test_split):
    extractor = features.of(ds.zoo.load("validation"))
    seen = measure.look(extractor, torch.split(references.unit(test_split.pictures), 500))
    found, shipped = Moments.of(seen.features).statistics(), references.reference("validation")
    assert shipped.count == 10_000
    assert shipped.source == test_split.hash
    assert frechet(found, shipped) < 1e-3 * float(shipped.sigma.trace())
    assert Accuracy.of(seen.logits, test_split.classes).share == pytest.approx(
        references.accuracy_on_test("validation"), abs=1e-3
    )
