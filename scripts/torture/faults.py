"""What machines and people do to a command: full disks, folders it may not use, signals, another like it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jobs import Trial, contents, different, last
from kills import whole
from outcome import Outcome

NOBODY = 65534
ALONE = ("learn", "evaluate", "zoo train")  # jobs whose folder one command at a time works in

# A disk of $1 bytes with the job in it: its exit code and what it left half-written go to standard output;
# then the disk grows, the job goes on, and what there is at the end is copied to $2.
FULL = """
size=$1 copy=$2 folder=$PWD; shift 2
mount -t tmpfs -o size=$size none "$folder" && cd "$folder" || exit 99
"$@" >&2; echo $?
find . -name '*.partial' | wc -l
mount -o remount,size=256m "$folder" && "$@" >&2; echo $?
cp -r . "$copy"
"""
READ_ONLY = """
mount --bind "$PWD" "$PWD" && mount -o remount,bind,ro "$PWD" && cd "$PWD" || exit 99
exec "$@"
"""
SPACE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


def faults(jobs: Sequence[str], signals: int, seed: int, place: Path, shared: Path) -> Iterator[Outcome]:
    """Everything, on each job."""
    for job in jobs:
        undisturbed = place / job.replace(" ", "-") / "whole"
        wanted = undisturbed if undisturbed.exists() else whole(job, place, shared).folder
        for check in (full_disk, read_only, no_permission, clock_back, second_process):
            yield check(job, wanted, shared)
        yield from stopped(job, signals, seed, wanted, shared)


def trial(job: str, wanted: Path, shared: Path, name: str, **environment: str) -> Trial:
    """A new folder for a job."""
    shutil.rmtree(wanted.with_name(name), ignore_errors=True)
    return Trial(job, wanted.with_name(name), shared, environment)


def refused(code: int, errors: str, words: Sequence[str]) -> str:
    """What is wrong with how a command ended that had to be refused."""
    line = last(errors)
    if code != 2 or "Traceback" in errors:
        return f"exit code {code}: {line}"
    return "" if any(word in line for word in words) else f"it said: {line}"


def full_disk(job: str, wanted: Path, shared: Path) -> Outcome:
    """A disk that holds half of what the job writes, and room made for the rest."""
    check = f"full disk under {job}"
    if job == "reproduce":
        size = 64 * 1024  # what it writes and then deletes is more than what it leaves
    else:
        size = sum(4096 + len(content) // 4096 * 4096 for content in contents(wanted).values()) // 2
    one, copy = trial(job, wanted, shared, "full"), wanted.with_name("full-copy")
    shutil.rmtree(copy, ignore_errors=True)
    line = [*SPACE, FULL, "sh", str(size), str(copy), *one.command()]
    done = subprocess.run(line, cwd=one.folder, env=environment(), capture_output=True, text=True)
    if done.returncode == 99 or done.returncode == 1:
        return Outcome(check, skipped=f"no disk of our own to fill here: {last(done.stderr)}")
    first, partial, second = map(int, done.stdout.split())
    said = [line for line in done.stderr.splitlines() if line.startswith("dual-solver:")]
    wrong = refused(first, said[0] if said else done.stderr, ["No space left on device"])
    if partial:
        wrong = wrong or f"{partial} files half-written"
    return Outcome(check, wrong or ("not resumed" if second else different(copy, wanted)))


def environment() -> dict[str, str]:
    """Ours, with one thread."""
    return os.environ | {"OMP_NUM_THREADS": "1"}


def read_only(job: str, wanted: Path, shared: Path) -> Outcome:
    """A folder on a read-only disk."""
    one = trial(job, wanted, shared, "read-only")
    process = one.start([*SPACE, READ_ONLY, "sh"])
    _, errors = process.communicate()
    if process.returncode in (1, 99) and not one.begun:
        return Outcome(f"read-only folder of {job}", skipped=f"none to be had here: {last(errors)}")
    left = "something is left" if contents(one.folder) else ""
    return Outcome(
        f"read-only folder of {job}", refused(process.returncode, errors, ["Read-only file system"]) or left
    )


def no_permission(job: str, wanted: Path, shared: Path) -> Outcome:
    """A folder that belongs to somebody else."""
    one = trial(job, wanted, shared, "forbidden")
    one.folder.chmod(0o555)
    one.counter.chmod(0o666)
    nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
    try:
        process = one.start(**nobody)
    except PermissionError:
        skipped = "nobody else may run this Python"
        return Outcome(f"no permission in the folder of {job}", skipped=skipped)
    _, errors = process.communicate()
    one.folder.chmod(0o755)
    left = "something is left" if contents(one.folder) else ""
    return Outcome(
        f"no permission in the folder of {job}",
        refused(process.returncode, errors, ["Permission denied"]) or left,
    )


def clock_back(job: str, wanted: Path, shared: Path) -> Outcome:
    """A clock that goes back an hour whenever it is looked at."""
    one = trial(job, wanted, shared, "clock", TORTURE_CLOCK="1")
    return Outcome(f"clock going back under {job}", one.finish() or different(one.folder, wanted))


def second_process(job: str, wanted: Path, shared: Path) -> Outcome:
    """The same command twice at once: the second is told so, and the first does not mind.

    Those of `reproduce` share the work, and a teacher's cache is shared by whoever reads it.
    """
    one = trial(job, wanted, shared, "twice")
    process = one.start()
    while process.poll() is None and not one.work:
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)  # it stays where it is until the second is done
    if job not in ALONE:
        process.send_signal(signal.SIGCONT)
    second = one.start()
    _, errors = second.communicate()
    wrong = refused(second.returncode, errors, ["another process is at work there"])
    if job not in ALONE:
        wrong = "" if second.returncode == 0 or not refused(second.returncode, errors, ["at work"]) else wrong
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    if process.returncode:
        wrong = wrong or f"the first: exit code {process.returncode}: {last(errors)}"
    return Outcome(f"two processes at {job}", wrong or different(one.folder, wanted))


def stopped(job: str, count: int, seed: int, wanted: Path, shared: Path) -> Iterator[Outcome]:
    """SIGINT and SIGTERM at random points, from the first moment of the command on, some of them twice."""
    points = random.Random(f"{seed} stopped {job}")
    total = int.from_bytes(wanted.with_suffix(".counter").read_bytes()[8:], "little")
    for number in range(count):
        for name in ("SIGINT", "SIGTERM"):
            one = trial(job, wanted, shared, "stopped")
            at, again = points.choice((0.0, points.uniform(0, total))), points.random() < 0.3
            wrong = stop(one, getattr(signal, name), at, points.uniform(0, 0.05 if at else 2), again)
            wrong = wrong or one.finish() or different(one.folder, wanted)
            yield Outcome(f"{name} of {job}", f"number {number}: {wrong}" if wrong else "")


def stop(one: Trial, number: int, at: float, later: float, again: bool) -> str:
    """Send a signal after so much work and some seconds; return what is wrong with how the command ends."""
    process = one.start()
    while process.poll() is None and (not one.begun or one.work < at):
        time.sleep(0.001)
    time.sleep(later)
    process.send_signal(number)
    if again:
        time.sleep(0.01)
        process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        process.kill()
        return "it does not stop"
    if process.returncode == 0 or (again and process.returncode == -number):
        return ""  # it had done its work; or the second signal came when it was about to end
    if process.returncode != 130 or "Traceback" in errors:
        return f"exit code {process.returncode}: {last(errors)}"
    return "" if last(errors) == "dual-solver: stopped" else f"it said: {last(errors)}"
