"""Sampling at scale on the toy backbone: nothing counted twice, the same sums in any split, honest errors."""

import json
from dataclasses import replace

import pytest
import torch

import dualsolver as ds
from dualsolver.backbones import load
from dualsolver.evaluate import estimates, evaluate, gathered, report
from dualsolver.features import Seen
from dualsolver.metrics import Accuracy, Moments, frechet, precision_recall
from dualsolver.sampling import Sampling
from dualsolver.statistics import Statistics
from dualsolver.tally import spread

TOY = load("toy")
MEANS = torch.tensor([-1.0, 0.6, 1.5])


def look(images):
    """Features are the pixels, and a logit says how near a class is."""
    data = (images - 0.5) * 4
    return Seen(data, -(data.mean(1, keepdim=True) - MEANS).abs())


def sampling(count=600, seed=0, batch=20, nfe=4):
    return Sampling(TOY, ds.DDIM(nfe)(TOY.schedule), TOY.classes, 1.0, seed, count, batch)


def run(job, folder, rank=0, count=1, stop=None, keep=0):
    for done in evaluate(job, {"pixels": look}, folder, {"solver": "ddim"}, keep, rank, count):
        if stop is not None and done >= stop:
            break


def book_of(folder, keep=0, **facts):
    return gathered(folder, {"solver": "ddim", "keep": keep, **facts})


def sum_of(book):
    first, *rest = (tally.moments["pixels"] for tally in book.groups.values())
    for moments in rest:
        first = first + moments
    return first


def test_the_sums_are_those_of_all_images_together(tmp_path):
    job = sampling(count=250, batch=20)
    run(job, tmp_path, keep=100)
    made = [job.images(batch) for batch in job.batches()]
    images, classes = (torch.cat([getattr(batch, part) for batch in made]) for part in ("images", "classes"))
    wanted = Moments.of(look(images.clamp(0, 1)).features)
    book = book_of(tmp_path, keep=100)
    assert sum_of(book).count == len(images) == 250
    assert torch.allclose(sum_of(book).mean, wanted.mean, rtol=1e-12)
    assert torch.allclose(sum_of(book).scatter, wanted.scatter, rtol=1e-10)
    real = torch.randn(80, 4)
    found = report(book, {"pixels": Statistics(torch.zeros(4), torch.eye(4))}, {"pixels": real})
    assert found["images"] == 250
    reference = Statistics(torch.zeros(4), torch.eye(4))
    assert found["frechet (pixels)"][0] == pytest.approx(frechet(wanted.statistics(), reference), rel=1e-9)
    right = Accuracy.of(look(images.clamp(0, 1)).logits, classes)
    assert found["accuracy (pixels)"][0] == pytest.approx(right.share)
    precision, recall = precision_recall(real, look(images[:100].clamp(0, 1)).features)
    assert (found["precision (pixels)"][0], found["recall (pixels)"][0]) == (precision, recall)
    flat = images.double()
    assert found["pixel clipped"][0] == pytest.approx(float(((flat <= 0) | (flat >= 1)).double().mean()))
    assert found["pixel deviation"][0] == pytest.approx(float(flat.clamp(0, 1).std(1).mean()))


def test_an_image_is_the_same_in_any_batch(tmp_path):
    one, other = sampling(batch=20).images(2).images, sampling(batch=50).images(0).images
    assert torch.allclose(one[:10], other[40:], atol=1e-6)


@pytest.mark.parametrize("stops", [[10], [250, 30], [500, 10, 10]])
def test_a_run_that_was_stopped_counts_nothing_twice(stops, tmp_path):
    run(sampling(), tmp_path / "whole")
    for stop in stops:
        run(sampling(), tmp_path / "parts", stop=stop)
    run(sampling(), tmp_path / "parts")
    whole, parts = sum_of(book_of(tmp_path / "whole")), sum_of(book_of(tmp_path / "parts"))
    assert whole.count == parts.count == 600
    assert torch.allclose(whole.scatter, parts.scatter, rtol=1e-10)


def test_a_kill_costs_a_fortieth_and_an_interrupt_leaves_nothing_half_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("dualsolver.evaluate.QUICK", 60)  # however busy this machine is
    job = sampling(count=1600)
    running = evaluate(job, {"pixels": look}, tmp_path, {"solver": "ddim"})
    while next(running) < 1020:
        pass
    with pytest.raises(KeyboardInterrupt):  # which may come anywhere, so nothing is saved any more
        running.throw(KeyboardInterrupt)
    assert len(book_of(tmp_path).done) in (49, 50)


