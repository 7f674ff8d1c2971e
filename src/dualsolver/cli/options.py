"""Arguments that mean the same in every command."""

from __future__ import annotations

import argparse
from typing import Any


def backbone(parser: argparse.ArgumentParser) -> None:
    """Add what says which backbone, and how it runs."""
    parser.add_argument(
        "--backbone", default="fashion-dit", help="a name of the zoo, a pipeline folder or a hub id"
    )
    network(parser)


def network(parser: argparse.ArgumentParser) -> None:
    """Add how a backbone runs."""
    one = parser.add_argument
    one("--guidance", type=float, help="guidance scale (the paper's for the backbone)")
    one("--dtype", help="of the network: float32, bfloat16 or float16")
    one("--variant", help="of the weight files, such as fp16")
    one("--device", default="cpu")
    one("--threads", type=int, default=2, help="of torch (2)")


def loaded(chosen: argparse.Namespace) -> tuple[Any, float]:
    """The backbone and the guidance scale that were chosen."""
    from .. import named

    found = named.backbone(chosen.backbone, chosen.dtype, chosen.variant, chosen.device)
    return found, named.guidance(found, chosen.guidance)
