"""Weights from files: reading them, checking that they are what they are said to be, fitting them in."""

from __future__ import annotations

import hashlib
import pickle
import re
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from ..extras import needs

State = dict[str, Tensor]


def read_weights(path: Path, published: str | None = None) -> State:
    """Read a state dict from a .pth file (no pickled code) or .safetensors.

    `published` is the name under which such weights are published, the start of their sha256 in it (as
    torchvision does). A file that bears that name must have that hash; another one is used with a warning.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path} to read weights from")
    if published:
        _check_hash(path, published)
    state = _read(path)
    if not (isinstance(state, dict) and state and all(torch.is_tensor(v) for v in state.values())):
        inside = ", ".join(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise ValueError(
            f"{path} must hold a state dict, names and tensors, not {inside or 'nothing'}: "
            "save model.state_dict() alone"
        )
    return state


def _read(path: Path) -> State:
    with needs("diffusers"):
        from safetensors.torch import load
    try:
        if path.suffix == ".safetensors":
            return load(path.read_bytes())
        found: State = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        reason = "it is damaged, or holds more than tensors (a whole pickled model, say), which is not opened"
        raise ValueError(f"cannot read {path}: {reason}") from None
    except Exception as error:  # every format has its own ways to be damaged
        raise ValueError(f"cannot read {path}: {str(error).strip().splitlines()[0]}") from None
    return found


def prefix(published: str) -> str:
    """The start of a sha256 that a published file's name ends in, or nothing.

    >>> prefix("mobilenet_v2-b0353104.pth"), prefix("model.pth")
    ('b0353104', '')
    """
    found = re.search(r"-([0-9a-f]{8,})\.\w+$", published)
    return found.group(1) if found else ""


def _check_hash(path: Path, published: str) -> None:
    wanted = prefix(published)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found.startswith(wanted):
        return
    difference = f"its sha256 begins {found[: len(wanted)]}, not {wanted}"
    if prefix(path.name) == wanted:
        raise ValueError(f"{path} is damaged: {difference}; fetch it again")
    warnings.warn(f"{path} is not the published {published} ({difference}): used as it is", stacklevel=4)


def fit_in(network: nn.Module, state: State, source: str) -> None:
    """Put weights, as float32, into a network that may be on the meta device; name what does not match."""
    state = {name: v.float() if v.is_floating_point() else v for name, v in state.items()}
    try:
        missing, unexpected = network.load_state_dict(state, strict=False, assign=True)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if "size mismatch" in line]
        raise ValueError(f"{source} does not fit a {type(network).__name__}: {_some(lines)}") from None
    for what, names in (("is missing", missing), ("is not in the network", unexpected)):
        if names:
            raise ValueError(f"{source} does not fit a {type(network).__name__}: {_some(names)} {what}")


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most)
