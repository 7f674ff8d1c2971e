"""`dual-solver compare` and its report: the figures of the cells, and the stored pixels in a real browser."""

import csv
import io
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import dualsolver as ds
from conftest import drawn
from dualsolver.backbones import load
from dualsolver.cli import main
from dualsolver.statistics import Statistics

LEARNED = 'dual <i>&"'
INSERTED = "<!--<script></script><script>document.title = 'broken'</script>"


def arguments(home, command, *more):
    base = [command, "--backbone", "toy", "--solver", "ddim", "unipc", str(home / LEARNED), "--nfe", "3..6"]
    base += ["--network", f"pixels={home / 'real.npz'}", "--count", "30", "--batch", "10", "--threads", "1"]
    return [*base, *more]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A finished comparison: a learned folder with NFE 3 and 5, of which 4 is interpolated and 6 missing."""
    home, toy = tmp_path_factory.mktemp("compared"), load("toy")
    Statistics(torch.full((4,), 0.6), 0.1 * torch.eye(4) + 0.05).save(home / "real.npz")
    solvers = [drawn(3, gamma=0.2), drawn(5, gamma=0.2)]
    ds.save(solvers, home / LEARNED, schedule=toy.schedule, prediction=toy.kind, note=INSERTED)
    assert main(arguments(home, "compare", "--cells", str(home / "cells"), "--out", str(home / "out"))) == 0
    return home


def results(home):
    found = [json.loads(path.read_text()) for path in home.glob("cells/*/result.json")]
    return {(one["solver"], one["nfe"]): one for one in found}


def sums(home):
    return {path: path.stat().st_mtime_ns for path in home.glob("cells/*/*.safetensors")}


def test_the_tables_hold_the_figures_of_the_cells(home):
    cells = results(home)
    assert sorted(cells) == sorted(
        [(name, nfe) for name in ("ddim", "unipc") for nfe in (3, 4, 5, 6)]
        + [(LEARNED, nfe) for nfe in (3, 4, 5)]
    )
    with open(home / "out" / "table.csv") as file:
        for row in csv.DictReader(file):
            figure = cells[row["solver"], int(row["nfe"])]["figures"][row["metric"]]
            assert [float(row["value"]), float(row["standard_error"])] == figure
            first = cells["ddim", int(row["nfe"])]["figures"][row["metric"]]
            assert float(row["less_first"]) == pytest.approx(figure[0] - first[0], abs=1e-12)
            surer = float(row["its_standard_error"]) <= 0.5 * figure[1]
            assert surer or row["solver"] == LEARNED or row["metric"] == "pixel deviation", row
    markdown = (home / "out" / "table.md").read_text()
    table = [line for line in markdown.splitlines() if line.startswith(("| ddim", "| unipc", "| dual"))]
    distances = {name: cells[name, 6]["figures"]["frechet (pixels)"][0] for name in ("ddim", "unipc")}
    best = min(distances, key=distances.get)
    for line in table[:3]:
        name, *_, last = (cell.strip() for cell in line.strip("|").split("|"))
        assert last.startswith("**") == (name == best)
        assert (last == "–") == (name == LEARNED)
    for name in ("curves.png", "curves.svg"):
        assert (home / "out" / name).stat().st_size > 5000


def test_what_evaluate_has_made_is_not_made_again(home, tmp_path):
    before = sums(home)
    assert main(arguments(home, "evaluate", "--out", str(home / "cells"))) == 0
    more = ["--cells", str(home / "cells"), "--out", str(tmp_path), "--show", "30"]
    assert main(arguments(home, "compare", *more)) == 0
    assert sums(home) == before
    assert all(len(list(path.glob("*.png"))) == 30 for path in home.glob("cells/*/images"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--solver", "ddim", "magic"], "no folder magic of a learned solver"),
        (["--show", "0"], "--show must be a whole number >= 1"),
        (["--nfe", "9..3"], "an NFE is a whole number from 1"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(home, tmp_path, capsys, more, words):
    assert main(arguments(home, "compare", "--out", str(tmp_path), *more)) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium: install the Debian package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser, home):
    """Open the report without a network; whatever the console says at any time is an error."""
    pages, said = [], []

    def go(width=1200, height=900, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or said.append(r.url))
        page.goto((home / "out" / "report.html").as_uri())
        pages.append(context)
        return page

    yield go
    for context in pages:
        context.close()
    assert said == []


def pixels_of(tile):
    """What is seen of the four pixels of an image, at the middle of each."""
    array = np.array(Image.open(io.BytesIO(tile.screenshot())).convert("L"))
    height, width = array.shape
    return [int(array[height // 2, round((i + 0.5) * width / 4)]) for i in range(4)]


def stored(home, solver, nfe, seed):
    [path] = home.glob(f"cells/{solver}-{nfe}-*/images/{seed:06}.png")
    return np.array(Image.open(path)).flatten().tolist()


def test_the_pixels_shown_are_those_of_the_stored_samples(opened, home):
    page = opened()
    slider = page.get_by_role("slider", name="Evaluations of the network")
    slider.focus()
    slider.press("Home")
    seen = set()
    for nfe in (3, 4, 5, 6):
        assert slider.get_attribute("aria-valuetext") == f"{nfe} evaluations"
        page.get_by_role("checkbox", name="unipc").set_checked(nfe != 4)
        shown = [group.get_attribute("aria-label") for group in page.locator("#rows [role=group]").all()]
        assert shown == ["ddim", *["unipc"] * (nfe != 4), LEARNED]
        for solver in ("ddim", LEARNED) if nfe < 6 else ("unipc",):
            for seed in (0, 5):
                tile = page.locator("#rows").get_by_role("img", name=f"sample {seed}, {solver}, NFE {nfe}")
                pixels = pixels_of(tile)
                assert pixels == stored(home, glob_of(solver), nfe, seed), (solver, nfe, seed)
                seen.add(tuple(pixels))
        slider.press("ArrowRight")
    assert len(seen) > 10
    assert page.get_by_text("No samples at NFE 6.").is_visible()


def glob_of(solver):
    return "dual*" if solver == LEARNED else solver


def test_figures_follow_the_controls_and_markup_stays_text(opened, home):
    page, cells = opened(), results(home)
    assert page.title() == f"toy: ddim, unipc, {LEARNED}"
    page.get_by_role("radio", name="Pixel mean").check(force=True)
    page.get_by_role("slider").press("Home")
    wanted = [f"{cells[name, 3]['figures']['pixel mean'][0]:.3f}" for name in ("ddim", "unipc", LEARNED)]
    shown = page.locator("#table tbody tr td:first-of-type").all_inner_texts()
    assert [text.split()[0][:5] for text in shown] == wanted
    assert page.locator("#chart .curve").count() == 3
    page.get_by_role("checkbox", name="Less ddim, on the same noise").check()
    shown = page.locator("#table tbody tr td:first-of-type").all_inner_texts()
    means = [cells[name, 3]["figures"]["pixel mean"][0] for name in ("ddim", "unipc", LEARNED)]
    assert [float(text.split()[0]) for text in shown] == pytest.approx([m - means[0] for m in means], rel=0.1)
    page.get_by_role("checkbox", name="Less ddim, on the same noise").uncheck()
    page.get_by_role("checkbox", name="ddim", exact=True).uncheck(force=True)
    assert page.locator("#chart .curve").count() == 2
    assert page.locator("#table tbody tr").count() == 2
    status = page.get_by_role("status").text_content()
    assert status.startswith("NFE 3, Pixel mean: unipc 0.")
    gamma = page.get_by_role("img", name="predictor: gamma at NFE 3: 0.2, 0.2, 0.2")
    assert gamma.count() == 1
    page.locator("summary", has_text=LEARNED).last.click()
    assert INSERTED in page.locator("pre").last.inner_text()


def test_a_seed_is_seen_at_every_nfe_by_keyboard_alone(opened):
    page = opened()
    tile = page.locator("#rows button").first
    tile.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("img").count() == 4 + 4 + 3
    names = [image.get_attribute("alt") for image in dialog.get_by_role("img").all()]
    assert len(set(names)) == 11
    assert all("sample 0" in name for name in names)
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert tile.evaluate("element => element === document.activeElement")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_can_be_read_in_light_and_dark(opened, width, scheme):
    page = opened(width, 800, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = rgb(page.locator("body"), "backgroundColor")
    assert (sum(background) > 1.5) == (scheme == "light")
    for place in ("body", ".hint >> nth=0", "th >> nth=0", "svg text.name >> nth=0", ".tabs label >> nth=0"):
        text = page.locator(place)
        if text.count():
            style = "fill" if place.startswith("svg") else "color"
            assert contrast(rgb(text, style), background) > 4.4, place


def rgb(element, style):
    """A colour as the screen gets it, whatever way it is written."""
    draw = """(element, style) => {
        const context = document.createElement("canvas").getContext("2d");
        context.fillStyle = getComputedStyle(element)[style];
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255);
    }"""
    return element.evaluate(draw, style)


def contrast(first, second):
    """The ratio of the Web Content Accessibility Guidelines."""

    def luminance(colour):
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)
