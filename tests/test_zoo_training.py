"""The zoo's training: the same bits whether or not it was interrupted, and what randomness it draws."""

from dataclasses import replace
from functools import partial

import pytest
import torch

import dualsolver as ds
from dualsolver import backbones
from dualsolver.zoo import augment, classifiers, data, fit, generators, measure, training
from dualsolver.zoo.entries import ENTRIES
from dualsolver.zoo.training import Recipe, Run, indices, seed_of, train

RECIPE = Recipe(steps=12, batch=16, warmup=3, ema=0.9, augment=2, seed=7)
OPTIONS = {
    "family": "mlp",
    "size": 4,
    "widths": [8],
    "dropout": 0.5,
}  # dropout, norms: hidden randomness and state


def images(count=80):
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (count, 1, 32, 32), generator=generator, dtype=torch.uint8)
    return data.Images(pictures, torch.randint(0, 10, (count,), generator=generator), "none")


def run(path, recipe=RECIPE, stop=10**9):
    torch.manual_seed(recipe.seed)
    task = classifiers.task(OPTIONS, recipe.augment, images())
    found = Run(task.model, recipe, path)
    records = list(train(found, task.loss, task.count, every=4, stop=lambda: found.step >= stop))
    return found, records


def test_a_run_that_was_stopped_continues_to_the_same_bits(tmp_path):
    whole, records = run(tmp_path / "whole")
    part, _ = run(tmp_path / "part", stop=8)
    part.save()
    torch.rand(5)  # what else the process draws does not matter
    continued, later = run(tmp_path / "part")
    assert continued.step == whole.step == 12
    assert [r.loss for r in later] == [r.loss for r in records[2:]]
    assert continued.log == whole.log
    for name, value in whole.average.items():
        assert torch.equal(value, continued.average[name]), name
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, continued.model.state_dict()[name]), name


def test_a_run_that_was_stopped_between_two_records_logs_the_same_losses(tmp_path):
    whole, _ = run(tmp_path / "whole")
    part, _ = run(tmp_path / "part", stop=7)
    part.save()
    continued, _ = run(tmp_path / "part")
    assert continued.log == whole.log


@pytest.mark.parametrize(
    "damage",
    [lambda x: x[:500], lambda x: x[:-4], lambda x: b"", lambda x: x.replace(b"average", b"averagf")],
)
def test_a_damaged_state_is_named(damage, tmp_path):
    found, _ = run(tmp_path / "state", stop=4)
    found.save()
    (tmp_path / "state").write_bytes(damage((tmp_path / "state").read_bytes()))
    with pytest.raises(ValueError, match=r"state is damaged \(.*\): delete it to train anew") as error:
        run(tmp_path / "state")
    assert "\n" not in str(error.value)


def test_a_training_is_saved_in_parts_and_its_folder_held(tmp_path, monkeypatch):
    task = classifiers.task(ENTRIES["mlp-16"].options, 0, images(200))
    monkeypatch.setattr(fit, "prepare", lambda *_: (ENTRIES["mlp-16"], task))
    saved = []
    monkeypatch.setattr(Run, "save", lambda self: saved.append(self.step))
    steps = fit.fit("mlp-16", tmp_path)
    while next(steps)[0].step < 400:
        pass
    assert saved == [75, 150, 225, 300, 375]  # of 3000
    with pytest.raises(ValueError, match="mlp-16: another process is at work there"):
        next(fit.fit("mlp-16", tmp_path))
    steps.close()


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(4)
    task = classifiers.task(OPTIONS, 0, images())
    found = Run(task.model, replace(RECIPE, steps=2))
    torch.manual_seed(3)
    list(train(found, task.loss, task.count))
    assert torch.equal(torch.rand(4), expected)


def test_a_state_of_another_recipe_is_refused_but_its_length_may_change(tmp_path):
    first, _ = run(tmp_path / "state", stop=4)
    first.save()
    with pytest.raises(ValueError, match="another recipe"):
        run(tmp_path / "state", replace(RECIPE, batch=8))
    longer, _ = run(tmp_path / "state", replace(RECIPE, steps=16))
    assert longer.step == 16
    assert longer.plans == [[0, 12], [4, 16]]


def test_a_run_further_along_starts_from_the_shipped_weights_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "prepare", lambda *_: (ENTRIES["mlp-16"], task))
    monkeypatch.setattr(fit, "finish", lambda run, *_: finished.append(run))
    monkeypatch.setattr(fit, "remember", lambda name: None)
    options, finished = ENTRIES["mlp-16"].options, []
    for further in (True, False):
        task = classifiers.task(options, 0, images(200))
        steps = fit.fit("mlp-16", tmp_path / str(further), further=further)
        next(steps)  # fifty small steps away
        shipped = ds.zoo.load("mlp-16").state_dict()["head.weight"]
        near = (task.model.state_dict()["head.weight"] - shipped).abs().mean() < 0.05
        assert near == further
    task = classifiers.task(options, 0, images(200))
    list(fit.fit("mlp-16", tmp_path / "True", further=True))
    assert finished[0].plans == [[0, 3000], [0, 3000]]


