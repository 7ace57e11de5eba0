from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfl.api import AgentState, EnvSpec
from sfl.errors import CheckpointError, SflError
from sfl.run import checkpoint
from sfl.run.checkpoint import Checkpoint, check_keys, check_state, load, save

SPEC = EnvSpec((9, 9, 3), "uint8", 4)


def made(env_steps: int = 100) -> Checkpoint:
    rng = np.random.default_rng(env_steps)
    return Checkpoint(
        AgentState(
            networks={"weight": rng.normal(size=(4, 3)).astype(np.float32), "steps": np.array(7)},
            optimisers={"weight.exp_avg": rng.normal(size=(3, 4)).astype(np.float32).T},
            replay={"observations": rng.integers(0, 255, (50, 9), dtype=np.uint8)},
            graph={"origin": np.array([1, 0]), "psi": rng.normal(size=(2, 4))},
            generators={"act": {"state": 2**100}},
            counters={"env_steps": np.int64(env_steps), "mean": 0.1},
        ),
        "sfl/FourRoom-v0",
        SPEC,
        env_steps,
        run={"seconds": 0.1 + 0.2},
        poses=np.split(np.arange(3 * env_steps, dtype=np.float32).reshape(env_steps, 3), [1, 1, 4]),
        landmark_poses=np.array([[3, 4, 5], [0, 1, 2]], np.float32),
    )


def read(folder: Path) -> Checkpoint:
    return load(folder, "sfl/FourRoom-v0", SPEC)


def saved(tmp_path: Path) -> Path:
    save(tmp_path / "last", made(200))
    save(tmp_path / "000000100", made(100), "small")
    return tmp_path / "last"


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    save(tmp_path / "last", made())
    back, given = read(tmp_path / "last"), made()
    for part in ("networks", "optimisers", "replay", "graph"):
        expected = getattr(given.agent, part)
        found = getattr(back.agent, part)
        assert set(found) == set(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
    assert back.agent.generators == given.agent.generators
    assert back.agent.counters == {"env_steps": 100, "mean": 0.1}
    assert back.run == {"seconds": 0.1 + 0.2}
    np.testing.assert_array_equal(np.concatenate(back.poses), np.concatenate(given.poses))
    np.testing.assert_array_equal(back.landmark_poses, given.landmark_poses)
    assert back.env_steps == 100


def test_history_is_small_and_in_half_precision(tmp_path: Path) -> None:
    save(tmp_path / "000000100", made(), "small")
    back = read(tmp_path / "000000100")
    assert back.agent.networks["weight"].dtype == np.float16
    assert back.agent.networks["steps"] == 7
    assert back.agent.replay == back.agent.optimisers == back.agent.generators == back.run == {}
    np.testing.assert_array_equal(back.landmark_poses, made().landmark_poses)
    assert {path.name for path in (tmp_path / "000000100").iterdir()} == {
        "format.json",
        "generators.json",
        "graph.npz",
        "landmark_poses.npy",
        "networks.safetensors",
    }


def test_a_new_checkpoint_takes_the_place_of_the_old_and_leaves_no_litter(tmp_path: Path) -> None:
    save(tmp_path / "last", made(1))
    save(tmp_path / "last", made(2))
    assert read(tmp_path / "last").env_steps == 2
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


@pytest.mark.parametrize("name", ["networks.safetensors", "replay.safetensors", "graph.npz", "generators.json"])
def test_truncated_files_are_noticed_and_the_last_good_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path)
    file = folder / name
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=rf"is damaged: {name} has \d+ bytes .* good checkpoint is .*000000100"):
        read(folder)


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    body = bytearray((folder / "networks.safetensors").read_bytes())
    body[-1] ^= 1
    (folder / "networks.safetensors").write_bytes(bytes(body))
    with pytest.raises(CheckpointError, match=r"networks.safetensors does not have the contents it was saved with"):
        read(folder)


