"""The zoo's promises to a user: wrong names and damaged files are one line, commands say what they did."""

import shutil

import pytest
import torch

import dualsolver as ds
from dualsolver.cli import main
from dualsolver.zoo import autoencoder, entries, registry


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of one shipped classifier, to be damaged."""
    shutil.copytree(registry.WEIGHTS / "linear-4x4", tmp_path / "linear-4x4")
    shutil.copy(registry.WEIGHTS / registry.HASHES, tmp_path)
    monkeypatch.setattr(registry, "WEIGHTS", tmp_path)
    registry._hashes.cache_clear()
    yield tmp_path / "linear-4x4"
    registry._hashes.cache_clear()


def test_a_changed_byte_is_refused_with_the_file(copied):
    ds.zoo.load("linear-4x4")
    path = copied / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"linear-4x4/model\.safetensors is damaged") as raised:
        ds.zoo.load("linear-4x4")
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(copied):
    (copied / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        ds.zoo.path("linear-4x4")


def test_a_card_is_not_part_of_the_hash(copied):
    (copied / "README.md").write_text("another card")
    ds.zoo.load("linear-4x4")


def test_every_shipped_model_has_its_card_log_and_unchanged_files():
    for name in ds.zoo.names():
        folder = ds.zoo.path(name)
        card = (folder / "README.md").read_text()
        assert f"dual-solver zoo train {name}\n" in card
        assert registry.recorded(name)[:16] in card
        assert (folder / "loss.csv").read_text().startswith("step,loss\n")


def test_all_weights_stay_small():
    sizes = {f: f.stat().st_size for f in registry.WEIGHTS.rglob("*.safetensors")}
    emoji = sum(
        size for file, size in sizes.items() if file.relative_to(registry.WEIGHTS).parts[0][:5] == "emoji"
    )
    assert emoji < 50e6
    assert sum(sizes.values()) - emoji < 25e6


def test_the_judge_is_alone_in_its_family():
    families = [found.options.get("family") for found in entries.ENTRIES.values()]
    assert families.count(entries.ENTRIES["judge"].options["family"]) == 1
    assert families.count(entries.ENTRIES["validation"].options["family"]) == 1


def test_commands_turn_mistakes_into_a_line_and_exit_code_2(capsys, tmp_path):
    for arguments, says in (
        (["zoo", "show", "judgee"], "must be one of 'judge'"),
        (["zoo", "sample", "judge"], "no folder judge and no hub id (OWNER/NAME); built in: fashion-dit"),
        (["zoo", "train", "linear-4x4", "--data", str(tmp_path)], "no Fashion-MNIST in"),
        (["zoo", "train", "linear-4x4", "--steps", "0"], "--steps must be a whole number >= 1, not 0"),
        (["zoo", "train", "linear-4x4", "--rate", "-1"], "--rate must be a finite number greater than 0"),
        (["zoo", "train", "fashion-dit", "--watch", "70"], "--watch must be a multiple of 50 steps, not 70"),
        (["zoo", "list", "--threads", "0"], "--threads must be a whole number"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1


def test_list_and_show(capsys):
    assert main(["zoo", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(entries.ENTRIES)
    assert main(["zoo", "show", "linear-4x4"]) == 0
    assert "test accuracy" in capsys.readouterr().out


def test_normalised_latents_decode_to_the_same_images():
    """The change of the 1 x 1 convolutions is exact: z -> (z - mean) / deviation, and back in the decoder."""
    torch.manual_seed(0)
    options = {"block_out_channels": [8, 8, 8], "layers_per_block": 1, "norm_num_groups": 4}
    model, images = autoencoder.build(options).double(), torch.rand(30, 1, 32, 32).double() * 2 - 1
    with torch.no_grad():
        before = model.encode(images).latent_dist
        decoded = model.decode(before.mean).sample
        scale = before.mean.std((0, 2, 3))
        autoencoder.normalise(model, images)
        after = model.encode(images).latent_dist
        assert torch.allclose(after.mean.mean((0, 2, 3)), torch.zeros(4).double(), atol=1e-9)
        assert torch.allclose(after.mean.std((0, 2, 3)), torch.ones(4).double())
        assert torch.allclose(after.std * scale.view(1, 4, 1, 1), before.std)
        assert torch.allclose(model.decode(after.mean).sample, decoded)
