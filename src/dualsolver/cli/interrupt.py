"""Ctrl-C and terminations stop a command: in its loop at the end of a step, the second one at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def terminable() -> Iterator[None]:
    """Let a termination end the block as Ctrl-C does, and say so; only the main thread hears of either."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts the end
        print("dual-solver: stopped", file=sys.stderr)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C (or a termination) was asked for."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("\nstopping after this step; again to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
