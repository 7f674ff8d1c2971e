"""The commands: each is a function and its arguments; the core does the work."""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
from collections.abc import Sequence

import torch

from ..checks import whole
from . import compare, evaluate, learn, reproduce, sample, show, zoo
from .interrupt import terminable

REMEDIES: dict[int | None, str] = {
    errno.ENOSPC: ": make room and repeat the command, which goes on from what is there",
    errno.EDQUOT: ": make room and repeat the command, which goes on from what is there",
    errno.EROFS: ": take a folder that can be written",
    errno.EACCES: ": take a folder or file that you may use",
    errno.EPERM: ": take a folder or file that you may use",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; what the user got wrong becomes one line and exit code 2."""
    try:
        with terminable():
            chosen = _parser().parse_args(arguments)
            chosen.command = shlex.join(["dual-solver", *(sys.argv[1:] if arguments is None else arguments)])
            torch.set_num_threads(whole("--threads", chosen.threads))
            chosen.run(chosen)
    except BrokenPipeError:  # whoever read our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ModuleNotFoundError, FloatingPointError) as error:
        print(f"dual-solver: {error}{REMEDIES.get(getattr(error, 'errno', None), '')}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # `terminable` has said so
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dual-solver", description="Few-step sampling, learned")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (learn, sample, show, evaluate, reproduce, compare, zoo):
        module.add(commands)
    return parser