def test_a_second_process_in_the_same_folder_is_told_so(tmp_path):
    first = evaluate(sampling(), {"pixels": look}, tmp_path, {"solver": "ddim"})
    next(first)
    with pytest.raises(ValueError, match="another process is at work there"):
        run(sampling(), tmp_path)
    run(sampling(), tmp_path, rank=1, count=2)  # of those that share, rank 0 answers
    first.close()
    run(sampling(), tmp_path)
    assert sum_of(book_of(tmp_path)).count == 600


def test_any_number_of_processes_go_on_with_what_others_left(tmp_path):
    run(sampling(), tmp_path / "whole")
    run(sampling(), tmp_path / "parts", stop=460)  # one process saves 400 of the 600 and is killed
    for rank in range(3):
        run(sampling(), tmp_path / "parts", rank, 3)
    assert len(list((tmp_path / "parts").iterdir())) > 1
    whole, parts = book_of(tmp_path / "whole"), book_of(tmp_path / "parts")
    assert whole.done == parts.done
    assert torch.allclose(sum_of(whole).mean, sum_of(parts).mean, rtol=1e-10)


def test_another_run_is_refused_in_the_same_folder(tmp_path):
    run(sampling(), tmp_path)
    with pytest.raises(ValueError, match="counts images with seed = 0, not 1: repeat that command"):
        run(sampling(seed=1), tmp_path)
    with pytest.raises(ValueError, match="counts images with solver = ddim, not unipc"):
        gathered(tmp_path, {"solver": "unipc"})


def test_a_solver_that_diverges_is_named_and_nothing_of_it_counted(tmp_path):
    job = sampling()
    table = replace(job.table, weights=job.table.weights * 1e20)
    with pytest.raises(ValueError, match="images of batch 0 are not finite: the solver diverges"):
        run(replace(job, table=table), tmp_path)
    assert not book_of(tmp_path).done


def test_a_damaged_file_is_named_and_its_share_made_again(tmp_path):
    run(sampling(), tmp_path)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="safetensors is damaged"):
        run(sampling(), tmp_path)
    path.unlink()
    run(sampling(), tmp_path)
    assert sum_of(book_of(tmp_path)).count == 600


def test_the_same_sums_are_the_same_bytes(tmp_path):
    run(sampling(), tmp_path / "run")
    book = book_of(tmp_path / "run")
    for i in range(8):
        book.save(tmp_path / str(i), {"count": 600, "seed": 0})
    assert len({(tmp_path / str(i)).read_bytes() for i in range(8)}) == 1


def edited(content, change):
    """The bytes of a safetensors file with other notes."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    notes = json.loads(header["__metadata__"]["notes"])
    change(notes)
    header["__metadata__"]["notes"] = json.dumps(notes)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda notes: notes.pop("facts"), "it lacks facts"),
        (lambda notes: notes.pop("hits"), "it lacks hits"),
        (lambda notes: notes.update(done=[1.5]), "done must be a whole number"),
        (lambda notes: notes.update(done=7), "not iterable"),
        (lambda notes: notes.update(scores={"x": {}}), "it lacks x/pixels"),
        (lambda notes: notes.update(hits={"0/pixels": [0, None, None]}), "hits of 0/pixels must be"),
        (lambda notes: notes.update(hits={"0/pixels": 5}), "unpack"),
    ],
)
def test_damaged_notes_are_named(change, words, tmp_path):
    run(sampling(), tmp_path)
    [path] = tmp_path.iterdir()
    path.write_bytes(edited(path.read_bytes(), change))
    with pytest.raises(ValueError, match=rf"safetensors is damaged \(.*{words}.*\): delete it") as found:
        run(sampling(), tmp_path)
    assert "\n" not in str(found.value)


def test_standard_errors_are_the_spread_over_seeds_and_a_shared_noise_makes_a_difference_surer(tmp_path):
    reference, found = {"pixels": Statistics(torch.zeros(4), torch.eye(4))}, {2: [], 3: []}
    for seed in range(30):
        for nfe, figures in found.items():
            run(sampling(count=200, seed=seed, nfe=nfe), tmp_path / f"{nfe}-{seed}")
            figures.append(estimates(book_of(tmp_path / f"{nfe}-{seed}"), reference, {}))
    for name in ("frechet (pixels)", "pixel mean"):
        two, three = found.values()
        values, errors = (torch.tensor([f[name][i] for f in two], dtype=torch.float64) for i in (0, 1))
        assert 0.6 < float(errors.mean() / values.std()) < 1.6, name
        apart = [b[name].value - a[name].value for a, b in zip(two, three, strict=True)]
        without = [torch.tensor([a[name].without, b[name].without]) for a, b in zip(two, three, strict=True)]
        paired = torch.tensor([spread(pair.diff(dim=0)[0].tolist()) for pair in without])
        assert 0.6 < float(paired.mean() / torch.tensor(apart).std()) < 1.6, name
        assert paired.mean() < errors.mean() / 3
