"""`dual-solver sample` as a user runs it: its pictures are those of a plain pipeline with our scheduler."""

import json

import numpy as np
import pytest
import torch
from diffusers import DiTPipeline
from PIL import Image

import dualsolver as ds
import tiny
import tiny_text
from conftest import drawn
from dualsolver import draws, schedule
from dualsolver.backbones import load
from dualsolver.cli import main
from dualsolver.diffusers import DualSolverScheduler


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A tiny DiT, a tiny PixArt and a learned folder."""
    home = tmp_path_factory.mktemp("home")
    tiny.dit(home / "dit")
    tiny_text.pixart(home / "pixart")
    facts = {"schedule": ds.VP.linear(), "prediction": "noise", "guidance": 1.5}
    ds.save([drawn(3, gamma=0.4), drawn(5, gamma=0.4)], home / "learned", **facts)
    return home


def sample(*arguments):
    return main(["sample", "--threads", "1", *map(str, arguments)])


def pixels(path):
    return np.asarray(Image.open(path)).astype(int)


@pytest.mark.parametrize("name", ["dit", "fashion-dit"])
@pytest.mark.parametrize("solver", ["learned", "unipc"])
def test_a_plain_pipeline_with_one_line_gives_the_very_pictures(name, solver, home, tmp_path):
    """Classes by number and by name, seeds as a pipeline's generators; each pixel to its last bit."""
    folder = home / name if name == "dit" else ds.zoo.path(name)
    backbone, labels = home / name if name == "dit" else name, [1, "bag"]
    solver = home / solver if solver == "learned" else solver
    assert not sample("--backbone", backbone, "--solver", solver, "--nfe", 4, "--class", *labels,
                      "--seed", "0..3", "--batch", 3, "--out", tmp_path / "grid.png")  # fmt: skip
    pipe = DiTPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=solver)
    classes = [1, *pipe.get_label_ids(["bag"])] * 4
    generators = [torch.Generator().manual_seed(seed) for seed in range(4) for _ in labels]
    wanted = pipe(classes, 1.5, generators, num_inference_steps=4, output_type="np").images
    made = json.loads((tmp_path / "grid.json").read_text())["pictures"]
    assert [(picture["seed"], picture["class"]) for picture in made] == [
        (seed, label) for seed in range(4) for label in labels
    ]
    assert wanted.std() > 0.05
    for picture, theirs in zip(made, wanted, strict=True):
        found = pixels(tmp_path / picture["file"])
        assert np.abs(found - theirs.squeeze() * 255).max() < 0.51  # rounded to whole numbers


def test_a_seed_is_the_same_picture_in_any_batch(home, tmp_path):
    command = ["--backbone", home / "dit", "--class", "boot", "--nfe", 3]
    assert not sample(*command, "--seed", "0..6", "--out", tmp_path / "many.png")
    assert not sample(*command, "--seed", 3, "--batch", 1, "--out", tmp_path / "one.png")
    many, one = (pixels(tmp_path / name / "seed-3.png") for name in ("many", "one"))
    assert np.abs(many - one).max() <= 1  # sums in another order
    other = pixels(tmp_path / "many" / "seed-4.png")
    assert np.abs(many - other).mean() > 3


def test_the_json_says_everything_that_a_picture_depends_on(home, tmp_path):
    """The pictures again, from nothing but the JSON and the backbone."""
    learned = ["--backbone", home / "dit", "--solver", home / "learned", "--nfe", 5]
    assert not sample(*learned, "--class", 2, "--seed", 7, 2, "--out", tmp_path / "grid.png")
    facts = json.loads((tmp_path / "grid.json").read_text())
    backbone = load(home / "dit")
    assert facts["weights"] == backbone.fingerprint()
    rates = schedule.from_config(facts["schedule"])
    t = torch.tensor(facts["t"], dtype=torch.float64)
    table = ds.Table(t, *rates(t), torch.tensor(facts["coefficients"], dtype=torch.float64))
    assert [picture["seed"] for picture in facts["pictures"]] == [2, 7]
    for picture in facts["pictures"]:
        predict = backbone.predict(backbone.conditions([picture["class"]]), facts["guidance"])
        with torch.no_grad():
            noise = draws.noise(backbone.shape, [picture["seed"]])
            image = backbone.decode(ds.sample(predict, noise, table))[0]
        found = pixels(tmp_path / picture["file"])
        assert np.abs(found - image.permute(1, 2, 0).numpy() * 255).max() < 0.51


