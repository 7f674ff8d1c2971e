"""What it takes until something happens: importing, and the command's help."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from common import fastest, table

ROUNDS = 7
PROCESSES = {
    "`import torch`": ["-c", "import torch"],
    "`import dualsolver`": ["-c", "import dualsolver"],
    "`dual-solver --help`": ["-m", "dualsolver.cli", "--help"],
}
LOADED = "import sys, torch; before = set(sys.modules); import {}; print(*set(sys.modules) - before)"


def beyond_torch(module: str) -> str:
    """Which packages a module imports that torch has not."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(module)], check=True, capture_output=True, text=True
    )
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    packages -= {"dualsolver", *sys.stdlib_module_names}
    return ", ".join(sorted(packages)) or "nothing"


def measured() -> str:
    """A row a process, the fastest of a few in turns."""
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
    times = fastest(ROUNDS, *(partial(run, [sys.executable, *rest]) for rest in PROCESSES.values()))
    rows = [(name, time, time / times[0]) for name, time in zip(PROCESSES, times, strict=True)]
    loaded = f"Beyond torch and Python's own, `dualsolver` imports {beyond_torch('dualsolver')}"
    loaded += f" and the commands {beyond_torch('dualsolver.cli')}."
    title = "**Start-up**, whole processes, the fastest of a few in turns"
    return "\n\n".join([title, table(["process", "s", "of torch's"], rows), loaded])