def test_missing_files_formats_and_headers_are_errors(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    header = json.loads((folder / "format.json").read_text())
    (folder / "format.json").write_text(json.dumps({**header, "format": 99}))
    with pytest.raises(CheckpointError, match=f"has format 99, this version of sfl reads format {checkpoint.FORMAT}"):
        read(folder)
    (folder / "format.json").write_text(json.dumps({k: v for k, v in header.items() if k not in ("env", "env_steps")}))
    with pytest.raises(CheckpointError, match=r"lacks the keys \['env', 'env_steps'\]"):
        read(folder)
    (folder / "format.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"has no readable format\.json"):
        read(folder)
    (folder / "format.json").write_text(json.dumps(header))
    (folder / "graph.npz").unlink()
    with pytest.raises(CheckpointError, match=r"lacks the file graph\.npz"):
        read(folder)


def test_a_broken_neighbour_is_not_called_good(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (tmp_path / "000000100" / "networks.safetensors").write_bytes(b"")
    (folder / "graph.npz").unlink()
    with pytest.raises(CheckpointError, match="There is no other checkpoint"):
        read(folder)


def test_another_environment_is_an_error_that_shows_both(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"made in another environment: .*FourRoom.*\(9, 9, 3\).*here: .*N2"):
        load(saved(tmp_path), "sfl/MultiRoom-N2-v0", EnvSpec((25, 25, 3), "uint8", 4))
    with pytest.raises(CheckpointError, match=r"4 actions; here: .* 7 actions"):
        load(saved(tmp_path), "sfl/FourRoom-v0", EnvSpec((9, 9, 3), "uint8", 7))


def test_keys_must_fit_exactly(tmp_path: Path) -> None:
    full = {"a": np.zeros(2), "b": np.zeros(3)}
    check_keys(tmp_path, full, full)
    with pytest.raises(CheckpointError, match=r"missing \['b'\], unknown \['c'\]"):
        check_keys(tmp_path, {"a": np.zeros(2), "c": np.zeros(3)}, full)
    with pytest.raises(CheckpointError, match=r"other shapes of \['b'\]"):
        check_keys(tmp_path, {"a": np.zeros(2), "b": np.zeros(4)}, full)
    with pytest.raises(CheckpointError, match=r"other shapes of \['b'\]"):
        check_keys(tmp_path, {"a": np.zeros(2), "b": np.zeros((3, 1))}, full)


def test_what_is_empty_in_a_fresh_agent_may_have_grown_along_that_axis_only(tmp_path: Path) -> None:
    fresh = {"table": np.zeros((0, 4, 0))}
    check_keys(tmp_path, {"table": np.zeros((7, 4, 7))}, fresh)
    for shape in ((7, 5, 7), (7, 4), (7, 4, 7, 1)):
        with pytest.raises(CheckpointError, match=r"other shapes of \['table'\]"):
            check_keys(tmp_path, {"table": np.zeros(shape)}, fresh)


@pytest.mark.parametrize("where", ["save_file", "_write_json", "flush"])
def test_full_disk_is_one_line_and_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = saved(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, where, full)
    with pytest.raises(SflError, match=r"The disk is full: .*last was not saved, the checkpoint before it is whole"):
        save(folder, made(300))
    monkeypatch.undo()
    assert read(folder).env_steps == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000100", "last"]


def test_full_disk_as_safetensors_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise checkpoint.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(SflError, match=r"The disk is full: .*last was not saved; free some space\."):
        save(tmp_path / "last", made())
    assert list(tmp_path.iterdir()) == []


def test_other_write_errors_are_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(checkpoint, "_write_json", denied)
    with pytest.raises(PermissionError):
        save(tmp_path / "last", made())


@pytest.mark.parametrize("step", range(9))
def test_ctrl_c_at_any_moment_of_a_save_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder = saved(tmp_path)
    calls = 0

    def interrupted(real):  # type: ignore[no-untyped-def]
        def wrapper(*arguments):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls == step + 1:
                raise KeyboardInterrupt
            return real(*arguments)

        return wrapper

    for name in ("save_file", "_write_json", "_fingerprint"):
        monkeypatch.setattr(checkpoint, name, interrupted(getattr(checkpoint, name)))
    with pytest.raises(KeyboardInterrupt):
        save(folder, made(300))
    monkeypatch.undo()
    assert read(folder).env_steps == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000100", "last"]


def test_of_an_old_checkpoint_that_goes_no_half_is_left_under_a_name_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far the process came that removed it."""
    folder, seen = saved(tmp_path), list[list[str]]()
    whole = shutil.rmtree

    def watched(path: Path, *words: object, **more: object) -> None:
        if path.exists():
            seen.append(sorted(one.name for one in tmp_path.iterdir()))
        whole(path, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", watched)
    save(folder, made(300))
    shutil.copytree(folder, folder.with_name(f"{folder.name}.old"))
    checkpoint.tidy(tmp_path)
    assert seen == [["000000100", folder.name, f"{folder.name}.tmp"]] * 2


@pytest.mark.parametrize(("rename", "expected"), [(1, 200), (2, 200)])
def test_ctrl_c_between_the_renames_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename: int, expected: int
) -> None:
    folder, real, calls = saved(tmp_path), os.rename, 0

    def interrupted(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == rename:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(checkpoint.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(folder, made(300))
    monkeypatch.undo()
    assert read(folder).env_steps == expected


def test_a_crash_between_the_renames_is_survived_by_reading_the_old_one(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    shutil.move(folder, tmp_path / "last.old")
    assert read(folder).env_steps == 200
    save(folder, made(300))
    assert read(folder).env_steps == 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000100", "last"]


def test_what_only_learning_needs_can_be_left_unread(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    for name in checkpoint.LEARNING_FILES:
        (folder / name).unlink()
    with pytest.raises(CheckpointError, match="lacks the file optimisers"):
        read(folder)
    back = load(folder, "sfl/FourRoom-v0", SPEC, learning=False)
    np.testing.assert_array_equal(back.agent.networks["weight"], made(200).agent.networks["weight"])
    assert (back.agent.optimisers, back.agent.replay) == ({}, {})


def test_some_files_can_be_read_alone_and_are_those_of_the_header(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    header, files = checkpoint.read_files(folder, ("graph.npz", "poses.npy", "nothing.npy"))
    assert header["env_steps"] == 200
    assert list(files) == ["graph.npz", "poses.npy"]
    assert files["graph.npz"] == (folder / "graph.npz").read_bytes()
    assert list(checkpoint.read_files(tmp_path / "000000100", ("poses.npy",))[1]) == []  # history has none
    shutil.copyfile(tmp_path / "000000100" / "graph.npz", folder / "graph.npz")  # half of it was replaced
    with pytest.raises(CheckpointError, match=r"is damaged: graph\.npz is not what it was saved with"):
        checkpoint.read_files(folder, ("graph.npz",))
    (folder / "graph.npz").unlink()
    with pytest.raises(CheckpointError, match=r"lacks the file graph\.npz"):
        checkpoint.read_files(folder, ("graph.npz",))


def in_place_of(path: Path, kind: str) -> None:
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_nobody_waits_for_a_pipe_or_reads_a_device_to_its_end(tmp_path: Path, kind: str) -> None:
    save(tmp_path / "000000100", made(), "small")
    path = saved(tmp_path)
    in_place_of(tmp_path / "000000100" / "graph.npz", kind)
    in_place_of(path / "graph.npz", kind)
    with pytest.raises(CheckpointError, match=r"lacks the file graph.npz. There is no other checkpoint"):
        read(path)
    with pytest.raises(CheckpointError, match=r"is damaged: .*graph.npz is a pipe or a device"):
        checkpoint.read_files(path, ["graph.npz"])
    in_place_of(path / "format.json", kind)
    with pytest.raises(CheckpointError, match=r"has no readable format.json"):
        read(path)


@pytest.mark.parametrize(
    "places", [np.zeros((2, 1), np.float32), np.array(["a"]), np.full((2, 3), np.inf), np.array(1)]
)
def test_places_that_are_none_are_one_line(tmp_path: Path, places: np.ndarray) -> None:
    save(tmp_path / "last", replace(made(), landmark_poses=places))
    with pytest.raises(CheckpointError, match=r"is damaged: landmark_poses.npy holds no places \[N, 3\]"):
        read(tmp_path / "last")


def test_what_another_agent_has_saved_does_not_fit(tmp_path: Path) -> None:
    fresh = AgentState(
        graph={"pairs": np.zeros((0, 6), np.int64), "psi": np.zeros((0, 4), np.float32)},
        counters={"acted": np.int64(0), "best": None, "due": 0.0, "trips": []},
        generators={"act": {}},
    )
    grown = AgentState(
        graph={"pairs": np.ones((5, 6), np.int64), "psi": np.ones((2, 4), np.float32), "candidates": np.zeros(3)},
        counters={"acted": 3, "best": [1], "due": 1, "trips": [[1]]},
        generators={"act": {"state": 1}},
    )
    check_state(tmp_path, grown, fresh)
    check_state(tmp_path, AgentState(), fresh)  # of a slim copy an agent takes what it has
    graph, counters = grown.graph, grown.counters
    for other, line in (
        (replace(grown, graph={"psi": graph["psi"]}), r"its graph lack \['pairs'\]"),
        (replace(grown, graph={**graph, "pairs": graph["pairs"] + 0.5}), r"another kind of \['pairs'\]"),
        (replace(grown, graph={**graph, "psi": np.ones((2, 5), np.float32)}), r"another kind of \['psi'\]"),
        (replace(grown, graph={**graph, "psi": np.ones(4, np.float32)}), r"another kind of \['psi'\]"),
        (replace(grown, counters={**counters, "trips": 0.5}), r"other kinds of \['trips'\]"),
        (replace(grown, counters={"acted": 3}), r"its counters lack \['best', 'due', 'trips'\]"),
        (replace(grown, generators={"other": {}}), r"its generators lack \['act'\]"),
    ):
        with pytest.raises(CheckpointError, match=line):
            check_state(tmp_path, other, fresh)