def test_a_row_is_a_seed_and_a_column_a_class_or_prompt(home, tmp_path):
    assert not sample("--backbone", home / "dit", "--nfe", 1, "--seed", 0, 5, "--out", tmp_path / "all.png")
    sheet, side, gap = pixels(tmp_path / "all.png"), 16, 2  # three classes, shown four times as large
    small = sheet[::4, ::4]
    assert small.shape == (2 * side + gap, 3 * side + 2 * gap, 3)
    for row, seed in enumerate((0, 5)):
        for column in range(3):
            top, left = row * (side + gap), column * (side + gap)
            single = pixels(tmp_path / "all" / f"seed-{seed}-{column}.png")
            assert np.array_equal(small[top : top + side, left : left + side], single)
    text = ["--backbone", home / "pixart", "--prompt", "a bag", "cab", "--nfe", 2, "--seed", 0]
    assert not sample(*text, "--grid-only", "--out", tmp_path / "text.png")
    assert pixels(tmp_path / "text.png").shape == (64, 4 * (2 * side + gap), 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all", "all.json", "all.png", "text.png"]


def test_what_differs_from_the_learning_is_said(home, tmp_path, caplog):
    command = ["--backbone", home / "dit", "--solver", home / "learned", "--nfe", 3, "--class", 0]
    command += ["--seed", 0, "--grid-only", "--out", tmp_path / "a.png"]
    assert not sample(*command)
    assert not caplog.text
    assert not sample(*command, "--guidance", 4)
    assert "learned was learned with guidance 1.5, but here it is 4.0" in caplog.text


@pytest.mark.parametrize("command", [["sample"], ["zoo", "sample"]])
def test_help_says_what_there_is(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    said = capsys.readouterr().out
    assert all(name in said for name in ("--guidance", "--class", "--prompt", "--seed", "--out"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--class", "dog"], "no class 'dog': there are tench, boot, bag"),
        (["--class", "3"], "no class 3: they are numbered 0 to 2"),
        (["--prompt", "dog"], "has 3 classes, such as tench, boot, bag: name some as --class"),
        (["--seed", "some"], "a seed is a whole number or a range such as 3..9, not 'some'"),
        (["--seed", "-1"], "a seed is a whole number from 0"),
        (["--out", "grid.jpg"], "--out names the grid and ends in .png, not grid.jpg"),
        (["--guidance", "-1"], "the guidance scale must not be negative"),
        (["--batch", "0"], "--batch must be a whole number >= 1, not 0"),
        (["--nfe", "0"], "nfe must be a whole number >= 1, not 0"),
        (["--device", "cudaa"], "no device cudaa: "),
        (["--solver", "nowhere"], "no folder nowhere of a learned solver, and no fixed solver of that name"),
        (["--solver", "dual"], "dual is learned: give the folder that holds its values"),
        (["--solver", "LEARNED", "--nfe", "9"], "NFE 9 was not learned"),
        (
            ["--backbone", "fashion-dti"],
            "no folder fashion-dti and no hub id (OWNER/NAME); built in: ",
        ),
        (["--backbone", "judge"], "no folder judge and no hub id"),
        (["--backbone", "LEARNED"], "cannot load the index of"),
        (["--backbone", "toy"], "toy makes no pictures: its samples have shape (4,)"),
        (["--backbone", "PIXART"], "draws what a text says: give it as --prompt"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, words, home, tmp_path, capsys):
    folders = {"LEARNED": str(home / "learned"), "PIXART": str(home / "pixart")}
    command = ["--backbone", home / "dit", "--out", tmp_path / "grid.png"]
    assert sample(*command, *(folders.get(a, a) for a in arguments)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("dual-solver: ")
    assert words in error
    assert not list(tmp_path.iterdir())
