"""`dual-solver show` and `interpolate`, and the figures they draw."""

import pytest
import torch

import dualsolver as ds
from conftest import drawn
from dualsolver import plot
from dualsolver.cli import main


@pytest.fixture
def folder(tmp_path):
    solvers = [drawn(3), drawn(5)]
    ds.save(solvers, tmp_path / "learned", schedule=ds.VP.linear(), prediction="noise", guidance=1.5)
    return tmp_path / "learned"


def test_show_prints_every_value_and_the_coefficients(folder, capsys):
    assert main(["show", str(folder), "--nfe", "5"]) == 0
    text = capsys.readouterr().out
    solver, schedule, _ = ds.load(folder, nfe=5)
    values = solver.values()
    for numbers in (values["t"], values["predictor"]["gamma"], values["corrector"]["kappa_v"]):
        assert " ".join(f"{x:10.5f}" for x in numbers) in text
    last = solver(schedule).weights[-1, 1].tolist()
    assert "step 4".ljust(20) + " ".join(f"{x:10.5f}" for x in last) in text
    assert '"guidance": 1.5' in text
    assert "NFE 3" not in text


def test_show_prints_bns_and_ds_too(tmp_path, capsys):
    for solver in (ds.BNS(3), ds.DS(7)):
        ds.save(solver, tmp_path, schedule=ds.VP.linear())
        assert main(["show", str(tmp_path)]) == 0
        assert f"NFE {solver.nfe}" in capsys.readouterr().out


def test_interpolate_writes_what_load_interpolates(folder, tmp_path, capsys):
    assert main(["interpolate", str(folder), "--nfe", "3..4", "--out", str(tmp_path / "more")]) == 0
    for nfe in (3, 4):
        found, _, info = ds.load(tmp_path / "more", nfe=nfe)
        wanted, _, _ = ds.load(folder, nfe=nfe)
        schedule = ds.VP.linear()
        assert torch.allclose(found(schedule).weights, wanted(schedule).weights, rtol=1e-9, atol=1e-12)
    assert info["interpolated_from"] == [3, 5]
    assert main(["interpolate", str(folder), "--nfe", "9", "--out", str(tmp_path / "none")]) == 2
    assert "NFE 9 was not learned" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_figure_has_a_panel_for_every_list_and_a_line_for_every_nfe(folder, tmp_path):
    solvers = [ds.load(folder, nfe=nfe)[0] for nfe in (3, 5)]
    panels = plot.panels(solvers)
    assert set(panels) == {"t"} | {
        f"{part}: {name}"
        for part in ("predictor", "corrector")
        for name in ("gamma", "tau_u", "tau_v", "kappa_u", "kappa_v")
    }
    assert {nfe: len(x) for nfe, x in panels["corrector: gamma"].items()} == {3: 2, 5: 4}
    assert plot.parameters(solvers, tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert plot.curves({"a": [(0, 1), (1, 2)]}, tmp_path / "c.svg", "x", "y").read_text().count("<svg") == 1
