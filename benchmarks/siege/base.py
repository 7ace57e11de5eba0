"""The runs and files that cases copy, made once at the start with the commands that a user would give."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.siege import names
from benchmarks.siege.case import Room
from benchmarks.siege.forked import Limits, call, sfl

PLENTY = Limits(seconds=300, memory=8 << 30, addresses=40 << 30)
WALKS = "--frames 120 --walk-length 60 --walks-per-maze 1 --games 2 --workers 1 --mazes small --steps 2 --device cpu"

SMALL = "--train.steps 200 --eval.episodes 1 --agent.replay-size 2000"


@dataclass(frozen=True)
class Material:
    """Something that cases copy: a run folder or a folder of files."""

    make: Callable[[Room, Path], None]
    after: tuple[str, ...] = ()
    """What must be there before."""


def _trained(experiment: str, *options: str) -> Callable[[Room, Path], None]:
    def make(room: Room, to: Path) -> None:
        _do(["train", experiment, "--tiny", "--device", "cpu", *options], room)
        (room.here / "runs" / names.run_folder(experiment)).rename(to)

    return make


def _slim(of: str) -> Callable[[Room, Path], None]:
    def make(room: Room, to: Path) -> None:
        _do(["export", str(room.base / of), "--out", str(to), "--history", "2", "--poses"], room)

    return make


def _files(room: Room, to: Path) -> None:
    """Goals of each kind, pairs, a layout and a WAD."""
    folder = room.here / "files"
    folder.mkdir()
    _do(["maze", "build", "small", "--out", str(folder / "maze.wad")], room)
    (folder / "layout.txt").write_text("#########\n#S..#...#\n#.#.#.#.#\n#.#...#.#\n#########\n", encoding="utf-8")
    shutil.copy(room.base / "maze" / names.TASKS, folder / "tasks.json")
    ended = call(lambda: _goals(folder), room, PLENTY)
    if ended.code:
        raise RuntimeError(f"the base cannot be made: {ended.err}")
    folder.rename(to)


def _goals(folder: Path) -> None:
    import gymnasium
    import numpy as np
    from PIL import Image

    import sfl  # noqa: F401  (registers the environments)

    for name, world in (("grid", "sfl/FourRoom-v0"), ("maze", "sfl/DoomMaze-v0")):
        env = gymnasium.make(world, disable_env_checker=True)
        seen = np.asarray(env.reset(seed=0)[0]["achieved_goal"])
        env.close()
        np.save(folder / f"{name}.npy", seen)
        if name == "maze":
            Image.fromarray(seen.reshape(-1, *seen.shape[-3:])[-1]).save(folder / "maze.png")


def _weights(room: Room, to: Path) -> None:
    """An encoder and a file of networks, hardly trained."""
    folder = room.here / "weights"
    folder.mkdir()
    _do(
        [
            "encoder",
            "train",
            *WALKS.split(),
            "--kind",
            "compact",
            "--no-evaluate",
            "--out",
            str(folder / "encoder.safetensors"),
        ],
        room,
    )
    small = (
        "--retrieval.encoder compact --locomotion.encoder compact --retrieval.batch-size 8 --locomotion.batch-size 8"
    )
    _do(
        ["network", "train", "both", *WALKS.split(), *small.split(), "--out", str(folder / "networks.safetensors")],
        room,
    )
    folder.rename(to)


MATERIALS = {
    "grid": Material(_trained(names.GRID)),
    "grid-slim": Material(_slim("grid"), ("grid",)),
    "gym": Material(_trained(names.GYM)),
    "gym-slim": Material(_slim("gym"), ("gym",)),
    "random": Material(_trained(names.RANDOM)),
    "maze": Material(_trained(names.MAZE, *SMALL.split())),
    "maze-slim": Material(_slim("maze"), ("maze",)),
    "files": Material(_files, ("maze",)),
    "weights": Material(_weights),
}


def wanted(needs: Sequence[str]) -> list[str]:
    """Materials with all they are made of, in an order in which they can be made."""
    found: list[str] = []
    for name in needs:
        found += [*wanted(MATERIALS[name].after), name]
    return list(dict.fromkeys(found))


def make(name: str, room: Room) -> None:
    """Make one, unless it is there."""
    target = room.base / name
    if not target.exists():
        MATERIALS[name].make(room, target)


def _do(words: Sequence[str], room: Room) -> None:
    ended = sfl(words, room, PLENTY)
    if ended.code:
        raise RuntimeError(f"the base cannot be made: {ended.shown} ended with {ended.code}: {ended.err[-2000:]}")
