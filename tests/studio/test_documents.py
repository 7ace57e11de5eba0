"""Map, graph, pictures, curves and settings, against what the run folder holds."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from sfl.api import Array
from sfl.baselines.config import SPTMConfig
from sfl.baselines.mss.config import MSSConfig
from sfl.method.config import EdgeConfig, NavigatorConfig, SFLConfig
from sfl.method.edges import EdgeStatistics, form_edges
from sfl.run.folder import load_run
from sfl.studio.answers import encode, numbers, shares
from sfl.studio.curves import curves, flattened, group_of, settings, thinned, title_of
from sfl.studio.graph import components, edge_columns, frontier_of, thresholds
from sfl.studio.runs import Run
from sfl.worlds.doom.world import SQUARE
from sfl.worlds.grids import LAYOUTS


def test_numbers_that_json_does_not_know_are_null() -> None:
    assert numbers(np.array([[1.26, np.nan], [-np.inf, 2]]), 1) == [[1.3, None], [None, 2.0]]
    assert shares(np.array([0, 1e-9, 0.5, 2999 / 3000, 1, np.nan]), 3) == [0.0, 0.001, 0.5, 0.999, 1.0, None]
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"x": float("nan")})


def test_the_map_of_a_grid(client: TestClient) -> None:
    found = client.get("/api/runs/r0/map").json()
    layout = LAYOUTS["FourRoom"]
    assert (found["kind"], found["unit"], found["y_down"], found["walls"]) == ("grid", "cell", True, [])
    assert found["bounds"] == [-0.5, -0.5, 8.5, 8.5]
    marks = {(x, y): mark for y, row in enumerate(found["cells"]["rows"]) for x, mark in enumerate(row)}
    assert {cell for cell, mark in marks.items() if mark == "#"} == layout.walls
    assert marks[layout.tile] == "G"
    assert found["start"] == [*layout.start, 0.0]
    assert {level: len(tasks) for level, tasks in found["tasks"].items()} == {"paper": 4, "any": 4}
    assert found["tasks"]["paper"][0] == {"start": [1.0, 1.0, 0.0], "goal": [6.0, 7.0, 0.0], "budget": 100}


def test_the_map_of_a_maze(client: TestClient, maze_run: Path) -> None:
    found = client.get("/api/runs/r1/map").json()
    assert (found["kind"], found["unit"], found["y_down"], found["cells"]) == ("maze", "map unit", False, None)
    walls = np.array(found["walls"])
    assert walls.shape[1] == 4
    assert found["bounds"] == [*walls.reshape(-1, 2).min(0), *walls.reshape(-1, 2).max(0)]
    assert found["success_radius"] == 63.0
    own = json.loads((maze_run / "tasks.json").read_text())["levels"]["easy"]
    assert [task["goal"] for task in found["tasks"]["easy"]] == [pytest.approx(pair["goal"], abs=0.01) for pair in own]


def test_the_graph_is_that_of_the_checkpoint(client: TestClient, grid_run: Path) -> None:
    run = load_run(grid_run, device="cpu")
    found = client.get("/api/runs/r0/graph", params={"checkpoint": "last"}).json()
    landmarks, edges = found["landmarks"], found["edges"]
    assert (found["checkpoint"], found["env_steps"], found["score"], found["note"]) == ("last", 1200, "SFS", "")
    assert np.array_equal(np.column_stack([landmarks[name] for name in ("x", "y", "degrees")]), run.landmark_poses)
    assert landmarks["visits"] == run.graph["visits"].tolist()
    assert landmarks["added"] == run.graph["added_at"].tolist()
    used = [(s, t) for s, t, on in zip(edges["source"], edges["target"], edges["in_force"], strict=True) if on]
    assert used == list(zip(run.graph["edge_sources"].tolist(), run.graph["edge_targets"].tolist(), strict=True))
    assert used
    assert found["thresholds"] == {"add": 0.999, "localize": 0.5, "edge": 1.0}
    assert {len(column) for column in edges.values()} == {len(edges["source"])}
    assert {len(column) for column in landmarks.values()} == {len(run.landmark_poses)}


def test_coverage_is_known_of_every_checkpoint_by_the_last_one(client: TestClient, grid_run: Path) -> None:
    poses = load_run(grid_run, device="cpu").poses
    for name, steps in {"000000600": 600, "last": 1200}.items():
        found = client.get("/api/runs/r0/graph", params={"checkpoint": name}).json()["coverage"]
        visits = {(x, y): count for (x, y), count in zip(found["squares"], found["visits"], strict=True)}
        assert sum(visits.values()) == steps
        assert visits[1.0, 1.0] == int((poses[:steps, :2] == 1).all(1).sum())
    found = client.get("/api/runs/r1/graph").json()["coverage"]
    assert found["side"] == SQUARE
    assert all(x % SQUARE == y % SQUARE == SQUARE / 2 for x, y in found["squares"])  # the middles


def test_a_graph_is_sent_once(client: TestClient) -> None:
    first = client.get("/api/runs/r1/graph")
    again = client.get("/api/runs/r1/graph", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/api/runs/r1/graph?checkpoint=000020000", headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200
    counts = [len(answer.json()["landmarks"]["x"]) for answer in (other, first)]
    assert counts == [4, 40]


def arrays_of(statistics: EdgeStatistics, config: EdgeConfig, count: int) -> dict[str, Array]:
    formed = form_edges(statistics, config, count)
    columns = {name: getattr(formed, name) for name in ("sources", "targets", "counts", "weights")}
    return {"origin": np.arange(count), **statistics.state(), **{f"edge_{name}": c for name, c in columns.items()}}


def test_edges_before_and_after_the_filters_and_how_often_they_hold() -> None:
    statistics, config = EdgeStatistics(), EdgeConfig(threshold=1.0, k_nearest=1)
    counted = {(0, 1): 5, (0, 2): 3, (1, 2): 2, (2, 0): 1}  # the last is below the threshold
    for (source, target), count in counted.items():
        for _ in range(count):
            statistics.record(source, target, 2, random=True)
    for _ in range(3):
        statistics.record_walk(0, 1)
    statistics.record_failure(0, 1, 10)
    statistics.record_failure(1, 2, 10)
    agent = SFLConfig(edges=config)
    found = edge_columns(arrays_of(statistics, config, 3), agent)
    pairs = list(zip(found["source"].tolist(), found["target"].tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    assert found["count"].tolist() == [5, 3, 2]
    assert found["in_force"].tolist() == [True, False, True]  # each has one most frequent edge
    np.testing.assert_array_equal(found["success"], [0.75, np.nan, 0.0])
    assert thresholds(arrays_of(statistics, config, 3), agent)["edge"] == 1.0
    dynamic = replace(agent, edges=replace(config, dynamic_threshold=True))
    assert thresholds(arrays_of(statistics, config, 3), dynamic)["edge"] == 2.5


def test_an_edge_in_force_that_has_fallen_below_the_median_since_is_shown() -> None:
    statistics, config = EdgeStatistics(), EdgeConfig(threshold=0.0)
    statistics.record(0, 1, 2, random=True)
    arrays = arrays_of(statistics, config, 3)
    for _ in range(5):
        statistics.record(1, 2, 2, random=True)
    later = arrays | statistics.state()
    found = edge_columns(later, SFLConfig(edges=EdgeConfig(dynamic_threshold=True, inclusive=True)))
    assert found["in_force"].tolist() == [True, False]
    assert found["count"].tolist() == [1, 5]


def test_other_methods_have_edges_of_which_no_tries_are_known() -> None:
    arrays = {"edge_sources": [1, 0], "edge_targets": [0, 1], "edge_counts": [1, 2], "edge_weights": [1.0, 1.0]}
    found = edge_columns({name: np.array(column) for name, column in arrays.items()}, SPTMConfig())
    assert found["source"].tolist() == [0, 1]
    assert found["count"].tolist() == [2, 1]
    assert found["in_force"].all()
    assert np.isnan(found["success"]).all()
    assert thresholds({}, SPTMConfig()) == {"add": None, "localize": 0.95, "edge": None}
    assert thresholds({}, MSSConfig())["localize"] == MSSConfig().map.clip


def test_components_are_numbered_by_size_and_need_a_way_back() -> None:
    edges = {"source": np.array([0, 1, 2, 3, 4, 5, 2]), "target": np.array([3, 2, 1, 4, 5, 3, 3])}
    edges["in_force"] = np.array([1, 1, 1, 1, 1, 1, 0])
    # 0 has an edge to the ring of 3, 4 and 5, but none leads back; the one from 2 to 3 is not in force.
    assert components(edges, 6).tolist() == [2, 1, 1, 0, 0, 0]
    assert components({name: column[:0] for name, column in edges.items()}, 2).tolist() == [0, 1]
    assert components({name: column[:0] for name, column in edges.items()}, 0).tolist() == []


def test_the_frontier_gets_half_of_the_draws() -> None:
    visits = np.array([100, 1, 4, 0, 2])  # odds 1/100, 1, 1/4, 1, 1/2: 2.76 in all
    marked, rule = frontier_of(visits, SFLConfig())
    assert sorted(marked) == [1, 3]
    assert "odds 1 / max(1, visits)" in rule
    uniform = SFLConfig(navigator=NavigatorConfig(frontier="uniform"))
    assert frontier_of(visits, uniform)[0] == []
    assert frontier_of(visits, SPTMConfig()) == ([], "This method has no frontier.")


def test_pictures_of_landmarks(client: TestClient) -> None:
    answer = client.get("/api/runs/r0/landmarks/0/picture")
    assert answer.headers["content-type"] == "image/png"
    picture = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB"))
    assert picture.shape == (9 * 16, 9 * 16, 3)
    where = client.get("/api/runs/r0/graph").json()["landmarks"]
    red = (picture[:, :, 0] > 200) & (picture[:, :, 1:].max(2) < 50)  # the agent
    y, x = np.argwhere(red).mean(0) // 16
    assert (x, y) == (where["x"][0], where["y"][0])
    count = len(where["x"])
    missing = client.get(f"/api/runs/r0/landmarks/{count}/picture")
    assert missing.status_code == 404
    assert missing.json()["error"] == f"There is no landmark {count}; checkpoint last has {count}."


def test_pictures_of_a_maze_are_what_the_game_shows(client: TestClient) -> None:
    first, again = (client.get("/api/runs/r1/landmarks/3/picture") for _ in range(2))
    picture = np.asarray(Image.open(io.BytesIO(first.content)))
    assert picture.shape == (120, 160, 3)
    assert picture.std() > 10
    assert again.content == first.content


def test_curves_of_several_runs(client: TestClient) -> None:
    found = client.get("/api/curves?runs=r0,r1").json()
    assert found["levels"] == ["paper", "any", "easy", "medium", "hard"]
    by_name = {metric["name"]: metric for metric in found["metrics"]}
    assert by_name["eval/success_easy"]["runs"]["r1"]["values"][-1] == 1.0
    loss = by_name["train/sf_loss"]
    assert (loss["group"], loss["title"], loss["unit"]) == ("training", "Sf loss", "squared feature")
    assert set(loss["runs"]) == {"r0", "r1"}
    assert [metric["group"] for metric in found["metrics"]] == sorted(
        (metric["group"] for metric in found["metrics"]), key=["success", "indicator", "training"].index
    )
    assert client.get("/api/curves?runs=").status_code == 400


@pytest.mark.parametrize("rest", ["1300,0.5", "1300", "\0\0", "x" * 5000, "1300," + "9" * 40])
def test_a_line_that_is_being_written_is_left_out(grid_run: Path, rest: str) -> None:
    run = Run("r0", grid_run)
    before = curves([run])
    with (grid_run / "train.csv").open("a") as file:
        file.write(rest)
    assert curves([run]) == before


@pytest.mark.parametrize("content", ["", "\n", "env_steps\n", "a,b\n1,2\n", "env_steps,train/sf_loss\n5,word\n"])
def test_a_table_that_is_not_what_it_should_be_has_no_curves(grid_run: Path, content: str) -> None:
    (grid_run / "train.csv").write_text(content)
    (grid_run / "eval.csv").unlink()
    assert curves([Run("r0", grid_run)]) == {"metrics": [], "levels": []}


def test_curves_are_thinned_and_keep_their_ends() -> None:
    lines = {name: (np.arange(count), np.arange(count) * 2) for name, count in (("done", 10_000), ("begun", 7_003))}
    (steps, values), (others, _) = thinned(lines).values()
    assert 500 <= len(steps) <= 502
    assert (steps[0], steps[-1]) == (0, 9_999)
    assert (others[0], others[-1]) == (0, 7_002)
    assert np.array_equal(values, 2 * steps)
    assert set(others[:-1].tolist()) <= set(steps.tolist())  # seeds are compared where both were measured
    assert (title_of("eval/success_paper"), group_of("explore/coverage")) == ("Success paper", "indicator")
    assert (group_of("time/env_steps_per_second"), group_of("memory/host")) == ("indicator", "training")


def test_settings_and_what_differs(grid_run: Path, tmp_path: Path) -> None:
    body: Any = json.loads((grid_run / "config.json").read_text())
    other = tmp_path / "other"
    other.mkdir()
    body["experiment"]["agent"]["landmarks"]["add_threshold"], body["seed"] = 0.25, 4
    (other / "config.json").write_text(json.dumps(body))
    found = settings([Run("r0", grid_run), Run("r1", other)])
    assert found["differs"] == ["seed", "agent.landmarks.add-threshold"]
    assert found["settings"]["r1"]["agent.landmarks.add-threshold"] == 0.25
    assert settings([Run("r0", grid_run)])["differs"] == []
    assert flattened({"a_b": {"c_d": [1, 2]}, "e": None}) == {"a-b.c-d": [1, 2], "e": None}
