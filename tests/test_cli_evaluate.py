"""`dual-solver evaluate` as a user runs it: killed, resumed, by two processes, on text, wrongly."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
import tiny_clip
import tiny_text
from dualsolver.backbones import load
from dualsolver.captions import coco, prompts
from dualsolver.cli import main
from dualsolver.clip import load as scorer
from dualsolver.features import pixels
from dualsolver.images import read
from dualsolver.metrics import Moments
from dualsolver.statistics import Statistics

COUNT = 1000


@pytest.fixture(scope="module")
def statistics(tmp_path_factory):
    path = tmp_path_factory.mktemp("statistics") / "real.npz"
    Statistics(torch.full((4,), 0.6), 0.1 * torch.eye(4) + 0.05).save(path)
    return path


def command(statistics, out, *more, count=COUNT):
    base = ["evaluate", "--backbone", "toy", "--solver", "ddim", "--nfe", "3", "--network"]
    return [*base, f"pixels={statistics}", "--count", str(count), "--out", str(out), "--threads", "1", *more]


def result(out):
    [path] = out.glob("*/result.json")
    return json.loads(path.read_text())


def values(found):
    """All figures with their errors, in a row."""
    return [
        x for figure in found["figures"].values() for x in (figure if isinstance(figure, list) else [figure])
    ]


@pytest.fixture(scope="module")
def whole(statistics, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    assert main(command(statistics, out)) == 0
    return result(out)


def test_kill_9_and_the_same_command_count_nothing_twice(statistics, whole, tmp_path):
    """Killed three times, each after another saving of 20 batches."""
    line = [sys.executable, "-m", "dualsolver.cli", *command(statistics, tmp_path, "--batch", "10")]
    before = -1
    for _ in range(3):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and size(tmp_path) <= before:
            time.sleep(0.01)
        before = size(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not list(tmp_path.glob("*/result.json"))
    assert main(line[3:]) == 0
    found = result(tmp_path)["figures"]
    assert found["images"] == COUNT
    for name, (value, _) in list(whole["figures"].items())[1:]:
        assert found[name][0] == pytest.approx(value, rel=1e-5), name


def size(out):
    """The last time that sums were saved."""
    return max((path.stat().st_mtime_ns for path in out.glob("*/*.safetensors")), default=-1)


def test_two_processes_and_the_shares_of_two_machines_are_one_run(statistics, whole, tmp_path):
    launch = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29519", "-m"]
    line = [sys.executable, "-m", *launch, "dualsolver.cli", *command(statistics, tmp_path, "--write", "150")]
    done = subprocess.run(line, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ddim, NFE 3: images 1000") == 1
    assert values(result(tmp_path)) == pytest.approx(values(whole), rel=1e-9)
    assert len(list(tmp_path.glob("*/images/*.png"))) == 150
    [share] = tmp_path.glob("*/1-of-2.safetensors")
    kept = share.read_bytes()
    share.unlink()  # the other machine's
    assert main(command(statistics, tmp_path)) == 0
    assert values(result(tmp_path)) == pytest.approx(values(whole), rel=1e-9)
    share.write_bytes(kept)
    assert main(command(statistics, tmp_path)) == 2  # both hold the same batches


def test_images_are_written_as_png_and_npz_after_the_sums_too(statistics, tmp_path):
    assert main(command(statistics, tmp_path, count=230)) == 0
    figures = result(tmp_path)["figures"]
    assert main(command(statistics, tmp_path, "--npz", count=230)) == 0
    assert result(tmp_path)["figures"] == figures
    [packed] = tmp_path.glob("*/*.npz")
    assert packed.name == "samples_230x1x4x1.npz"
    with np.load(packed) as file:
        images, classes = file["arr_0"], file["arr_1"]
    assert images.shape == (230, 1, 4, 1)
    assert images[:].mean() / 255 == pytest.approx(figures["pixel mean"][0], abs=2e-3)
    means = [images[classes == i].mean() / 255 * 4 - 2 for i in range(3)]
    assert means == pytest.approx([-1.0, 0.6, 1.5], abs=0.15)
    picture = np.array(Image.open(packed.parent / "images" / "000017.png"))
    assert (picture == images[17, ..., 0]).all()


def test_precision_and_recall_say_of_how_many_and_how_sure(statistics, tmp_path):
    toy = load("toy")
    torch.manual_seed(0)
    real = toy.decode(torch.cat([toy.parts[0].draw((250, 4)), toy.parts[2].draw((250, 4)) + 0.5]))
    np.savez(tmp_path / "real.npz", arr_0=(real * 255).round().byte()[:, None, :, None].numpy())
    more = ["--real", str(tmp_path / "real.npz"), "--keep", "450"]
    assert main(command(statistics, tmp_path / "out", *more)) == 0
    figures = result(tmp_path / "out")["figures"]
    assert figures["precision and recall of (pixels)"] == 450
    for name in ("precision (pixels)", "recall (pixels)"):
        value, error = figures[name]
        assert 0.02 < value < 0.98
        assert 0.001 < error < 0.1


def test_prompts_are_taken_in_turn_and_scored_by_clip(tmp_path):
    pipeline, clip = tiny_text.pixart(tmp_path / "pixart"), tiny_clip.folder(tmp_path / "clip")
    prompts = ["a bag", "a badge", "feed a cab", "a deaf face"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    arguments = ["evaluate", "--backbone", str(pipeline), "--solver", "dpmpp", "--nfe", "2", "--count", "12"]
    arguments += ["--batch", "4", "--prompts", str(tmp_path / "prompts.txt"), "--clip", str(clip)]
    arguments += ["--write", "12", "--out", str(tmp_path / "out"), "--threads", "1"]
    assert main(arguments) == 0
    found = result(tmp_path / "out")
    value, error = found["figures"]["clip score (clip)"]
    assert found["figures"]["images"] == 12
    [folder] = tmp_path.glob("out/*/images")
    scores = scorer(str(clip)).score(read(str(folder), 12), prompts * 3)
    assert value == pytest.approx(scores.mean().item(), abs=2e-3)
    groups = scores.double().view(3, 4).mean(1)
    assert error == pytest.approx((groups.var() / 3).sqrt().item(), abs=2e-3)


def test_sfid_is_measured_where_the_reference_has_it(tmp_path, monkeypatch):
    """The spatial part must be that of ADM: zero against itself, and large for other images."""
    torch.manual_seed(0)
    plain = pixels(None, "cpu")

    def spatial(images):
        return plain(images)._replace(spatial=images.flatten(1)[:, :2] ** 2)

    monkeypatch.setattr("dualsolver.features.EXTRACTORS", {"pixels": lambda weights, device: spatial})
    job = load("toy")
    images = job.decode(job.parts[-1].draw((3000, 1)).expand(3000, 4).float())
    inner = Moments.of(images[:, :2] ** 2).statistics()
    of = Moments.of(images).statistics()
    path = tmp_path / "adm.npz"
    Statistics(of.mu, of.sigma, spatial=inner).save(path)
    assert main(command(path, tmp_path / "out")) == 0
    figures = result(tmp_path / "out")["figures"]
    assert figures["frechet (pixels, spatial)"][0] < 0.05
    Statistics(of.mu, of.sigma, spatial=Statistics(inner.mu + 1, inner.sigma)).save(path)
    assert main(command(path, tmp_path / "out")) == 0
    assert result(tmp_path / "out")["figures"]["frechet (pixels, spatial)"][0] == pytest.approx(2, abs=0.2)


def test_captions_are_one_an_image_whatever_the_order_of_the_file(tmp_path, capsys):
    texts = {(i, k): f" image {i},\n text {k} " for i in range(50) for k in range(5)}
    rows = [{"image_id": i, "id": 10 * i + k, "caption": text} for (i, k), text in texts.items()]
    for name, order in (("a", rows), ("b", rows[::-1])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"annotations": order}))
        line = ["captions", str(tmp_path / f"{name}.json"), "--out", str(tmp_path / name), "--count"]
        assert main([*line, "40"]) == 0
    assert "40 captions" in capsys.readouterr().out
    lines = (tmp_path / "a").read_text().splitlines()
    assert lines == (tmp_path / "b").read_text().splitlines()
    assert len({line.split(",")[0] for line in lines}) == len(lines) == 40
    assert {line.split(", ")[1] for line in lines} == {f"text {k}" for k in range(5)}
    assert coco(tmp_path / "a.json", 40, seed=1) != lines
    assert main([*line, "51"]) == 2
    assert "has captions of 50 images, not 51" in capsys.readouterr().err


ROW = {"image_id": 1, "id": 1, "caption": "a cat"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"annotations": [ROW, {**ROW, "caption": 5}]}, r"annotations\[1\].caption must be a text, not 5"),
        ({"annotations": [{**ROW, "caption": "\ud800"}]}, r"annotations\[0\].caption must be a text"),
        (
            {"annotations": [ROW, {**ROW, "image_id": "x"}]},
            r"annotations\[1\].image_id must be a whole number",
        ),
        ({"annotations": [{"image_id": 1, "caption": "a"}]}, r"annotations\[0\].id must be a whole number"),
        ({"annotations": 7}, "annotations must be a list, not 7"),
        ({"annotations": []}, "annotations holds no caption"),
        ({"a": {"prompt": "x"}, "b": {"prompt": ["y"]}}, r"b.prompt must be a text, not \['y'\]"),
        ({"a": "x"}, "a.prompt must be a text, not None"),
        ({}, "is empty"),
        ([], "it is a list, not an object"),
    ],
)
def test_prompts_that_are_none_are_named(content, words, tmp_path):
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"prompts.json.*{words}") as found:
        prompts(path)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", "0"], "--count must be a whole number >= 1, not 0"),
        (["--network", "inception"], "inception needs statistics of real images"),
        (["--network", "pixels=none.npz"], "no statistics at none.npz"),
        (["--solver", "magic"], "no folder magic of a learned solver, and no fixed solver of that name"),
        (["--solver", "ddim", "ddim"], "a solver is named twice among ddim ddim"),
        (["--prompts", "p.txt"], "toy takes classes, not prompts"),
        (["--real", "nowhere"], "nowhere is no folder of images and no .npz with arr_0"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(arguments, words, statistics, tmp_path, capsys):
    assert main(command(statistics, tmp_path, *arguments)) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_statistics_of_other_features_are_refused_before_anything_is_counted(tmp_path, capsys):
    Statistics(torch.zeros(5), torch.eye(5)).save(tmp_path / "five.npz")
    assert main(command(tmp_path / "five.npz", tmp_path / "out", "--npz")) == 2
    assert "the statistics are of 5 features, but the network has 4" in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*/*.json"))


def test_fewer_images_than_features_are_warned_of(statistics, tmp_path, caplog):
    assert main(command(statistics, tmp_path, count=4)) == 0
    assert "4 images for 4 features (pixels): their covariance is singular" in caplog.text


def test_a_full_disk_is_one_line_and_what_was_saved_stays(statistics, whole, tmp_path, capsys, monkeypatch):
    """The system's own error, from a device that is always full."""
    import dualsolver.tally as tally

    real, calls = tally.write_whole, []

    def full(path, content):
        calls.append(path)
        if len(calls) > 1:
            with open("/dev/full", "wb") as file:
                file.write(content)
        real(path, content)

    monkeypatch.setattr(tally, "write_whole", full)
    assert main(command(statistics, tmp_path, "--batch", "20")) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "No space left on device" in line
    assert line.endswith("make room and repeat the command, which goes on from what is there")
    monkeypatch.undo()
    assert main(command(statistics, tmp_path, "--batch", "20")) == 0
    assert result(tmp_path)["figures"]["images"] == COUNT


def test_a_pipeline_of_images_is_sampled_by_the_same_command(tmp_path):
    pipeline = tiny.dit(tmp_path / "dit")
    arguments = ["evaluate", "--backbone", str(pipeline), "--solver", "ddim", "--nfe", "2", "--count", "6"]
    assert main([*arguments, "--npz", "--out", str(tmp_path / "out"), "--threads", "1"]) == 0
    [packed] = tmp_path.glob("out/*/*.npz")
    assert packed.name == "samples_6x16x16x3.npz"
