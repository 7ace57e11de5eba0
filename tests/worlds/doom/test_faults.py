"""Games that die, hang or are left alone; and what a game leaves behind, which is nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sfl.errors import SflError, UsageError
from sfl.worlds.doom.env import DoomMaze
from sfl.worlds.doom.protocol import Limits
from sfl.worlds.doom.workers import Workers
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.wad import Lump, read_wad, write_wad

from .games import QUICK, engine_of, eventually, lives, random_actions, shared_files, walk

START = {"start": (200.0, 224.0, 30.0), "goal": None}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def fragile(arena: Maze) -> Iterator[DoomMaze]:
    made = DoomMaze(arena, limits=QUICK)
    yield made
    made.close()


def kill_engine(workers: Workers) -> None:
    engine_of(workers).kill()


def freeze_engine(workers: Workers) -> None:
    os.kill(engine_of(workers).process, signal.SIGSTOP)


def kill_worker(workers: Workers) -> None:
    os.kill(workers.processes[0], signal.SIGKILL)


def freeze_worker(workers: Workers) -> None:
    os.kill(workers.processes[0], signal.SIGSTOP)


@pytest.mark.parametrize("harm", [kill_engine, freeze_engine, kill_worker, freeze_worker])
def test_a_game_that_dies_or_hangs_is_restarted_and_its_episode_truncated(
    fragile: DoomMaze, harm: Callable[[Workers], None]
) -> None:
    env, actions = fragile, random_actions(20)
    _, info = env.reset(options=START)
    before = info["restarts"]
    expected = walk(env, actions)
    lost, process = engine_of(env.workers), env.workers.processes[0]
    harm(env.workers)
    observation, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated, info["is_success"]) == (0.0, False, True, False)
    assert observation["observation"][-1].tobytes() == expected[0][-1]
    assert info["pose"].tolist() == expected[1][-1]
    assert info["restarts"] == before + 1
    env.reset(options=START)
    assert walk(env, actions) == expected
    assert not lives(lost.process)
    assert shared_files(lost) == []
    assert (env.workers.processes[0] == process) == (harm in (kill_engine, freeze_engine))


def test_a_game_that_dies_between_episodes_begins_the_next_one(fragile: DoomMaze) -> None:
    first, info = fragile.reset(options=START)
    kill_engine(fragile.workers)
    again, later = fragile.reset(options=START)
    assert np.array_equal(first["observation"], again["observation"])
    assert later["restarts"] == info["restarts"] + 1
    assert fragile.step(2)[3] is False


def test_a_game_that_died_at_its_goal_has_not_reached_it(fragile: DoomMaze) -> None:
    fragile.reset(options={**START, "goal": START["start"]})
    kill_engine(fragile.workers)
    _, reward, terminated, truncated, info = fragile.step(6)
    assert (reward, terminated, truncated, info["is_success"]) == (0.0, False, True, False)


def test_an_episode_that_the_map_ends_is_truncated_and_repeats_its_last_frame(arena: Maze) -> None:
    leaving = b"blocking = true; special = 243; playerpush = true;"  # whoever touches a wall leaves the map
    lumps = [Lump(lump.name, lump.body.replace(b"blocking = true;", leaving)) for lump in read_wad(arena.wad, "arena")]
    env = DoomMaze(replace(arena, wad=write_wad(lumps)))
    for _ in range(2):
        observation, info = env.reset(options={"start": (280.0, 224.0, 0.0), "goal": (300.0, 224.0, 0.0)})
        env.goal_terminates = truncated = False
        while not truncated:
            before, pose = observation["observation"][-1], info["pose"]
            observation, reward, terminated, truncated, info = env.step(2)
        assert (reward, terminated, info["is_success"], info["restarts"]) == (0.0, False, False, 0)
        assert np.array_equal(observation["observation"][-1], before)
        assert np.array_equal(info["pose"], pose)
        assert pose[0] > 280
    env.close()


def test_games_write_nothing_into_the_working_directory_and_remove_what_they_wrote(
    arena: Maze, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    env = DoomMaze(arena)
    env.reset(options=START)
    engine, worker = engine_of(env.workers), env.workers.processes[0]
    assert lives(engine.process)
    assert len(shared_files(engine)) > 0
    assert os.getsid(worker) != os.getsid(0)  # Ctrl-C in the terminal does not reach it
    env.close()
    env.close()
    assert list(here.iterdir()) == list(temporary.iterdir()) == shared_files(engine) == []
    assert not lives(engine.process)
    assert not lives(worker)
    with pytest.raises(UsageError, match="The games have been closed"):
        env.reset(options=START)


PARENT = """
import os, signal, sys, time
from sfl.worlds.doom import DoomMaze
from sfl.worlds.doom.workers import read_engine
env = DoomMaze("small")
env.reset(seed=0)
engine = read_engine(env.workers.folder / "game-0")
print(env.workers.folder, env.workers.processes[0], engine.process, engine.instance, flush=True)
if sys.argv[1] == "wait":
    time.sleep(60)
