"""Figures of the paper's baselines in a maze: the distances and landmarks of MSS, and coverage of several runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfl.baselines.mss.config import MapConfig, UVFAConfig, over_frames
from sfl.run.folder import LoadedRun, load_run
from sfl.run.train import train
from sfl.show import views as survey_module
from sfl.show.draw import _coverage, draw_paper
from sfl.show.maps import Site
from sfl.show.mazes import _value_figures, coverage_figure, maze_site
from sfl.show.style import PAPER, SCREEN
from sfl.show.views import frozen, values_policy
from sfl.worlds.doom.world import MazeWorld

from ..run.dooms import doom_experiment, unlearned_encoder
from ..run.vectors import check


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MSS, told true positions, in the maze `small`."""
    place = tmp_path_factory.mktemp("mss")
    agent = over_frames(
        encoder=unlearned_encoder(place),
        stack=2,
        uvfa=UVFAConfig((16,), batch_norm=True, batch_size=16, target_every=10, start_step=60, updates_per_step=0.1),
        map=MapConfig(landmarks=8, candidates=40, redraw_every=60),
        replay_size=300,
        cycle_steps=10,
        oracle=True,
    )
    base = doom_experiment(place, steps=150, eval_every=0, checkpoint_every=150, log_every=150)
    return train(replace(base, name="laptop-maze-mss-oracle", agent=agent), 0, place / "runs", "cpu").path


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "PLACES", 16)


def test_mss_shows_its_distances_and_landmarks(path: Path) -> None:
    found = check(draw_paper([path]), pictures=("goals",))
    assert found == ["goals", "coverage", "uvfa-distances", "mss-landmarks", "success"]
    captions = (path / "figures" / "paper" / "captions.md").read_text()
    assert "trained with true positions in its hindsight rewards" in captions
    assert "The 8 landmarks that MSS chose in the maze small" in captions


def test_without_the_oracle_the_caption_says_so(path: Path) -> None:
    run = load_run(path, device="cpu")
    site, policy = maze_site(run, PAPER), values_policy(frozen(run))
    assert site is not None
    assert policy is not None
    plate = _value_figures(site, policy, oracle=False)["uvfa-distances"]
    assert "trained without true positions" in plate.caption
    assert [axes.get_title() for axes in plate.figure.axes[:4]] == ["(a)", "(b)", "(c)", "(d)"]


def sites(run: LoadedRun, *walks: list[list[float]]) -> list[Site]:
    world = MazeWorld(run.experiment.env)  # type: ignore[arg-type]
    return [Site(replace(run, seed=seed, poses=np.array(walk)), world, SCREEN) for seed, walk in enumerate(walks)]


def test_coverage_is_shown_side_by_side(path: Path) -> None:
    run = load_run(path, device="cpu")
    here, there = [110.0, 110.0, 0.0], [110.0, 170.0, 0.0]  # squares of 50 units: two of them
    both = sites(run, [here, here], [here, there])
    plate = coverage_figure(both)
    squares = both[0].world.squares()
    shares = [f"{100 * count / len(squares.reachable):.0f}% of {len(squares.reachable)} squares" for count in (1, 2)]
    names = [axes.get_title() for axes in plate.figure.axes[:2]]
    assert names == [f"laptop-maze-mss-oracle, seed {seed}, 150 steps, random spawn: {shares[seed]}" for seed in (0, 1)]
    seen = [axes.collections[1].get_array() for axes in plate.figure.axes[:2]]
    assert [np.ma.sum(array) for array in seen] == [2, 2]
    assert [np.ma.count(array) for array in seen] == [1, 2]


def test_runs_in_different_mazes_have_no_coverage_in_common(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first,), (second,) = (sites(load_run(path, device="cpu"), [[110.0, 110.0, 0.0]]) for _ in range(2))
    assert list(_coverage([first, second])) == ["coverage"]
    second.world.maze = "elsewhere"
    assert _coverage([first, second]) == {}
    assert "not drawn, because they are in elsewhere, small" in capsys.readouterr().err
