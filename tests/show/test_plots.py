from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfl import experiments
from sfl.errors import UsageError
from sfl.run.checkpoint import sign_header as signed
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow
from sfl.run.folder import export
from sfl.run.train import train
from sfl.show.curves import steps_text, success_curve, success_figure
from sfl.show.draw import draw
from sfl.show.style import SCREEN
from sfl.worlds import GymConfig

from ..run.worlds import random_experiment

ROW = EpisodeRow("e", "sfl", "sfl/FourRoom-v0", "", "fixed", 0, 1000, "any", 0, 100, 1, 20, "reached")
MAPS = ["goals.png", "sfs-heatmap.png", "landmark-graph.png", "landmark-visits.png", "route.png", "indicators.png"]


def rows(seed: int, env_steps: int, successes: int) -> list[EpisodeRow]:
    """Ten episodes of one evaluation."""
    common = replace(ROW, seed=seed, env_steps=env_steps)
    return [replace(common, pair=pair, success=int(pair < successes)) for pair in range(10)]


def names(files: list[Path]) -> list[str]:
    return [file.name for file in files]


def test_a_run_gets_all_its_figures(small_run: Path) -> None:
    files = draw([small_run])
    assert names(files) == [*MAPS, "success.png"]
    assert {file.parent for file in files} == {small_run / "figures"}
    for file in files:
        pixels = np.asarray(Image.open(file).convert("RGB"))
        assert 500 < pixels.shape[0] < 2000, file
        assert 500 < pixels.shape[1] < 2000, file
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, f"{file} is blank"


def test_a_published_run_is_drawn_alike(small_run: Path, tmp_path: Path) -> None:
    copy = export(small_run, tmp_path / "slim").path
    draw([small_run])
    draw([copy])
    for name in [*MAPS, "success.png"]:
        original, redrawn = (np.asarray(Image.open(run / "figures" / name)) for run in (small_run, copy))
        assert np.array_equal(original, redrawn), name


def test_several_runs_share_a_success_curve(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = shutil.copytree(small_run, tmp_path / "fourroom-sfl" / "seed-0000")
    chance = train(random_experiment(), 0, tmp_path, "cpu").path
    files = draw([ours, chance])
    assert names(files) == [*MAPS, "goals.png", "success.png"]
    assert files[-1] == tmp_path / "fourroom-sfl" / "figures" / "success.png"
    assert "not drawn: maps of landmarks (its policy knows no landmarks)" in capsys.readouterr().err
    with pytest.raises(UsageError, match="Seed 0 of fourroom-sfl is given twice"):
        draw([ours, small_run])


def test_a_world_without_poses_gets_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = replace(experiments.tiny(experiments.get("world-sfl")), env=GymConfig(id="CliffWalking-v1"))
    path = train(experiment, 0, tmp_path, "cpu").path
    capsys.readouterr()
    assert names(draw([path])) == ["sfs-matrix.png", "indicators.png", "success.png"]
    line, finding = capsys.readouterr().err.splitlines()
    assert "not drawn: sfs-heatmap (the environment cannot list its states" in line
    assert "landmark-graph, landmark-visits and route (no poses on one map)" in line
    assert "docs/reference/troubleshooting.md#" in finding  # so short a run has no graph


def test_a_run_that_was_never_evaluated_has_no_curve(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(small_run, tmp_path / "seed-0000")
    (copy / "episodes.csv").write_text(",".join(EPISODE_COLUMNS) + "\n")
    header = copy / "checkpoints" / "last" / "format.json"
    header.write_text(json.dumps(signed(json.loads(header.read_text()) | {"tables": {}})))
    assert names(draw([copy])) == MAPS
    assert "nothing has been evaluated yet" in capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        draw([tmp_path])


def test_mean_and_error_are_over_seeds() -> None:
    curve = success_curve(rows(0, 500, 2) + rows(1, 500, 4) + rows(0, 1000, 10) + rows(1, 1000, 10))
    assert curve.steps.tolist() == [500, 1000]
    assert curve.percent == pytest.approx([30, 100])
    assert curve.error == pytest.approx([10, 0])  # 20 and 40: standard deviation 14.14, by the root of 2
    assert curve.seeds == 2


def test_a_curve_ends_where_the_first_seed_does() -> None:
    curve = success_curve(rows(0, 500, 2) + rows(1, 500, 4) + rows(1, 1000, 10))
    assert curve.steps.tolist() == [500]


def test_seeds_evaluated_at_different_steps_are_all_shown() -> None:
    curve = success_curve(rows(0, 500, 2) + rows(1, 600, 4))
    assert (curve.steps.tolist(), curve.percent.tolist(), curve.error.tolist()) == ([500, 600], [20, 40], [0, 0])


def test_an_axis_without_curves_goes_to_the_last_step() -> None:
    """A policy that was evaluated once is a level, which says nothing of steps."""
    figure = success_figure(rows(0, 4_000, 2) + rows(1, 4_000, 3), SCREEN).figure
    assert figure.axes[0].get_xlim() == (0, 4_000)


def test_steps_on_an_axis_are_short() -> None:
    assert [steps_text(steps) for steps in (0, 500, 40_000, 999_000, 1_500_000, 4_000_000)] == [
        *("0", "0.5k", "40k", "999k", "1.5M", "4M"),
    ]
