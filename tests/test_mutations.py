"""Changed files of every kind are read as they should be or refused in a line; none is ever unpickled."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import tiny

ROOT = Path(__file__).parent.parent
READING = ROOT / "scripts" / "torture" / "reading.py"


def test_some_of_the_mutations_that_make_torture_tries(tmp_path):
    tiny.dit(tmp_path / "dit")
    line = [sys.executable, str(READING), str(tmp_path / "files"), str(tmp_path / "dit"), "600", "1"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcomes = list(map(json.loads, done.stdout.splitlines()))
    assert len(outcomes) > 500
    assert [outcome[:2] for outcome in outcomes if outcome[1]] == []


def calls():
    """Every call in the package: where it is, what is called, and its keywords."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                words = {word.arg: ast.unparse(word.value) for word in node.keywords}
                yield f"{path.name}:{node.lineno}", ast.unparse(node.func), words


def test_nothing_is_unpickled_or_evaluated():
    unsafe = ("pickle.load", "pickle.loads", "eval", "exec", "yaml.load", "marshal.loads", "joblib.load")
    for where, called, words in calls():
        assert called not in unsafe, where
        if called == "torch.load":
            assert words.get("weights_only") == "True", where
        assert words.get("allow_pickle", "False") == "False", where
        assert words.get("trust_remote_code", "False") == "False", where
