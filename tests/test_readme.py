"""What the README shows runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, scope)
    assert scope["x"].shape == (4, 3, 32, 32)
    assert scope["solver"].nfe == 4
    assert (tmp_path / "my-solver" / "scheduler_config.json").exists()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target


def test_the_table_of_solvers_is_the_registry():
    import dualsolver as ds

    named = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", README.read_text(), re.MULTILINE))
    assert named == {name: kind.__name__ for name, kind in ds.SOLVERS.items()}
