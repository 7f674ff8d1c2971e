"""The Inception of FID (2015-12-05), as torch-fidelity ports it: resizing of TensorFlow 1, 2048 features.

Its weights are one file of 96 MB; it is never unpickled without torch's restrictions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .extras import needs

FILE = "weights-inception-2015-12-05-6726825d.pth"


def pretrained(path: str | Path | None = None) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return a function of bytes (B, 3, H, W) to features (B, 2048) and logits (B, 1008).

    The weights come from the given file, else from torch's cache, where they are downloaded once.
    """
    with needs("evaluate"):
        from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3, FeatureExtractorInceptionV3
    local = _fetched(URL_INCEPTION_V3) if path is None else Path(path)
    _check(local)
    network: Any = FeatureExtractorInceptionV3(
        "inception-v3-compat", ["2048", "logits_unbiased"], feature_extractor_weights_path=str(local)
    )

    def see(images: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            features, logits = network(images)
        return features, logits

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


def _check(path: Path) -> None:
    """Open the file with torch's safe unpickler before torch-fidelity opens it with any."""
    if not path.is_file():
        raise ValueError(f"no Inception weights at {path}")
    try:
        weights = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # whatever a damaged or hostile pickle raises
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} holds no weights that can be read safely ({reason})") from None
    if not isinstance(weights, dict) or "Conv2d_1a_3x3.conv.weight" not in weights:
        raise ValueError(f"{path} is not the Inception of FID: it should be {FILE}")