if sys.argv[1] == "close":  # and be killed when the games have ended and their folder is still there
    from sfl.worlds.doom import workers
    workers.remove_folder = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
    env.close()
"""


@pytest.mark.parametrize("end", ["wait", "close", "leave"])
def test_games_end_with_their_parent_whatever_ended_it(end: str) -> None:
    command = [sys.executable, "-c", PARENT, end]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        folder, worker, engine, instance = parent.stdout.readline().split()
        if end == "wait":
            parent.kill()
    assert eventually(lambda: not lives(int(worker)) and not lives(int(engine)))
    assert eventually(lambda: not Path(folder).exists())
    assert list(Path("/dev/shm").glob(f"*{instance}")) == []


@pytest.mark.parametrize("most", [4096, 600_000])
def test_games_that_find_no_room_leave_nothing(
    arena: Maze, most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handles = len(os.listdir("/proc/self/fd"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises((OSError, SflError)):
            DoomMaze(arena)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == handles


FAILED_PARENT = """
import os, signal
from dataclasses import replace
from sfl.errors import SflError
from sfl.worlds.mazes.load import load_maze
from sfl.worlds.doom import DoomMaze
from sfl.worlds.doom.protocol import Limits
env = DoomMaze(replace(load_maze("small"), map_name="MAP99"), limits=Limits(call=0.3))
print(env.workers.folder, flush=True)
try:
    env.reset(seed=0)
except SflError:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_parent_that_is_killed_after_its_games_failed_leaves_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", FAILED_PARENT]
    parent = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    assert parent.returncode == -signal.SIGKILL
    assert eventually(lambda: not Path(parent.stdout.strip()).exists())


def test_an_engine_ends_with_its_worker_though_nobody_closes_it(arena: Maze) -> None:
    env = DoomMaze(arena)
    engine = engine_of(env.workers)
    kill_worker(env.workers)
    assert eventually(lambda: not lives(engine.process))
    env.close()
    assert shared_files(engine) == []


def test_a_window_without_a_display_is_refused_in_one_line(arena: Maze, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(UsageError, match=r"^A visible game needs a display, .* leave visible off, or run it .*$"):
        DoomMaze(arena, visible=True)


def test_an_engine_that_does_not_start_is_quoted(arena: Maze, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":987")
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    with pytest.raises(
        SflError,
        match=r"^A game process ended or took over 120 s .* last words: .+ A visible game needs a working display\.$",
    ):
        DoomMaze(arena, visible=True)


def test_too_little_shared_memory_is_refused_before_anything_starts(
    arena: Maze, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=16, f_frsize=4096))
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **options: pytest.fail("a process was started"))
    with pytest.raises(
        SflError, match=r"^Too little shared memory: .* 256 KiB in all, and /dev/shm has 64 KiB free; run fewer .*$"
    ):
        DoomMaze(arena)


def test_a_map_that_cannot_be_played_is_an_error_of_one_line(arena: Maze) -> None:
    env = DoomMaze(replace(arena, map_name="MAP99"), limits=Limits(call=0.3))
    with pytest.raises(SflError, match=r"^(MAP99 cannot be played: .*|4 game processes .*) Check the WAD and .*$"):
        env.reset(options=START)
    env.close()


def test_limits_must_be_positive() -> None:
    with pytest.raises(UsageError, match="limit call must be above 0 seconds, got 0"):
        Limits(call=0)