def test_what_a_generator_is_worth_along_the_way_is_noted_and_noise_is_worth_less(tmp_path, monkeypatch):
    shipped = ds.zoo.load("fashion-dit").transformer.state_dict()
    small = partial(measure.watched, count=60)
    monkeypatch.setattr(measure, "watched", small)
    found = Run(ds.zoo.load("fashion-dit").transformer, RECIPE)
    noise = {name: torch.randn_like(value) * value.std() for name, value in shipped.items()}
    for step, weights in ((50, shipped), (100, noise), (50, shipped)):  # the third: after a kill
        found.step, found.average = step, weights
        fit._watch("fashion-dit", found, tmp_path / "distances.csv")
        if step == 100:
            _, good, bad = (tmp_path / "distances.csv").read_text().splitlines()
            assert float(bad.split(",")[1]) > 2 * float(good.split(",")[1])
    assert (tmp_path / "distances.csv").read_text().splitlines() == ["step,distance", good]


def test_a_kill_while_writing_leaves_the_state_before(tmp_path, monkeypatch):
    found, _ = run(tmp_path / "state", stop=4)
    found.save()
    before = (tmp_path / "state").read_bytes()

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    found.step = 9
    with pytest.raises(KeyboardInterrupt):
        found.save()
    assert (tmp_path / "state").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_every_epoch_visits_every_example_once_in_another_order():
    recipe = Recipe(steps=100, batch=8)
    epochs = [torch.cat([indices(40, recipe, 5 * epoch + i) for i in range(5)]) for epoch in range(2)]
    assert all(sorted(epoch.tolist()) == list(range(40)) for epoch in epochs)
    assert not torch.equal(*epochs)


def test_seeds_differ_in_every_part_and_fit_torchs_generator():
    seeds = {seed_of(seed, 2, step) for seed in range(20) for step in range(500)}
    assert len(seeds) >= 9999  # 2^32 leaves room for a collision, not for two
    assert max(seeds) < 2**32


def test_the_average_forgets_the_beginning():
    """With a constant weight the average equals it soon, however slow the average is in the end."""
    model = torch.nn.Linear(1, 1)
    found = Run(model, replace(RECIPE, ema=0.9999))
    with torch.no_grad():
        model.weight.fill_(5.0)
    for found.step in range(200):
        training._average(found)
    assert found.average["weight"].item() == pytest.approx(5, abs=1e-3)


def test_a_loss_that_is_not_finite_stops_the_run():
    found = Run(torch.nn.Linear(1, 1), RECIPE)
    with pytest.raises(ValueError, match="loss is nan at step 0"):
        next(train(found, lambda model, chosen: model(torch.full((1, 1), torch.nan)).sum(), 80))


def test_augmentation_moves_and_mirrors_but_keeps_what_is_inside():
    torch.manual_seed(0)
    x = torch.zeros(200, 1, 32, 32)
    x[:, :, 10:14, 5:9] = torch.rand(200, 1, 4, 4)
    moved = augment.shift(x)
    assert torch.allclose(moved.sum((1, 2, 3)), x.sum((1, 2, 3)))
    tops = [int(image[0].sum(1).nonzero()[0]) for image in moved]
    assert set(tops) == {8, 9, 10, 11, 12}
    flipped = augment.flip(x)
    same = (flipped == x).all(-1).all(-1).all(-1)
    assert 70 < same.sum() < 130
    assert torch.equal(flipped[~same], x[~same].flip(-1))


def test_erasing_fills_one_rectangle():
    torch.manual_seed(0)
    changed = (augment.erase(torch.zeros(300, 1, 32, 32)) != 0)[:, 0]
    touched = changed.any(-1).any(-1)
    assert 110 < touched.sum() < 190
    for image in changed[touched]:
        assert image.sum() == image.any(0).sum() * image.any(1).sum()  # rows times columns


def test_times_are_spread_over_the_batch_and_labels_are_dropped_as_often_as_said():
    torch.manual_seed(0)
    assert (generators.levels(64) * 64).long().tolist() == list(range(64))
    dropped = generators.labels(torch.ones(20_000, dtype=torch.long)) == generators.NULL
    assert dropped.double().mean().item() == pytest.approx(generators.DROPPED, abs=0.01)


def test_a_saved_generator_has_the_shipped_autoencoder_and_says_nothing_of_where_it_was_made(tmp_path):
    small = {"num_attention_heads": 1, "attention_head_dim": 8, "num_layers": 1}
    generators.save_gmdit(generators.gmdit(small | {"num_gaussians": 2, "logstd_inner_dim": 4}), tmp_path)
    for name in ("config.json", "diffusion_pytorch_model.safetensors"):
        shipped = (ds.zoo.path("autoencoder") / name).read_bytes()
        assert (tmp_path / "vae" / name).read_bytes() == shipped
    assert not [file for file in tmp_path.rglob("*.json") if "_name_or_path" in file.read_text()]
    loaded = backbones.load(tmp_path)
    assert loaded.kind == "velocity"
    assert len(loaded.classes) == 10
