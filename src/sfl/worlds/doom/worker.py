"""What runs in a worker process: a few games that do what the shared tells them whenever the pipe rings."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sfl.api import Array
from sfl.config import from_json
from sfl.errors import SflError
from sfl.worlds.doom.game import ENGINE_ERRORS, Game, GameStartError
from sfl.worlds.doom.protocol import BEGIN, CHECK_MAP, FAILED, LEAVE, READY, STEP, GameSpec, SharedMemory, WorkerSpec
from sfl.worlds.doom.workers import remove_folder
from sfl.worlds.tasks import Pose

_ATTEMPTS = 3
_LOOK_AROUND = 1000  # milliseconds between two looks whether the parent still lives


def main() -> None:
    """Entry of the process; its one argument is a `WorkerSpec` as JSON."""
    spec: WorkerSpec = from_json(WorkerSpec, json.loads(sys.argv[1]), "worker")
    for handle in (spec.memory, spec.requests, spec.replies, spec.lock):
        os.set_inheritable(handle, False)  # an engine that held a pipe open would hide this process's end
    worker = Worker(spec)
    try:
        worker.run()
    except SflError as error:
        worker.reply(bytes([FAILED]) + str(error).encode())
        os.close(spec.replies)  # all has been said
        worker.close()
        worker.stay()
    finally:
        try:
            worker.close()
        finally:
            if worker.abandoned():
                remove_folder(Path(spec.folder))  # the parent can no longer do it


class Worker:
    """Games, and how a game that died is started again.

    One that was told to leave, or has failed, ends its games and stays until the parent has removed their folder and
    ends it: at every moment there is somebody who would remove the folder, whoever else is killed.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._shared = SharedMemory.over(spec.memory, spec.count)
        self._folder = Path(spec.folder)
        self._games = {game.index: self._game(game) for game in spec.games}
        self._halves: dict[int, list[int]] = {}
        for game in spec.games:
            self._halves.setdefault(game.half, []).append(game.index)
        self._hung_up = False

    def _game(self, spec: GameSpec) -> Game:
        folder = self._folder / f"game-{spec.index}"
        return Game(Path(spec.wad), spec.map_name, folder, spec.visible, self._spec.limits)

    def run(self) -> None:
        """Serve until the parent is gone."""
        for game in self._games.values():
            if self.abandoned():
                return
            game.start()
        self.reply(bytes([READY]))
        while rung := self._hear():
            if rung[0] == LEAVE:
                self.close()
            else:
                for index in self._halves[rung[0]]:
                    self._serve(index)
            self.reply(rung)

    def stay(self) -> None:
        """Until the parent is gone."""
        while self._hear():
            continue

    def _hear(self) -> bytes:
        """What the parent asks for next; nothing once it is gone."""
        requests = select.poll()
        requests.register(self._spec.requests, select.POLLIN)
        while not self.abandoned():
            if requests.poll(_LOOK_AROUND):
                rung = os.read(self._spec.requests, 1)
                self._hung_up = not rung
                return rung
        return b""

    def abandoned(self) -> bool:
        """The parent is gone: a pipe lost its other end or, where a fork holds that end, this process was adopted."""
        return self._hung_up or os.getppid() != self._spec.parent

    def reply(self, word: bytes) -> None:
        """Answer the parent, if it is there to read it."""
        try:
            os.write(self._spec.replies, word)
        except BrokenPipeError:
            self._hung_up = True

    def _serve(self, index: int) -> None:
        command = self._shared.commands[index]
        if command == STEP:
            self._step(index)
        elif command == BEGIN:
            self._begin(index)

    def _step(self, index: int) -> None:
        game, alive = self._games[index], False
        try:
            if game.begun and (alive := game.act(int(self._shared.actions[index]))):
                self._show(index)
        except ENGINE_ERRORS:
            alive = False
            self._restart(index)
        self._shared.cut[index] = not alive

    def _begin(self, index: int) -> None:
        start, goal = (_pose(row[index]) for row in (self._shared.starts, self._shared.goal_poses))
        assert start is not None
        for _ in range(_ATTEMPTS):
            try:
                picture = self._games[index].begin(start, goal)
                self._show(index)
            except ENGINE_ERRORS:
                self._restart(index)
                continue
            self._shared.goals[index] = 0 if picture is None else picture
            self._shared.cut[index] = False
            return
        raise SflError(
            f"{self._games[index].map_name} cannot be played: the game ended {_ATTEMPTS} times when an episode was to "
            f"begin at {start}. {CHECK_MAP}"
        )

    def _show(self, index: int) -> None:
        frame, pose = self._games[index].look()
        self._shared.frames[index] = frame
        self._shared.poses[index] = pose
        self._shared.poses[index, 2] %= 360.0

    def _restart(self, index: int) -> None:
        self._shared.restarts[index] += 1
        for attempt in range(_ATTEMPTS):
            try:
                return self._games[index].start()
            except GameStartError:
                if attempt == _ATTEMPTS - 1:
                    raise

    def close(self) -> None:
        """End the games."""
        while self._games:
            self._games.popitem()[1].close()


def _pose(row: Array) -> Pose | None:
    values: list[Any] = row.tolist()
    return None if np.isnan(row).any() else (values[0], values[1], values[2])
