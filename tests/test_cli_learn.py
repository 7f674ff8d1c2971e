"""`dual-solver learn` as a user runs it: killed, resumed, by two processes, and with wrong arguments."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import dualsolver as ds
from dualsolver.cli import main

TOY = ["learn", "--backbone", "toy", "--objective", "sample", "--teacher", "ddim:20", "--teacher-count", "50"]
RUN = [*TOY, "--nfe", "3", "4", "--steps", "40", "--batch", "4", "--threads", "1"]


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert main([*RUN, "--cache", str(folder / "cache"), "--out", str(folder / "run")]) == 0
    return folder


def test_a_run_makes_an_artifact_that_says_where_it_comes_from(whole, capsys):
    solver, _, info = ds.load(whole / "run", nfe=4)
    assert solver.nfe == 4
    assert (info["backbone"], info["objective"], info["teacher"]["solver"]) == (
        "toy",
        {"sample": 1.0},
        "ddim:20",
    )
    assert info["runs"]["3"]["held_out"] < -5
    again = ["--cache", str(whole / "cache"), "--out", str(whole / "run")]
    before = contents(whole / "run")
    assert main([*RUN, *again]) == 0
    assert contents(whole / "run") == before
    assert "NFE 4: held-out loss" in capsys.readouterr().out


def test_kill_9_and_the_same_command_give_the_same_bytes(whole, tmp_path):
    command = [sys.executable, "-m", "dualsolver.cli", *RUN, "--cache", str(whole / "cache")]
    command += ["--out", str(tmp_path / "run")]
    for wanted in ("nfe-3/state.json", "nfe-4/state.json"):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (tmp_path / "run" / wanted).exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert main(command[3:]) == 0
    assert contents(tmp_path / "run") == contents(whole / "run")


def test_ctrl_c_stops_after_a_step_and_says_so(whole, tmp_path):
    command = [
        sys.executable,
        "-m",
        "dualsolver.cli",
        *RUN,
        "--steps",
        "5000",
        "--out",
        str(tmp_path / "run"),
    ]
    process = subprocess.Popen(
        [*command, "--cache", str(whole / "cache")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "run" / "plan.json").exists():
        time.sleep(0.05)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.rstrip().endswith("dual-solver: stopped")


def test_two_processes_learn_what_one_does(whole, tmp_path):
    """To rounding, which Adam's division by the root of small moments makes larger with every step."""
    short = [*RUN, "--steps", "5", "--cache", str(whole / "cache"), "--out"]
    command = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517", "-m"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "dualsolver.cli", *short, str(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0
    assert main([*short, str(tmp_path / "one")]) == 0
    one, two = (
        json.loads((tmp_path / name / "scheduler_config.json").read_text())["solvers"]["3"]
        for name in ("one", "two")
    )
    assert two["t"] == pytest.approx(one["t"], rel=1e-4)
    for part in ("predictor", "corrector"):
        for name, values in one[part].items():
            assert two[part][name] == pytest.approx(values, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--objective", "beauty"], "objective must be one of 'hard-label'"),
        (["--objective", "sample=much"], "the weight of sample must be a number, not 'much'"),
        (["--method", "ddim"], "ddim has nothing to learn: take dual, bns or ds"),
        (["--method", "magic"], "method must be one of 'ddim', "),
        (["--option", "kind=p7"], "kind must be one of 'p1', 'p1c2'"),
        (["--option", "p7"], "an option is written NAME=VALUE, not 'p7'"),
        (["--nfe", "few"], "an NFE is a whole number or a range such as 3..9, not 'few'"),
        (["--nfe", "0"], "an NFE is a whole number from 1"),
        (["--preset", "slow"], "preset must be one of 'paper', 'fast'"),
        (["--teacher", "ddim"], "--teacher is written SOLVER:NFE, such as ddim:200, not ddim"),
        (["--teacher", "dpm:20"], "no fixed solver of that name: ddim"),
        (["--guidance", "-1"], "the guidance scale must not be negative"),
        (["--steps", "0"], "steps must be a whole number >= 1, not 0"),
        (["--batch", "0"], "batch must be a whole number >= 1, not 0"),
        (["--rate", "nan"], "rate must be a finite number"),
        (["--micro-batch", "0"], "micro must be a whole number >= 1, not 0"),
        (["--teacher-count", "0"], "count must be a whole number >= 1, not 0"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(arguments, words, tmp_path, capsys):
    command = [*TOY, "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "run"), "--threads", "1"]
    assert main([*command, *arguments]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run" / "scheduler_config.json").exists()


def test_another_command_is_refused_in_the_same_folder(whole, capsys):
    command = [*RUN, "--cache", str(whole / "cache"), "--out", str(whole / "run")]
    assert main([*command, "--seed", "1"]) == 2
    assert "holds a run with facts" in capsys.readouterr().err
