"""The emoji models: what they are trained on is what plain diffusers and open_clip then do."""

import copy
import json

import open_clip
import pytest
import torch
from diffusers import DDPMScheduler, PixArtAlphaPipeline, SanaPipeline
from torch.distributions import Normal, kl_divergence

from dualsolver import backbones, clip
from dualsolver.backbones.prompts import MASK, TEXT
from dualsolver.cli import main
from dualsolver.schedule import VP
from dualsolver.zoo import autoencoder, fit
from dualsolver.zoo.emoji import clips, compressor, data, measure, pixart, sana, texts
from dualsolver.zoo.emoji.entries import EMOJI
from dualsolver.zoo.entries import ENTRIES
from dualsolver.zoo.training import Recipe, Run, train

NAMES = [f"{colour} {thing}" for colour in ("red", "blue", "green") for thing in ("heart", "square", "book")]
ROWS = tuple(
    data.Row(name, (name.split()[1],), chr(0x1F600 + i), "noto", i, False) for i, name in enumerate(NAMES)
)
TRUNK = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1}
CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"layers": 1, "width": 32, "head_width": 32, "patch_size": 8, "image_size": 32},
    "text_cfg": {"width": 32, "heads": 1, "layers": 1},
}


def emoji():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (len(ROWS), 3, 32, 32), generator=generator, dtype=torch.uint8)
    return data.Emoji(pictures, torch.arange(len(ROWS)), ROWS, "none")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def trained(task, steps=3, rate=1e-2):
    torch.manual_seed(0)
    run = Run(task.model, Recipe(steps, batch=8, warmup=1, rate=rate))
    list(train(run, task.loss, task.count))
    task.model.eval()
    return task


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Both pipelines with autoencoders, trained for a moment; and the models that were written."""
    home, models = tmp_path_factory.mktemp("emoji"), {}
    small = {"in_channels": 3, "out_channels": 3, "latent_channels": 8, "layers_per_block": 1}
    small |= {"block_out_channels": [8, 8, 8], "norm_num_groups": 4}
    large = {"widths": [8, 8, 16, 32], "depths": [1, 1, 1, 1], "latent_channels": 32}
    for name, module, shape, first in (
        ("pixart", pixart, (8, 8, 8), autoencoder.task(small, 0, emoji())),
        ("sana", sana, (32, 4, 4), compressor.task(large, 0, emoji())),
    ):
        trained(first).export(home / name / "vae")
        task = trained(module.task(TRUNK, torch.randn(len(ROWS), *shape), emoji()))
        models[name] = copy.deepcopy(task.model)
        task.export(home / name)
    return home, models


@pytest.mark.parametrize(("name", "pipeline"), [("pixart", PixArtAlphaPipeline), ("sana", SanaPipeline)])
def test_plain_diffusers_encodes_prompts_as_training_did_and_draws(folders, name, pipeline):
    home, models = folders
    pipe = pipeline.from_pretrained(home / name)
    pipe.set_progress_bar_config(disable=True)
    size = {"height": 32, "width": 32, "use_resolution_binning": False, "num_inference_steps": 2}
    images = pipe(["red heart", "a very long prompt " * 200], output_type="np", **size).images
    assert images.shape == (2, 32, 32, 3)
    before = texts.instruction() if name == "sana" else ""
    make = texts.gemma_tokenizer if name == "sana" else texts.t5_tokenizer
    said = texts.tokens(make(ROWS), [[f"{before}red heart"]])
    with torch.no_grad():
        wanted = models[name]["text"](said.ids[0], attention_mask=said.mask[0])[0][0][said.mask[0, 0].bool()]
        backbone = backbones.load(home / name)
        found = backbone.conditions(["Red heart"])
    assert torch.allclose(found[TEXT][0][found[MASK][0].bool()], wanted, atol=2e-2)
    assert wanted.std() > 0.1


def test_a_backbone_gives_what_the_whole_padding_gives(folders):
    """Tokens that are masked are dropped: what the transformer makes of the others stays the same."""
    home, _ = folders
    for name, pipeline in (("pixart", PixArtAlphaPipeline), ("sana", SanaPipeline)):
        backbone, pipe = backbones.load(home / name), pipeline.from_pretrained(home / name)
        x, time = torch.randn(1, *backbone.shape), torch.tensor([300.0])
        said = {"complex_human_instruction": texts.instruction().split("\n")} if name == "sana" else {}
        embeds, mask, *_ = pipe.encode_prompt(["red heart"], do_classifier_free_guidance=False, **said)
        ours = backbone.conditions(["red heart"])
        assert ours[TEXT].shape[1] < embeds.shape[1]
        with torch.no_grad():
            one, other = (
                backbone.model(x, time, ours),
                backbone.model(x, time, ours | {TEXT: embeds, MASK: mask}),
            )
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", ["emoji-pixart", "emoji-sana"])
def test_training_goes_on_from_what_was_written(folders, name, monkeypatch):
    home, models = folders
    kind = ENTRIES[name].kind
    (home / kind / "plans.json").write_text("[[0, 3]]")
    monkeypatch.setattr(fit, "path", lambda _: home / kind)
    make, shape = {"pixart": (pixart, (8, 8, 8)), "sana": (sana, (32, 4, 4))}[kind]
    task = make.task(TRUNK, torch.zeros(9, *shape), emoji())
    assert fit._shipped(name, task) == [[0, 3]]
    for key, value in models[kind].state_dict().items():
        assert torch.allclose(task.model.state_dict()[key], value, atol=2e-3), key


def test_variances_are_learned_by_the_divergence_of_a_step():
    """Against diffusers' own posterior and torch's divergence of two normal distributions."""
    theirs, ours = DDPMScheduler(beta_start=1e-4, beta_end=0.02), pixart.Variances(VP.linear())
    step, error, spread = 400, torch.tensor(0.3), torch.tensor(0.2)
    total, before = theirs.alphas_cumprod[step], theirs.alphas_cumprod[step - 1]
    beta = 1 - total / before
    true = beta * (1 - before) / (1 - total)
    gain = beta / (1 - beta).sqrt() / (1 - total).sqrt()
    log = 0.6 * beta.log() + 0.4 * true.log()
    wanted = kl_divergence(Normal(0.0, true.sqrt()), Normal(gain * error, (log / 2).exp()))
    found = ours(torch.tensor([(step + 1) / 1000]), error.view(1, 1, 1, 1), spread.view(1, 1, 1, 1))
    assert found.item() == pytest.approx(wanted.item(), rel=1e-3)


def test_a_compressor_says_how_its_latents_are_scaled(folders):
    home, _ = folders
    from diffusers import AutoencoderDC

    from dualsolver.zoo.latents import encode

    latents = encode(AutoencoderDC.from_pretrained(home / "sana" / "vae"), emoji().pictures)
    assert latents.std().item() == pytest.approx(1, abs=0.02)


def test_open_clip_opens_a_model_and_matches_as_it_was_trained(tmp_path):
    task = trained(clips.task(CLIP, 0, emoji()), steps=150, rate=2e-3)
    task.export(tmp_path)
    theirs, _, _ = open_clip.create_model_and_transforms(f"local-dir:{tmp_path}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tmp_path}")
    assert torch.equal(tokenizer("Red HEART"), tokenizer("red heart"))
    images = emoji().pictures.float() / 255
    ours = clip.load(str(tmp_path))
    with torch.no_grad():
        seen = theirs.eval().encode_image(images * 2 - 1, normalize=True)
        assert torch.allclose(ours.see(images), seen, atol=1e-5)
        assert (ours.see(images) @ ours.read(NAMES).T).argmax(1).tolist() == list(range(9))
    assert measure.retrieval(ours, [images], NAMES, best=1) == 1
    assert measure.retrieval(ours, [images.flip(0)], NAMES, best=1) < 0.5


def test_the_judge_of_the_emoji_is_of_an_architecture_of_its_own():
    def family(found):
        vision = found.options["vision_cfg"]
        return vision.get("timm_model_name") or ("resnet" if isinstance(vision["layers"], list) else "vit")

    families = {name: family(found) for name, found in EMOJI.items() if found.kind == "clip"}
    assert list(families.values()).count("resnet") == 1 == list(families.values()).count("test_convnext")
    assert families["emoji-judge"] == "resnet"
    assert len([name for name in families if name.startswith("emoji-vit-")]) == 6


def test_a_command_learns_a_solver_through_clip(folders, tmp_path, capsys):
    home, _ = folders
    trained(clips.task(CLIP, 0, emoji())).export(tmp_path / "clip")
    (tmp_path / "prompts.txt").write_text("\n".join(NAMES))
    named = ["--backbone", home / "sana", "--clip", tmp_path / "clip", "--prompts", tmp_path / "prompts.txt"]
    rest = ["--preset", "paper", "--nfe", "2", "--steps", "1", "--batch", "4", "--out", tmp_path / "out"]
    assert main(["learn", *map(str, named + rest)]) == 0
    assert "held-out loss" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "nfe-2" / "log.jsonl").read_text())
    assert 0.1 < record["loss"] < 10
    assert record["gradient"] > 1e-6
    about = json.loads((tmp_path / "out" / "scheduler_config.json").read_text())["provenance"]
    assert about["objective"] == {"clip": 1.0}
    assert about["clip"] == {str(tmp_path / "clip"): clip.load(str(tmp_path / "clip")).sha256}
