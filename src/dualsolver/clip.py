"""Images and prompts as unit vectors, by any model of open_clip; their cosine is the CLIP score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import check_choice
from .extras import needs
from .features import checked, colour, square
from .inception import is_script

FOLDER = "local-dir:"  # what open_clip calls a folder
Score = Callable[[Tensor, Sequence[str]], Tensor]


class Scorer(NamedTuple):
    """Functions of images (B, 1 or 3, H, W) in [0, 1] and prompts, and their model's hash.

    score: both to cosines (B,); see: images, which may go beyond, to unit vectors (B, D) with a gradient;
    read: prompts to unit vectors (B, D), each read once.
    """

    score: Score
    sha256: str
    see: Callable[[Tensor], Tensor]
    read: Callable[[Sequence[str]], Tensor]


def load(spec: str, device: str = "cpu") -> Scorer:
    """Load NAME=FILE, NAME=TAG (NAME alone: OpenAI's, from the cache), zoo:NAME, or a folder in its format.

    OpenAI trained with QuickGELU, which a name such as RN101 does not say: its tag and its own TorchScript
    files are recognised; weights of that training in another file are called RN101-quickgelu=FILE.
    """
    from .classifiers import state_hash, straight_through_clamp

    with needs("evaluate"):
        import open_clip
    name, _, weights = spec.partition("=")
    if name.startswith("zoo:"):
        name = _of_the_zoo(name.removeprefix("zoo:"))
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

    known: dict[str, Tensor] = {}

    def see(images: Tensor) -> Tensor:
        prepared = (colour(square(straight_through_clamp(images.float()), side)) - mean) / deviation
        seen: Tensor = model.encode_image(prepared, normalize=True)
        return seen

    @torch.no_grad()
    def read(prompts: Sequence[str]) -> Tensor:
        if new := [prompt for prompt in dict.fromkeys(prompts) if prompt not in known]:
            known.update(zip(new, model.encode_text(tokenizer(new).to(device), normalize=True), strict=True))
        return torch.stack([known[prompt] for prompt in prompts])

    @torch.no_grad()
    def score(images: Tensor, prompts: Sequence[str]) -> Tensor:
        return (see(checked(images)) * read(prompts)).sum(1).cpu()

    return Scorer(score, state_hash(model)[:16], see, read)


def _of_the_zoo(name: str) -> str:
    from . import zoo

    check_choice("the zoo's CLIP model", name, zoo.names("clip"))
    return str(zoo.path(name))


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
