"""`sfl plot --paper`: every figure is a vector drawing of a column's or a page's width, with a caption."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.lines import Line2D

from sfl.baselines.mss.config import MapConfig, MSSConfig, UVFAConfig
from sfl.cli import main
from sfl.errors import UsageError
from sfl.run.settings import EvalConfig, TrainConfig
from sfl.run.train import train
from sfl.show.draw import draw_paper
from sfl.show.maps import blocks, sheet
from sfl.show.mazes import value_heat
from sfl.show.style import MARGIN, PAPER, SCREEN, Plate, escaped, save_vector

from ..run.vectors import check
from ..run.worlds import random_experiment

GRID = ["goals", "sfs-heatmap", "landmark-graph", "landmark-visits", "route", "success"]


def mss_run(folder: Path) -> Path:
    """MSS in FourRoom for a few hundred steps."""
    learner = UVFAConfig(hidden=(32,), batch_size=16, target_every=7, start_step=100, updates_per_step=0.1)
    agent = MSSConfig(uvfa=learner, map=MapConfig(landmarks=6, candidates=50, redraw_every=60), dim=16, replay_size=400)
    base = replace(random_experiment(), name="fourroom-mss", agent=agent)
    sizes = TrainConfig(steps=300, eval_every=0, checkpoint_every=300, log_every=100)
    return train(replace(base, train=sizes, eval=EvalConfig(episodes=1, parallel=1)), 0, folder, "cpu").path


def test_a_run_in_a_grid_gets_vector_figures(small_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(matplotlib.rcParams)
    files = draw_paper([small_run])
    assert check(files) == GRID
    assert {file.parent for file in files} == {small_run / "figures" / "paper"}
    assert dict(matplotlib.rcParams) == before
    assert "not drawn" not in capsys.readouterr().err


def test_svg_figures_are_drawings_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = train(random_experiment(), 0, tmp_path, "cpu").path
    goals, success, *captions = draw_paper([path], "svg")
    assert (goals.name, success.name) == ("goals.svg", "success.svg")
    for file in (goals, success):
        text = file.read_text()
        assert text.count("<path") > 20
        assert "<image" not in text
    assert [file.name for file in captions] == ["captions.md", "captions.tex"]
    assert "maps of landmarks (its policy knows no landmarks)" in capsys.readouterr().err


def test_runs_together_share_a_curve_beside_the_first(small_run: Path, tmp_path: Path) -> None:
    ours = Path(shutil.copytree(small_run, tmp_path / "fourroom-sfl" / "seed-0000"))
    rival = mss_run(tmp_path)
    files = draw_paper([ours, rival])
    assert check(files) == [*GRID[:-1], "goals", "uvfa-distances", "mss-landmarks", "success"]
    assert files[-3] == tmp_path / "fourroom-sfl" / "figures" / "paper" / "success.pdf"
    (caption,) = (files[-3].parent / "captions.md").read_text().splitlines()
    assert re.search(r"Run: fourroom-sfl, seed 0, [\d,]+ steps; fourroom-mss, seed 0, 300 steps\.$", caption)


def test_estimated_distances_are_clipped_at_five_steps() -> None:
    heat = value_heat(np.array([[0.0, -20.0], [-5.0, -5.01]]))
    assert heat.passes.tolist() == [[True, False], [True, False]]
    assert (heat.lowest, heat.highest) == (pytest.approx(-19.1, abs=0.1), 0.0)


def test_what_is_no_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        draw_paper([tmp_path])
    assert list(tmp_path.iterdir()) == []


def test_a_format_without_paper_is_refused(small_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(small_run), "--format", "svg"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "sfl: --format svg is for --paper, which was not given; without it figures are PNG."


def test_blocks_of_a_tile_fill_it_exactly() -> None:
    tile = np.full((6, 8, 3), 255, np.uint8)
    tile[2:4, 3:5] = (10, 20, 30)
    tile[0] = 7
    painted = np.zeros_like(tile)
    found = list(blocks(tile))
    for left, top, right, bottom, colour in found:
        assert (painted[top:bottom, left:right] == 0).all()
        painted[top:bottom, left:right] = colour
    assert np.array_equal(painted, tile)
    assert len(found) == 1 + 1 + 3 + 1


def test_panels_have_letters_on_paper_and_names_on_the_screen() -> None:
    assert SCREEN.headings(["early", "late"]) == ["early", "late"]
    assert PAPER.headings(["early", "late"]) == ["(a)", "(b)"]
    assert PAPER.headings(["alone"]) == [""]
    plate = Plate(matplotlib.figure.Figure(), "Visits.", ("early", "late"), "sfl, seed 0, 5 steps")
    assert plate.caption == "Visits. (a) early; (b) late. Run: sfl, seed 0, 5 steps."


def test_a_page_holds_all_that_was_drawn(tmp_path: Path) -> None:
    figure, (axes,) = sheet(PAPER, (9.0, 9.0), "", "", [""], 1)
    axes.set(aspect="equal", xlim=(0, 9), ylim=(0, 9))
    figure.legend(handles=[Line2D([0], [0], label="below")], loc="outside lower center")
    text = save_vector(figure, tmp_path / "map.svg").read_text()
    page = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert page is not None
    drawn = figure.get_tightbbox()  # saving has put everything in its place
    assert float(page[1]) == pytest.approx(72 * figure.get_figwidth())
    assert float(page[2]) == pytest.approx(72 * (drawn.height + 2 * MARGIN), abs=0.1)


def test_captions_are_fit_for_latex() -> None:
    assert escaped(r"80% of a_b & {c} \d") == r"80\% of a\_b \& \{c\} \textbackslash{}d"


def test_maps_of_a_manuscript_fit_its_columns() -> None:
    for columns in (1, 2, 3, 4):
        for extent in ((9.0, 9.0), (2000.0, 500.0), (500.0, 2000.0)):
            width, height = PAPER.map_size(extent, columns)
            assert columns * width < PAPER.width(columns, 0.0)
            assert width / height == pytest.approx(extent[0] / extent[1])
            assert height < 4
