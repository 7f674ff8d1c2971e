"""Reading the dataset: what is wrong with a folder is one clear line."""

import gzip

import pytest
import torch

from dualsolver.zoo import data


def written(folder, packed=False, count=10_000):
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28))
    pictures = header + bytes([7]) * (count * 784)
    labels = bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + bytes(i % 10 for i in range(count))
    for name, content in (("images-idx3", pictures), ("labels-idx1", labels)):
        path = folder / f"t10k-{name}-ubyte{'.gz' * packed}"
        path.write_bytes(gzip.compress(content, 1) if packed else content)
    return folder


def test_packed_and_unpacked_files_are_the_same_data(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, packed in zip(folders, (True, False), strict=True):
        folder.mkdir()
        written(folder, packed)
    first, second = (data.read("test", folder) for folder in folders)
    assert first.hash == second.hash
    assert first.pictures.shape == (10_000, 1, 32, 32)
    assert first.pictures[0, 0, 2:-2, 2:-2].eq(7).all()
    assert first.pictures.sum() == 7 * 784 * 10_000  # the padding is black
    assert first.classes[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_a_folder_without_the_dataset_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match="install the Debian package dataset-fashion-mnist"):
        data.read("test")


@pytest.mark.parametrize("damage", ["cut", "other", "count"])
def test_damaged_files_are_named(tmp_path, damage):
    written(tmp_path, packed=damage == "cut", count=9_000 if damage == "count" else 10_000)
    path = next(tmp_path.glob("*images*"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    if damage == "other":
        path.write_bytes(b"\x00\x00\x0d\x03" + content[4:])
    with pytest.raises(ValueError, match=r"idx file of shape|install the dataset again"):
        data.read("test", tmp_path)


@pytest.mark.dataset
def test_the_real_dataset_is_the_one_the_zoo_was_trained_on():
    try:
        train = data.read("train")
    except ValueError as error:
        pytest.skip(str(error))
    assert train.hash.startswith("d9ef4273af5c2e36")
    assert torch.bincount(train.classes).tolist() == [6000] * 10
