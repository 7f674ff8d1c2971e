"""Whole files and folders held alone, whatever is killed, stopped or full around them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

import dualsolver.files
from dualsolver.files import alone, read_object, whole_file, write_whole

HOLD = """
import runpy, sys, time
from pathlib import Path
with runpy.run_path(sys.argv[1])[sys.argv[2]](Path(sys.argv[3])):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(name, path):
    """A process that is in the block of a function here."""
    line = [sys.executable, "-c", HOLD, dualsolver.files.__file__, name, str(path)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_folder_is_refused_while_another_process_works_in_it_and_free_when_that_was_killed(tmp_path):
    process = holder("alone", tmp_path)
    with pytest.raises(ValueError, match="another process is at work there") as found, alone(tmp_path):
        pass
    assert "\n" not in str(found.value)
    with alone(tmp_path, rank=1):  # whose rank 0 answers for it
        pass
    process.kill()
    process.wait()
    with alone(tmp_path):
        assert names(tmp_path) == [".lock"]
    assert names(tmp_path) == []


def test_what_a_kill_left_of_a_file_is_gone_when_it_is_written_again(tmp_path):
    process = holder("whole_file", tmp_path / "state.json")
    process.kill()
    process.wait()
    assert names(tmp_path) == [".state.json.partial"]
    write_whole(tmp_path / "state.json", "{}")
    assert names(tmp_path) == ["state.json"]
    assert (tmp_path / "state.json").read_text() == "{}"


def write_many(path, letter):
    for _ in range(200):
        write_whole(path, letter * 10_000)


def test_processes_that_write_the_same_file_leave_one_of_theirs(tmp_path):
    path, context = tmp_path / "shared", multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(path, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            assert set(path.read_text()) in ({"a"}, {"b"})
        time.sleep(0.005)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert names(tmp_path) == ["shared"]


def test_a_full_disk_names_the_file_and_leaves_the_one_before(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    write_whole(path, "before")
    monkeypatch.setattr(os, "fsync", lambda number: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    with pytest.raises(OSError, match=r"No space left on device: '.*state.json'"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["state.json"]


def test_errors_in_a_block_are_those_of_the_block(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), alone(tmp_path):
        (tmp_path / "nowhere").read_text()
    with pytest.raises(BlockingIOError), alone(tmp_path):
        raise BlockingIOError
    with pytest.raises(FileNotFoundError, match="nowhere"), whole_file(tmp_path / "x"):
        (tmp_path / "nowhere").read_text()
    assert names(tmp_path) == []


@pytest.mark.parametrize("text", ["[1]", "{", "\xff", "[" * 100_000])
def test_what_is_no_object_is_named_with_the_remedy(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"plan.json is damaged \(.*\): take another folder") as found:
        read_object(path, "take another folder")
    assert "\n" not in str(found.value)


def test_a_termination_stops_a_command_as_ctrl_c_does():
    code = """
import os, signal, sys
import dualsolver.cli as cli
def run(chosen):
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
cli.show._show = run
sys.exit(cli.main(["show", "nothing"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "dual-solver: stopped\n")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
