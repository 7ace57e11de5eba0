"""Which runs are shown, and how a run in training is read."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfl
from sfl import experiments
from sfl.api import AgentState, EnvSpec
from sfl.errors import CheckpointError, UsageError
from sfl.run import checkpoint, folder
from sfl.run.diagnosis import run_line
from sfl.studio import runs
from sfl.studio.answers import NotHereError, NotReadyError
from sfl.studio.graph import Graphs
from sfl.studio.places import Atlas
from sfl.studio.runs import FRESH, Run, Shelf, fingerprint, settled
from sfl.studio.shared import Studio
from sfl.worlds import DoomConfig, GymConfig


def test_the_line_of_a_run(grid_run: Path) -> None:
    line = Run("r0", grid_run).summary()
    assert line == {
        "id": "r0",
        "title": "fourroom-sfl seed 0",
        "experiment": "fourroom-sfl",
        "agent": "sfl",
        "seed": 0,
        "world": "grid",
        "world_key": "sfl/FourRoom-v0",
        "env_steps": 1200,
        "planned_steps": 1200,
        "state": "finished",
        "checkpoints": [{"name": "000000600", "env_steps": 600}, {"name": "last", "env_steps": 1200}],
        "has_graph": True,
        "has_field": True,
        "can_play": True,
        "levels": ["paper", "any"],
        "finding": run_line(grid_run),
    }


def test_the_finding_of_a_run_follows_its_files(grid_run: Path) -> None:
    run = Run("r0", grid_run)
    line = run.summary()["finding"]
    assert line.startswith("fourroom-sfl seed 0: ")  # after so few steps
    shutil.copyfile(grid_run / "episodes.csv", grid_run / "whole.csv")
    (grid_run / "episodes.csv").write_text("half a header")
    assert run.summary()["finding"] == line  # the newest that could be read
    (grid_run / "whole.csv").rename(grid_run / "episodes.csv")
    (grid_run / "random.csv").unlink()
    shutil.rmtree(grid_run / "checkpoints" / "last")
    (grid_run / "eval.csv").write_text("env_steps\n")
    assert run.summary()["finding"] is None


def test_the_states_of_a_run(grid_run: Path) -> None:
    run = Run("r0", grid_run)
    shutil.rmtree(grid_run / "checkpoints" / "last")
    os.utime(grid_run / "train.csv")
    assert run.summary()["state"] == "training"
    long_ago = time.time() - 2 * FRESH
    for path in [*grid_run.iterdir()]:
        os.utime(path, (long_ago, long_ago))
    assert run.summary()["state"] == "stopped"
    assert run.summary()["env_steps"] == 1200  # of the history
    shutil.rmtree(grid_run)
    gone = run.summary()
    assert gone["state"] == "gone"
    assert gone["title"] == "fourroom-sfl seed 0"
    assert not any(gone[name] for name in ("has_graph", "has_field", "can_play", "checkpoints"))


def test_a_run_that_has_no_checkpoint_yet(grid_run: Path) -> None:
    shutil.rmtree(grid_run / "checkpoints")
    line = Run("r0", grid_run).summary()
    assert (line["checkpoints"], line["env_steps"], line["can_play"]) == ([], 0, False)


def test_a_folder_that_was_made_anew_is_read_anew(grid_run: Path) -> None:
    run = Run("r0", grid_run)
    config = (grid_run / "config.json").read_text()
    (grid_run / "config.json").write_text(config.replace('"seed": 0', '"seed": 17'))
    assert run.title == "fourroom-sfl seed 17"
    (grid_run / "config.json").write_text("{")
    assert run.title == "fourroom-sfl seed 17"  # half-written: what was known before


def test_folders_of_runs(grid_run: Path, maze_run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(grid_run, grid_run.with_name("another"))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.json").write_text("[]")
    shelf = Shelf([maze_run, tmp_path / "runs", grid_run])
    assert [run.folder.path for run in shelf.runs] == [maze_run.resolve(), Path(other), grid_run]
    assert [run.id for run in shelf.chosen("r2,r0,r2")] == ["r2", "r0"]
    with pytest.raises(NotHereError, match=r"There is no run 'r3'; there are r0 to r2\."):
        shelf.run("r3")


def test_a_run_that_is_begun_later_is_taken_up(grid_run: Path, maze_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfl.studio.runs.AGAIN", 0.0)
    monkeypatch.setattr("sfl.studio.runs.PATIENCE", 0.0)
    shelf = Shelf([grid_run.parent, maze_run])
    shelf.look_again()
    assert [run.id for run in shelf.runs] == ["r0", "r1"]
    experiment = experiments.get("fourroom-random")
    folder.create(grid_run.parent / "a" / "seed-0007", experiment, 7, {})  # before the others by name
    folder.create(maze_run.parent / "no-folder-that-was-named" / "seed-0007", experiment, 7, {})
    shelf.look_again()
    assert [run.title for run in shelf.runs[2:]] == ["fourroom-random seed 7"]
    assert shelf.run("r0").folder.path == grid_run  # no number is another run's
    shutil.rmtree(maze_run.parent / "no-folder-that-was-named")


def test_a_run_whose_config_is_still_being_written_is_taken_up_when_it_is_there(
    grid_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sfl.studio.runs.AGAIN", 0.0)
    monkeypatch.setattr("sfl.studio.runs.PATIENCE", 0.0)
    shelf, config = Shelf([grid_run.parent]), (grid_run / "config.json").read_text()
    late = grid_run.parent / "late"
    late.mkdir()
    (late / "config.json").write_text(config[:100])
    shelf.look_again()
    assert capsys.readouterr().err == ""
    (late / "config.json").write_text(config)
    shelf.look_again()
    assert [run.folder.path.name for run in shelf.runs] == ["grid", "late"]
    (grid_run.parent / "other").mkdir()
    (grid_run.parent / "other" / "config.json").write_text("{}")
    for _ in range(4):
        shelf.look_again()
    told = capsys.readouterr().err
    assert told.count("\n") == 1  # once, however often it looks
    assert told.startswith("left out: ")


def test_between_two_looks_nothing_is_read(grid_run: Path) -> None:
    shelf = Shelf([grid_run.parent])
    shutil.copytree(grid_run, grid_run.with_name("another"))
    shelf.look_again()
    assert len(shelf.runs) == 1  # the folders were looked at a moment ago


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist; give a run folder"):
        Shelf([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="holds no run"):
        Shelf([tmp_path])


@pytest.mark.parametrize("name", ["../last", "last/../last", "", ".", "last.tmp", "0000006000", "/etc", "²", "last\0"])
def test_only_checkpoints_that_are_listed_are_read(grid_run: Path, name: str) -> None:
    shutil.copytree(grid_run / "checkpoints" / "last", grid_run / "checkpoints" / "last.tmp")
    with pytest.raises(NotHereError, match="has no checkpoint"):
        Run("r0", grid_run).checkpoint(name)


def made_up(path: Path, env: GymConfig | DoomConfig) -> Run:
    """A run that has not come to its first checkpoint."""
    experiment = replace(experiments.get("fourroom-random"), env=env)
    return Run("r0", folder.create(path / "run", experiment, 0, {}).path)


def test_a_world_without_a_map_has_curves_all_the_same(tmp_path: Path) -> None:
    run, atlas = made_up(tmp_path, GymConfig("FrozenLake-v1")), Atlas()
    assert (run.summary()["world"], run.summary()["state"]) == ("other", "training")
    assert atlas.map(run) == {"kind": "other", "title": "fourroom-random seed 0"}
    with pytest.raises(NotHereError, match="cannot be looked at from above"):
        atlas.views(run)


def test_a_maze_that_is_not_on_this_machine(tmp_path: Path) -> None:
    lost = tmp_path / "lost.txt"
    shutil.copyfile(Path(sfl.__file__).parent / "worlds" / "mazes" / "layouts" / "small.txt", lost)
    run = made_up(tmp_path, DoomConfig(str(lost)))
    lost.unlink()
    shutil.rmtree(run.folder.path / "inputs")
    assert run.summary()["world"] == "maze"
    with pytest.raises(UsageError, match=r"lost\.txt"):
        Atlas().map(run)


# ---- a checkpoint that is replaced meanwhile


def test_a_checkpoint_that_changes_while_it_is_read_is_read_again(grid_run: Path) -> None:
    last, other = grid_run / "checkpoints" / "last", grid_run / "checkpoints" / "000000600"
    times = []

    def read() -> int:
        times.append(1)
        if len(times) == 1:
            shutil.copyfile(other / "format.json", last / "format.json")
        if len(times) == 2:
            raise CheckpointError("a file of another checkpoint")
        return len(times)

    first = fingerprint(last)
    with pytest.raises(CheckpointError, match="a file of another checkpoint"):
        settled(last, read)  # it changed once, and then stayed as it was but could not be read
    assert len(times) == 2
    assert settled(last, read) == (3, fingerprint(last))
    assert fingerprint(last) != first


def test_a_checkpoint_that_never_settles_is_not_ready(grid_run: Path) -> None:
    last = grid_run / "checkpoints" / "last"
    with pytest.raises(NotReadyError, match="is being replaced; try again"):
        settled(last, lambda: (last / "format.json").write_text(str(time.time_ns())))


def test_between_two_renames_the_old_one_is_read(grid_run: Path) -> None:
    last = grid_run / "checkpoints" / "last"
    last.rename(last.with_name("last.old"))
    run = Run("r0", grid_run)
    assert run.checkpoints() == {"000000600": 600, "000001200": 1200, "last": 1200}
    assert run.read("last", ("graph.npz",))[0]["env_steps"] == 1200


def test_the_last_checkpoint_is_listed_while_it_is_replaced(grid_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("r0", grid_run)
    last, find = grid_run / "checkpoints" / "last", runs._place
    old = last.with_name("last.old")

    def find_and_rename(folder: Path) -> Path | None:
        found = find(folder)
        if folder == last:
            old.rename(last) if old.exists() else last.rename(old)  # right after it was found
            monkeypatch.setattr(runs, "_place", find)
        return found

    for _ in range(2):
        monkeypatch.setattr(runs, "_place", find_and_rename)
        assert run.checkpoints()["last"] == 1200
        monkeypatch.setattr(runs, "_place", find_and_rename)
        assert run.summary()["has_graph"]


def marked(steps: int) -> checkpoint.Checkpoint:
    """Whose every file tells which one it is."""
    count = steps // 10
    graph: dict[str, Any] = {name: np.arange(count) for name in ("visits", "origin", "added_at")}
    graph |= {f"edge_{name}": np.arange(count - 1) for name in ("sources", "targets", "counts", "weights")}
    poses = np.full((count, 3), steps, np.float32)
    state = AgentState(networks={"w": np.zeros(1)}, graph=graph)
    return checkpoint.Checkpoint(state, "sfl/FourRoom-v0", EnvSpec((9, 9, 3), "uint8", 4), steps, landmark_poses=poses)


def test_files_of_two_checkpoints_never_mix(grid_run: Path) -> None:
    last, stop = grid_run / "checkpoints" / "last", threading.Event()
    choices = [marked(20), marked(50)]
    checkpoint.save(last, choices[0])

    def go_on() -> None:
        for turn in range(10_000):
            if stop.is_set():
                return
            checkpoint.save(last, choices[turn % 2])
            time.sleep(0.01)

    run, graphs = Run("r0", grid_run), Graphs(Atlas())
    writer = threading.Thread(target=go_on)
    writer.start()
    seen = set()
    try:
        for _ in range(40):
            try:
                document = graphs.document(run, "last")
            except (NotReadyError, NotHereError):
                continue
            steps = document["env_steps"]
            assert len(document["landmarks"]["visits"]) == len(document["landmarks"]["x"]) == steps // 10
            assert set(document["landmarks"]["x"]) == {float(steps)}
            assert len(document["edges"]["source"]) == steps // 10 - 1
            seen.add(steps)
            run.summary()
    finally:
        stop.set()
        writer.join()
    assert seen <= {20, 50}
    assert seen


def test_agents_are_loaded_once_and_the_newest_wins(grid_run: Path) -> None:
    studio = Studio([grid_run])
    for name in checkpoint.LEARNING_FILES:
        (grid_run / "checkpoints" / "last" / name).unlink()  # gigabytes in a long run, and nobody looks at them
    try:
        first = studio.load("r0", "last")
        assert studio.load("r0", "last") is first
        assert studio.load("r0", "000000600").env_steps == 600
        small = grid_run / "checkpoints" / "000000600"
        shutil.rmtree(grid_run / "checkpoints" / "last")
        shutil.copytree(small, grid_run / "checkpoints" / "last")
        assert studio.load("r0", "last").env_steps == 600
        (grid_run / "checkpoints" / "last" / "networks.safetensors").write_bytes(b"half")
        assert studio.load("r0", "last").env_steps == 600  # as format.json has not changed, it is the one in memory
        with pytest.raises(NotHereError):
            studio.load("r0", "000000700")
    finally:
        studio.close()


def test_a_damaged_checkpoint_is_an_error_of_one_line(grid_run: Path) -> None:
    (grid_run / "checkpoints" / "last" / "networks.safetensors").write_bytes(b"half")
    (grid_run / "checkpoints" / "last" / "graph.npz").write_bytes(b"half")
    studio = Studio([grid_run])
    try:
        with pytest.raises(CheckpointError, match="is damaged: "):
            studio.load("r0", "last")
        with pytest.raises(CheckpointError, match=r"is damaged: graph\.npz"):
            studio.graphs.document(studio.shelf.run("r0"), "last")
        assert studio.load("r0", "000000600").env_steps == 600
    finally:
        studio.close()


def test_a_pipe_in_a_checkpoint_keeps_nobody_waiting(grid_run: Path) -> None:
    for place in ("000001200/graph.npz", "last/graph.npz", "last/format.json"):
        file = grid_run / "checkpoints" / place
        file.unlink()
        os.mkfifo(file)
    summary = Run("r0", grid_run).summary()
    assert not summary["has_graph"]
    assert "last" not in [shown["name"] for shown in summary["checkpoints"]]
    assert fingerprint(grid_run / "checkpoints" / "last") is None
