"""Fields: the table of a checkpoint, its making, keeping and reading."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from starlette.testclient import TestClient

from sfl import experiments
from sfl.errors import UsageError
from sfl.run.folder import load_run
from sfl.run.train import train
from sfl.show import views as survey
from sfl.show.views import SimilarityPolicy, cell_sfs, frozen
from sfl.studio.answers import NotReadyError
from sfl.studio.fields import Fields
from sfl.studio.runs import fingerprint
from sfl.studio.shared import Studio
from sfl.worlds import MiniGridConfig, make_env


def make(client: TestClient, run: str, checkpoint: str = "last") -> dict[str, Any]:
    """Have a table made and wait for it; returns the last status."""
    address, body = f"/api/runs/{run}/fields", {"checkpoint": checkpoint}
    totals = {client.post(address, json=body).json()["total"]}
    for _ in range(10_000):  # minutes, as a game may have to start on a busy machine
        status: dict[str, Any] = client.get(address, params=body).json()
        totals.add(status["total"])
        assert status["done"] <= status["total"]
        if status["state"] != "making":
            return status
        time.sleep(0.02)
    raise AssertionError("the field was not made")


def test_a_field_is_the_sfs_of_the_frozen_policy(client: TestClient, grid_run: Path) -> None:
    before = client.get("/api/runs/r0/fields").json()
    assert (before["state"], before["places"], before["score"]) == ("absent", None, "SFS")
    status = make(client, "r0")
    assert (status["state"], status["range"]) == ("ready", [-1.0, 1.0])
    places = status["places"]
    assert (places["side"], places["headings"]) == (1.0, [0.0, 90.0, 180.0, 270.0])
    poses, observations = make_env(MiniGridConfig()).get_wrapper_attr("survey")()
    policy = frozen(load_run(grid_run, device="cpu"))
    assert isinstance(policy, SimilarityPolicy)
    clicked = {"checkpoint": "last", "x": 2.3, "y": 6.8, "degrees": 100}
    found = client.post("/api/runs/r0/field", json=clicked).json()
    assert found["reference"] == [2.0, 7.0, 90.0]  # the nearest view
    assert found["exact"]  # a grid has no others
    reference = observations[(poses == (2, 7, 90)).all(1)][0]
    values = np.array(found["values"])
    np.testing.assert_allclose(values.ravel(), policy.sfs(observations, reference[None])[:, 0], atol=2e-3)
    cells, means = cell_sfs(policy, poses, observations, reference)
    where = {(x, y): mean for (x, y), mean in zip(cells.tolist(), means, strict=True)}
    shown = {(x, y): row.mean() for x, y, row in zip(places["x"], places["y"], values, strict=True)}
    assert shown == pytest.approx(where, abs=2e-3)


def test_without_a_heading_it_is_the_best_of_four(client: TestClient) -> None:
    make(client, "r0")
    body: dict[str, Any] = {"checkpoint": "last", "x": 1, "y": 1}
    four = [
        client.post("/api/runs/r0/field", json=body | {"degrees": turn}).json()["values"] for turn in range(0, 360, 90)
    ]
    best = client.post("/api/runs/r0/field", json=body | {"degrees": None}).json()
    assert best["reference"] == [1.0, 1.0, None]
    np.testing.assert_allclose(best["values"], np.max(four, axis=0), atol=2e-3)


def no_agent(*_: Any) -> NoReturn:
    raise AssertionError("the agent is not needed")


def test_a_table_is_kept_with_the_run_and_used_without_its_agent(client: TestClient, studio: Studio) -> None:
    run = studio.shelf.run("r0")
    make(client, "r0")
    make(client, "r0", "000000600")
    kept = sorted(path.name for path in (run.folder.path / "studio").iterdir())
    assert [name.rpartition("-")[0] for name in kept] == ["field-000000600", "field-last"]
    fields = Fields(studio.atlas, no_agent)
    try:
        assert fields.status(run, "last")["state"] == "ready"
        ours, kept_one = (each.field(run, "last", 1, 1, 0) for each in (studio.fields, fields))
        assert ours["values"] == kept_one["values"]
    finally:
        fields.close()


def test_another_checkpoint_of_the_name_has_no_field_yet(client: TestClient, studio: Studio) -> None:
    folder = studio.shelf.run("r0").folder
    make(client, "r0")
    shutil.rmtree(folder.last)
    shutil.copytree(folder.history(600), folder.last)  # as if the run had gone on
    assert client.get("/api/runs/r0/fields").json()["state"] == "absent"
    make(client, "r0")
    assert len(list((folder.path / "studio").iterdir())) == 1  # the old one would never be asked for again


def test_a_table_that_is_damaged_is_made_anew(client: TestClient, studio: Studio) -> None:
    run = studio.shelf.run("r0")
    make(client, "r0")
    file = next((run.folder.path / "studio").iterdir())
    for content in (b"", b"half", file.read_bytes()[:-2000]):
        file.write_bytes(content)
        fields = Fields(studio.atlas, studio.load_marked)
        assert fields.status(run, "last")["state"] == "absent"
        fields.close()


def test_where_nothing_can_be_written_it_stays_in_memory(client: TestClient, grid_run: Path) -> None:
    (grid_run / "studio").write_text("a file where the folder should be")
    assert make(client, "r0")["state"] == "ready"
    assert client.post("/api/runs/r0/field", json={"checkpoint": "last", "x": 1, "y": 1}).status_code == 200


def test_on_a_full_disk_no_draft_is_left_and_the_page_is_told(
    client: TestClient, studio: Studio, capsys: pytest.CaptureFixture[str]
) -> None:
    run = studio.shelf.run("r0")
    folder = run.folder.path / "studio"
    folder.mkdir()
    (folder / f"field-last-{fingerprint(run.folder.last)}.npz.tmp").symlink_to("/dev/full")
    told = make(client, "r0")
    assert told["state"] == "ready"  # from memory
    assert "could not be kept ([Errno 28] No space left on device" in told["reason"]
    assert list(folder.iterdir()) == []
    assert capsys.readouterr().err.count("\n") == 1
    assert client.post("/api/runs/r0/field", json={"checkpoint": "last", "x": 1, "y": 1}).status_code == 200


def test_what_cannot_be_answered_is_said(client: TestClient) -> None:
    body = {"checkpoint": "last", "x": 1, "y": 1, "degrees": 0}
    early = client.post("/api/runs/r0/field", json=body)
    assert (early.status_code, early.json()["error"]) == (409, "The field of this checkpoint is not made yet.")
    make(client, "r0")
    outside = client.post("/api/runs/r0/field", json=body | {"x": 40})
    assert (outside.status_code, outside.json()["error"]) == (400, "(40, 1) lies off the map; choose a place inside.")
    for wrong in (
        {"x": "1"},
        {"x": None},
        {"x": True},
        {"x": 1e12},
        {"degrees": "east"},
        {"checkpoint": 3},
        {"exact": 1},
    ):
        answer = client.post("/api/runs/r0/field", json=body | wrong)
        assert answer.status_code == 400, wrong
        assert "must be a" in answer.json()["error"]


def test_a_checkpoint_that_cannot_be_loaded_has_no_field(client: TestClient, grid_run: Path) -> None:
    (grid_run / "checkpoints" / "last" / "networks.safetensors").write_bytes(b"half")
    status = make(client, "r0")
    assert status["state"] == "impossible"
    assert "is damaged" in status["reason"]
    assert client.get("/api/runs").status_code == 200


def test_a_method_without_a_score_has_no_field(tmp_path: Path) -> None:
    experiment = experiments.tiny(experiments.get("fourroom-random"))
    studio = Studio([train(experiment, 0, tmp_path, "cpu").path])
    try:
        run = studio.shelf.run("r0")
        assert run.summary()["has_field"] is run.summary()["has_graph"] is False
        assert studio.fields.start(run, "last")["state"] == "impossible"
        assert studio.graphs.document(run, "last")["note"] == "This method has no landmarks."
    finally:
        studio.close()


def test_a_closed_server_makes_no_fields(studio: Studio) -> None:
    run = studio.shelf.run("r0")
    studio.fields.close()
    assert studio.fields.start(run, "last")["state"] == "absent"
    with pytest.raises(NotReadyError):
        studio.fields.field(run, "last", 1, 1, 0)


@pytest.mark.slow
def test_a_maze_is_rendered_once_for_all_checkpoints(
    client: TestClient, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PLACES", 4)  # of the usual 300 only a few
    status = make(client, "r1")
    assert status["state"] == "ready", status["reason"]
    count = len(status["places"]["x"])
    found = client.post("/api/runs/r1/field", json={"checkpoint": "last", "x": 96, "y": 200, "degrees": 90}).json()
    values = np.array(found["values"])
    assert values.shape == (count, 4)
    x, y, heading = found["reference"]
    place = list(zip(status["places"]["x"], status["places"]["y"], strict=True)).index((x, y))
    assert heading == 90.0
    assert values[place, 1] == 1.0  # a view is like itself
    run = studio.shelf.run("r1")
    frames = studio.atlas.look(run, studio.atlas.views(run), lambda done: None)
    studio.atlas.close()
    assert make(client, "r1", "000020000")["state"] == "ready"
    assert studio.atlas.look(run, studio.atlas.views(run), lambda done: None) is frames
    with pytest.raises(UsageError, match="lies off the map"):
        studio.fields.field(run, "last", -5000, 0, None)


@pytest.mark.slow
def test_in_a_maze_it_can_be_that_of_the_very_pose(
    client: TestClient, studio: Studio, maze_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PLACES", 4)
    make(client, "r1")
    body: dict[str, Any] = {"checkpoint": "last", "x": 100, "y": 150, "degrees": 33}

    def ask(**other: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.post("/api/runs/r1/field", json=body | other).json()
        return answer

    quick, exact = ask(), ask(exact=True)
    assert not quick["exact"]
    assert (exact["exact"], exact["reference"]) == (True, [100.0, 150.0, 33.0])
    run = studio.shelf.run("r1")
    policy = frozen(load_run(maze_run, device="cpu"))
    assert isinstance(policy, SimilarityPolicy)
    views, seen = studio.atlas.views(run), studio.atlas.photographs(run, np.array([[100.0, 150.0, 33.0]]))
    wanted = policy.sfs(studio.atlas.look(run, views, lambda done: None), seen)[:, 0]
    np.testing.assert_allclose(np.ravel(exact["values"]), wanted, atol=2e-3)
    assert np.abs(np.subtract(exact["values"], quick["values"])).max() > 0.01  # the nearest view is another
    four = [ask(exact=True, degrees=turn)["values"] for turn in range(0, 360, 90)]
    np.testing.assert_allclose(ask(exact=True, degrees=None)["values"], np.max(four, axis=0), atol=2e-3)
    x, y, turn = views.poses[2].tolist()
    assert ask(x=x, y=y, degrees=turn)["exact"]  # that is a view of the table
    inside = ask(exact=True, x=x, y=-40)  # within the wall around the maze, where nobody sees anything
    assert (inside["exact"], inside["reference"][1] > 0) == (False, True)


@pytest.mark.slow
def test_the_very_pose_is_not_compared_with_another_checkpoints_views(
    client: TestClient, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PLACES", 4)
    make(client, "r1")
    run = studio.shelf.run("r1")
    loaded, _ = studio.load_marked(run, "last")
    fields = Fields(studio.atlas, lambda *_: (loaded, "of a checkpoint that has been written since"))
    with pytest.raises(NotReadyError, match="has gone on meanwhile"):
        fields.field(run, "last", 100, 150, 33, exact=True)
    fields.close()
    with pytest.raises(NotReadyError, match="The server ends"):
        fields.field(run, "last", 100, 150, 33, exact=True)
