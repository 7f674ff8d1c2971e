"""CLIP scores against open_clip's own preprocessing and towers, from a folder and from OpenAI's files."""

import json

import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import tiny_clip
from dualsolver.clip import load
from dualsolver.images import to_bytes

PROMPTS = ["a bag", "an ankle boot", "a dress of silk"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("clip")


def pictures(size):
    torch.manual_seed(0)
    rough = torch.rand(3, 3, 4, 4)
    return torch.nn.functional.interpolate(rough, size, mode="bicubic").clamp(0, 1).mul(255).round() / 255


def theirs(name, images, **options):
    model, _, prepare = open_clip.create_model_and_transforms(name, **options)
    model = model.eval()
    batch = torch.stack([prepare(Image.fromarray(image.numpy())) for image in to_bytes(images)])
    with torch.no_grad():
        seen, read = model.encode_image(batch), model.encode_text(open_clip.get_tokenizer(name)(PROMPTS))
    return torch.cosine_similarity(seen, read)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("size", "error"), [((16, 16), 1e-5), ((40, 24), 5e-3)])
def test_scores_are_open_clips_own(home, quick, size, error):
    """Equal but for the rounding to bytes that PIL's resizing ends with."""
    folder, images = tiny_clip.folder(home / str(quick), quick), pictures(size)
    found = load(str(folder)).score(images, PROMPTS)
    assert torch.allclose(found, theirs(f"local-dir:{folder}", images), atol=error)
    assert found.std() > 0.01


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_openais_files_get_the_activation_that_they_were_trained_with(home):
    quick, plain = tiny_clip.folder(home / "quick", True), tiny_clip.folder(home / "plain")
    (home / "tiny-plain.json").write_text(json.dumps(tiny_clip.SIZES))
    open_clip.add_model_config(home / "tiny-plain.json")
    state = load_file(quick / "open_clip_model.safetensors")
    file, images = tiny_clip.script(state, home / "openai.pt"), pictures((16, 16))
    mean, deviation = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD
    wanted = theirs(f"local-dir:{quick}", images, image_mean=mean, image_std=deviation)
    other = theirs(f"local-dir:{plain}", images, image_mean=mean, image_std=deviation)
    found = load(f"tiny-plain={file}").score(images, PROMPTS)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert not torch.allclose(found, other, atol=1e-4)


def test_mistakes_are_one_line(home, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    for spec, words in {
        "RN7": "cannot load the CLIP model RN7 with weights openai",
        f"RN50={tmp_path / 'none.pt'}": "cannot load the CLIP model RN50",
        f"RN50={tmp_path / 'bad.pt'}": "cannot load the CLIP model RN50",
    }.items():
        with pytest.raises(ValueError, match=words) as error:
            load(spec)
        assert "\n" not in str(error.value)
