"""The commands: each is a function and its arguments; the core does the work."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

import torch

from ..checks import whole
from . import compare, evaluate, learn, reproduce, sample, show, zoo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; what the user got wrong becomes one line and exit code 2."""
    parser = argparse.ArgumentParser(prog="dual-solver", description="Few-step sampling, learned")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    learn.add(commands)
    sample.add(commands)
    show.add(commands)
    evaluate.add(commands)
    reproduce.add(commands)
    compare.add(commands)
    zoo.add(commands)
    chosen = parser.parse_args(arguments)
    chosen.command = shlex.join(["dual-solver", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        torch.set_num_threads(whole("--threads", chosen.threads))
        chosen.run(chosen)
    except BrokenPipeError:  # whoever read our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ModuleNotFoundError, FloatingPointError) as error:
        print(f"dual-solver: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dual-solver: stopped", file=sys.stderr)
        return 130
    return 0
