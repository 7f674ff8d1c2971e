"""Learning through CLIP: the loss against open_clip's, and parts of a batch against the whole."""

import json

import open_clip
import pytest
import torch
from torch.nn.functional import normalize

import dualsolver as ds
from dualsolver import captions
from dualsolver.backbones import load
from dualsolver.clip import Scorer
from dualsolver.contrast import Contrast, Cosine, contrast
from dualsolver.named import pairs
from dualsolver.objectives import Defects, Mixed
from dualsolver.task import Task, Workers

PROMPTS = ["zero", "one", "two"]


def scorer(seed=0):
    """Linear vectors of the toy's images and fixed ones of its classes: a gradient, and nothing to train."""
    weights = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))
    texts = normalize(torch.randn(3, 8, generator=torch.Generator().manual_seed(seed + 1)), dim=1)

    def see(images):
        return normalize(images.flatten(1)[:, :3] @ weights, dim=1)

    def read(prompts):
        return torch.stack([texts[int(p[-1]) if p[-1].isdigit() else PROMPTS.index(p)] for p in prompts])

    return Scorer(None, "none", see, read)


def learned(objective, micro=None, ranks=1):
    """Loss and gradient of one step of 7 samples, shared by workers that really add up."""
    toy = load("toy")
    task = Task(toy, objective, toy.classes, seed=3, micro=micro)
    solver = ds.DualSolver(3)
    rows = [torch.zeros(0)] * ranks

    def remember(rank):
        def add(x):
            rows[rank] = x
            return x

        return add

    if ranks > 1:  # what each says of its own, before anybody knows all
        for rank in range(ranks):
            task.loss(solver, range(7)[rank::ranks], 7, False, Workers(rank, ranks, remember(rank)))
    whole, found = sum(rows), 0.0
    for rank in range(ranks):
        workers = Workers(rank, ranks, (lambda x: whole) if ranks > 1 else (lambda x: x))
        found += task.loss(solver, range(7)[rank::ranks], 7, True, workers)
    return found, torch.cat([p.grad.flatten() for p in solver.parameters()])


def test_the_loss_is_open_clips():
    torch.manual_seed(0)
    images, texts = (normalize(torch.randn(9, 16), dim=1) for _ in range(2))
    theirs = open_clip.loss.ClipLoss()(images, texts, logit_scale=1 / 0.07)
    assert torch.allclose(contrast(images, texts).mean(), theirs, atol=1e-6)


@pytest.mark.parametrize(
    "objective", [Contrast([scorer()]), Mixed([(0.5, Contrast([scorer()])), (2, Defects())])]
)
@pytest.mark.parametrize(("micro", "ranks"), [(3, 1), (1, 1), (None, 2), (2, 3)])
def test_parts_and_processes_compare_with_the_whole_batch(objective, micro, ranks):
    whole, gradient = learned(objective)
    found, parts = learned(objective, micro, ranks)
    assert found == pytest.approx(whole, rel=1e-5)
    assert gradient.norm() > 1e-4
    assert torch.allclose(parts, gradient, rtol=1e-4, atol=1e-6 * float(gradient.norm()))


def test_a_contrast_of_less_than_the_batch_would_be_another_loss():
    whole, _ = learned(Contrast([scorer()]))
    toy = load("toy")
    task = Task(toy, Contrast([scorer()]), toy.classes, seed=3)
    halves = [task.loss(ds.DualSolver(3), part, 7, False) for part in (range(3), range(3, 7))]
    assert abs(sum(halves) - whole) > 0.05


def test_several_models_have_the_mean_of_their_cosines():
    toy = load("toy")
    one, two, both = (
        Task(toy, Cosine([scorer(s) for s in seeds]), toy.classes, seed=1).losses(ds.DualSolver(3), range(5))
        for seeds in ((0,), (5,), (0, 5))
    )
    assert torch.allclose(both, (one + two) / 2, atol=1e-6)


def test_only_one_objective_compares_within_a_batch():
    with pytest.raises(ValueError, match="only one objective"):
        Mixed([(1, Contrast([scorer()])), (1, Contrast([scorer()]))])


def test_the_judge_is_not_for_learning():
    with pytest.raises(ValueError, match="CLIP model must be one of"):
        pairs(["zoo:emoji-judge"], "cpu")
    with pytest.raises(ValueError, match="name a model"):
        pairs([], "cpu")


def test_prompts_come_from_lines_and_from_both_kinds_of_json(tmp_path):
    lines, coco, mjhq, bad = (tmp_path / name for name in ("p.txt", "coco.json", "mjhq.json", "bad.json"))
    lines.write_text("a cat\n\na dog\n")
    row = {"image_id": 1, "id": 2, "caption": "a  bird"}
    coco.write_text(json.dumps({"annotations": [row]}))
    mjhq.write_text(json.dumps({"b": {"category": "x", "prompt": "two"}, "a": {"prompt": "one"}}))
    bad.write_text(json.dumps([1, 2]))
    assert captions.prompts(lines) == ["a cat", "a dog"]
    assert captions.prompts(coco) == ["a bird"]
    assert captions.prompts(mjhq) == ["one", "two"]
    with pytest.raises(ValueError, match=r"bad\.json has prompts neither") as raised:
        captions.prompts(bad)
    assert "\n" not in str(raised.value)
