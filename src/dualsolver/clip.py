"""CLIP score: the cosine between an image's and its prompt's embedding, by any model of open_clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .extras import needs
from .features import checked, colour, square
from .inception import is_script

FOLDER = "local-dir:"  # what open_clip calls a folder
Score = Callable[[Tensor, Sequence[str]], Tensor]


class Scorer(NamedTuple):
    """A function of images (B, 1 or 3, H, W) in [0, 1] and prompts to cosines (B,), and its model's hash."""

    score: Score
    sha256: str


def load(spec: str, device: str = "cpu") -> Scorer:
    """Load NAME=FILE, NAME=TAG (NAME alone: OpenAI's, from the cache), or a folder in open_clip's format.

    OpenAI trained with QuickGELU, which a name such as RN101 does not say: its tag and its own TorchScript
    files are recognised; weights of that training in another file are called RN101-quickgelu=FILE.
    """
    from .classifiers import state_hash

    with needs("evaluate"):
        import open_clip
    name, _, weights = spec.partition("=")
    name = f"{FOLDER}{name}" if Path(name).is_dir() else name
    model = _model(name, weights or "openai").to(device).eval().requires_grad_(False)
    tokenizer, size = open_clip.get_tokenizer(name), model.visual.image_size
    side = size if isinstance(size, int) else size[0]
    mean, deviation = (
        torch.tensor(numbers, device=device)[:, None, None]
        for numbers in (
            model.visual.image_mean or open_clip.OPENAI_DATASET_MEAN,
            model.visual.image_std or open_clip.OPENAI_DATASET_STD,
        )
    )

    @torch.no_grad()
    def score(images: Tensor, prompts: Sequence[str]) -> Tensor:
        prepared = (colour(square(checked(images), side)) - mean) / deviation
        seen = model.encode_image(prepared, normalize=True)
        read = model.encode_text(tokenizer(list(prompts)).to(seen.device), normalize=True)
        cosines: Tensor = (seen * read).sum(1)
        return cosines.cpu()

    return Scorer(score, state_hash(model)[:16])


def _model(name: str, weights: str) -> Any:
    import open_clip

    try:
        if Path(weights).is_file() and is_script(Path(weights)):
            model = open_clip.create_model(name, load_weights=False, force_quick_gelu=True)
            state = torch.jit.load(weights, map_location="cpu").state_dict()  # type: ignore[no-untyped-call]
            own = model.state_dict().keys()
            model.load_state_dict({k: v for k, v in state.items() if k in own})
            return model
        if name.startswith(FOLDER):
            return open_clip.create_model(name)
        quick = weights == "openai"
        return open_clip.create_model(name, weights, force_quick_gelu=quick, require_pretrained=True)
    except Exception as error:  # whatever its loader raises, down to those of the hub
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"cannot load the CLIP model {name} with weights {weights}: {reason}") from None
