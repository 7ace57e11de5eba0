"""Figures of a short run of SFL in the maze `small`, over an encoder that has learned nothing."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sfl.method.config import EdgeConfig, FrameConfig, FrameSFLConfig, LandmarkConfig, NavigatorConfig, SuccessorConfig
from sfl.run.folder import RunFolder, export, load_run
from sfl.run.indicators import Leg
from sfl.run.log import read_columns
from sfl.run.settings import Experiment
from sfl.run.train import train
from sfl.show import views as survey_module
from sfl.show.draw import draw, draw_paper
from sfl.show.maps import Site
from sfl.show.mazes import early_run, edge_success, graph_figure, visits_figure
from sfl.show.style import SCREEN
from sfl.show.views import aliased_pairs, central_places, free_ahead, survey, view_at
from sfl.worlds.doom.world import MazeWorld

from ..run.dooms import doom_experiment, unlearned_encoder
from ..run.vectors import check

ALWAYS = ["goals", "trajectories", "coverage"]
ALIKE = ["sfs-heatmap", "aliased-views"]
GRAPH = ["landmark-graph", "landmark-visits", "edge-success", "routes"]


def sfl_experiment(place: Path) -> Experiment:
    agent = FrameSFLConfig(
        FrameConfig(unlearned_encoder(place)),
        SuccessorConfig((32,), gamma=0.9, n_step=2, batch_size=16, start_step=40, updates_per_step=0.1, whiten=True),
        LandmarkConfig(limit=40, add_threshold=0.9, localize_threshold=0.7, start_step=60, add_every=20),
        EdgeConfig(threshold=0, form_every=30, k_nearest=2),
        NavigatorConfig(frontier_steps=20, explore_steps=10, replan_after=8),
        replay_size=500,
    )
    base = doom_experiment(place, max_steps=60, steps=600, eval_every=0, checkpoint_every=150, log_every=150)
    return replace(base, name="laptop-maze-sfl", agent=agent)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("doom")
    return train(sfl_experiment(place), 0, place / "runs", "cpu")


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "PLACES", 16)


def world_of(run: RunFolder) -> MazeWorld:
    return MazeWorld(load_run(run.path, device="cpu").experiment.env)  # type: ignore[arg-type]


def drawn(path: Path) -> list[str]:
    files = draw([path])
    for file in files:
        pixels = np.asarray(Image.open(file).convert("RGB"))
        assert min(pixels.shape[:2]) > 400, file
        assert len(np.unique(pixels @ np.array([1, 256, 65536]))) > 50, f"{file} is blank"
    return [file.stem for file in files]


def test_an_evaluation_in_a_maze_writes_the_indicators(run: RunFolder) -> None:
    columns = read_columns(run.path / "eval.csv")
    shares = ("localized_in_evaluation", "localization_within_100", "localization_within_100_of_all")
    localized, within, of_all = (columns[f"graph/{name}"][-1] for name in shares)
    assert 0 < of_all <= localized <= 1
    assert of_all == pytest.approx(localized * within)
    assert 0 <= columns["graph/localization_angle_median"][-1] <= 180
    assert 0 <= columns["graph/edges_across_walls"][-1] < 1
    assert columns["eval/waypoint_count"][-1] > 0
    assert np.isnan(columns["graph/localization_within_1"][-1])


def test_a_run_of_sfl_gets_every_figure(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert drawn(run.path) == [*ALWAYS, *ALIKE, *GRAPH, "indicators", "success"]
    assert "not drawn" not in capsys.readouterr().err


def test_a_maze_in_which_every_task_is_solved_at_its_start_has_all_but_the_routes(
    run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MazeWorld, "solved_at_start", lambda world, task: True)
    assert [file.stem for file in draw([run.path])] == [*ALWAYS, *ALIKE, *GRAPH[:-1], "indicators", "success"]
    assert "not drawn: routes (every task is solved where it starts)" in capsys.readouterr().err


def test_a_run_of_sfl_gets_the_papers_figures_as_drawings(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    found = check(draw_paper([run.path]), pictures=("goals", "aliased-views"))
    assert found == ["goals", "coverage", *ALIKE, *GRAPH, "success"]
    captions = (run.path / "figures" / "paper" / "captions.md").read_text()
    assert re.search(r"edge-success.*\(a\) 150 steps: .*; \(b\) 600 steps: ", captions)
    assert "not drawn" not in capsys.readouterr().err


def test_a_slim_copy_lacks_only_where_training_has_been(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slim = export(run.path, tmp_path / "slim")
    assert drawn(slim.path) == ["goals", "trajectories", *ALIKE, *GRAPH, "indicators", "success"]
    assert "not drawn: coverage (a slim copy does not say" in capsys.readouterr().err


def test_a_run_without_landmarks_shows_what_looks_alike(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load_run(run.path, device="cpu").experiment
    short = train(replace(experiment, train=replace(experiment.train, steps=30)), 0, tmp_path, "cpu")
    capsys.readouterr()
    assert drawn(short.path) == [*ALWAYS, *ALIKE, "success"]
    assert "not drawn: the landmark graph (it has no landmarks yet; train it for longer)" in capsys.readouterr().err


def test_visits_are_shown_early_where_a_checkpoint_was_kept(run: RunFolder, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run.path, tmp_path / "copy"))
    loaded = load_run(copy, device="cpu")
    site = Site(loaded, world_of(run), SCREEN)
    early, now, _ = visits_figure(site, early_run(loaded)).figure.axes  # the last is the colour bar
    assert early.get_title().startswith("150 steps")
    assert now.get_title().startswith(f"600 steps: {len(loaded.landmark_poses)} landmarks")
    shutil.rmtree(copy / "checkpoints" / "000000150")
    assert visits_figure(site, early_run(loaded)).figure.axes[0].get_title().startswith("300 steps")
    for kept in (copy / "checkpoints").glob("000*"):
        shutil.rmtree(kept)
    assert early_run(loaded) is None
    assert len(visits_figure(site, None).figure.axes) == 2


def test_filters_only_take_edges_away(run: RunFolder) -> None:
    loaded = load_run(run.path, device="cpu")
    config = loaded.experiment.agent.edges  # type: ignore[union-attr]
    bare, filtered = graph_figure(Site(loaded, world_of(run), SCREEN), config).figure.axes
    counts = [int(axes.get_title().split(": ")[1].split()[0]) for axes in (bare, filtered)]
    assert counts[0] > counts[1] == len(loaded.graph["edge_sources"]) > 0
    assert "2 nearest" in filtered.get_title()


# ---- what the figures are made of


def test_the_survey_looks_in_four_directions_from_all_over_the_maze(run: RunFolder) -> None:
    world = world_of(run)
    found = survey(world)
    free = world.sampler.free
    assert free.contains(found.poses[:, :2]).all()
    assert len(found.poses) % 4 == 0
    assert len(found.poses) >= 4 * 16
    places = free.sample(np.random.default_rng(0), 200)
    gaps = np.linalg.norm(places[:, None] - found.poses[::4, :2], axis=2).min(1)
    assert gaps.max() < 1.5 * found.side  # nowhere is left out
    assert found.frames.shape == (len(found.poses), 120, 160, 3)
    assert np.linalg.norm(found.poses[found.start, :2] - world.sampler.maze.start[:2]) < found.side
    assert found.distances[found.start, found.far] > 500


def test_places_are_one_for_each_square_and_near_its_middle(run: RunFolder) -> None:
    free = world_of(run).sampler.free
    places = central_places(free, 100.0)
    numbers = np.floor(places / 100)
    assert len(np.unique(numbers, axis=0)) == len(places)
    points = free.origin + free.cell * np.argwhere(free.mask)
    mine = points[(np.floor(points / 100) == numbers[5]).all(1)]
    middle = 100 * (numbers[5] + 0.5)
    best = np.linalg.norm(mine - middle, axis=1).min()
    assert np.linalg.norm(places[5] - middle) == pytest.approx(best)


def test_the_way_ahead_ends_at_the_wall(run: RunFolder) -> None:
    free = world_of(run).sampler.free
    poses = np.array([[150.0, 200, 90], [150, 200, 270], [150, 200, 180]])  # the left corridor: x 64 to 192, y from 64
    ahead = free_ahead(free, poses)
    assert ahead[0] > 200
    assert ahead[1] == pytest.approx(200 - 64 - 16, abs=8)
    assert ahead[2] == pytest.approx(150 - 64 - 16, abs=8)


def test_the_closest_view_is_chosen_by_place_and_then_by_heading() -> None:
    poses = np.array([[0.0, 0, 0], [50, 0, 0], [50, 0, 270], [50, 0, 90]])
    assert view_at(poses, (45.0, 3.0, 300.0)) == 2


def test_aliased_pairs_are_alike_far_apart_and_new() -> None:
    poses = np.array([[0.0, 0, 0], [500, 0, 0], [550, 0, 0], [0, 900, 0], [300, 0, 0], [50, 0, 0]])
    sfs = np.eye(6)
    for first, second, value in ((0, 1, 0.9), (0, 2, 0.95), (1, 5, 0.93), (1, 3, 0.8), (0, 4, 0.99), (2, 3, 0.7)):
        sfs[first, second] = sfs[second, first] = value
    everything = np.ones(6, bool)
    # 0-4 is near; 0-1 and 1-5 show what 0-2 shows; 2-3 what 1-3 shows.
    assert aliased_pairs(sfs, poses, everything, 2) == [(0, 2), (1, 3)]
    assert aliased_pairs(sfs, poses, np.array([1, 1, 0, 1, 1, 0], bool), 9)[:2] == [(0, 1), (1, 3)]
    assert aliased_pairs(sfs, poses, ~everything, 2) == []


def test_an_edge_holds_when_its_end_is_truly_reached_in_time() -> None:
    legs = [
        Leg(1, 2, True, 15, 2, True),
        Leg(1, 2, True, 16, 2, True),  # late
        Leg(1, 2, True, 5, 2, False),  # only believed
        Leg(1, 2, True, 5),  # given up
        Leg(1, 2, True, 5, 3, True),  # passed by: no try
        Leg(1, 2, False, 5, 2, True),  # did not begin at 1: no try
        Leg(None, 2, False, 5, 2, True),
        Leg(2, 1, True, 5, 1, True),
    ]
    assert edge_success(legs) == {(1, 2): (4, 1), (2, 1): (1, 1)}


def test_columns_are_read_with_gaps(tmp_path: Path) -> None:
    path = tmp_path / "eval.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["env_steps", "a", "b"], [10, 0.5, ""], [20, "", 3]])
    columns = read_columns(path)
    assert columns["env_steps"] == [10, 20]
    np.testing.assert_array_equal(columns["a"], [0.5, np.nan])
    np.testing.assert_array_equal(columns["b"], [np.nan, 3])
