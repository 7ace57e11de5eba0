"""The Ray engine in a process of its own: when a cluster is lost, Ray ends the process that drives it, without a word.

The command then still says what happened, and writes its report.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sfl.errors import SflError
from sfl.reproduce.cluster import LOOK_EVERY, RayEngine, answering, takes_connection
from sfl.reproduce.engine import Failure, Machine
from sfl.reproduce.plan import PlannedRun
from sfl.run.stopping import RunStoppedError, StopRequest

SPAWN = multiprocessing.get_context("spawn")
ASK_EVERY = 4
"""Looks between two requests to stop: one may come before there is anything to stop."""
LISTEN_EVERY = 10.0
"""Seconds between two looks whether the head still takes connections."""
LOST_AFTER = 60.0
"""Seconds without one after which the cluster is given up. Ray itself does so, but not while it is being connected."""


class ClusterLostError(SflError):
    """The cluster is gone; runs go on from what has come home of them."""


class RayApart:
    """Hands on what is asked of it to a `RayEngine`, and what that answers."""

    def __init__(self, runs_dir: Path, address: str, device: str = "auto", jobs: int | None = None) -> None:
        self._address = answering(address)
        self.failures: list[Failure] = []
        self._pipe, theirs = SPAWN.Pipe()
        settings = (runs_dir, self._address, device, jobs)
        self._process = SPAWN.Process(target=_drive, args=(theirs, os.getpid(), settings), daemon=True)
        self._process.start()
        theirs.close()
        self._room: Machine = self._answer()

    def room(self) -> Machine:
        """What all nodes have together."""
        return self._room

    def make(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        """Make or go on with runs; on Ctrl-C each keeps its last checkpoint."""
        with contextlib.suppress(ConnectionError):  # it is gone already, and its answer is that
            self._pipe.send(list(runs))
        self._answer()
        return self.failures

    def close(self) -> None:
        """Nothing more is to be made."""
        self._pipe.close()
        self._process.join(10)

    def _answer(self) -> Any:
        """What it says next, if it says something."""
        looks, head = 0, Head(self._address)
        with StopRequest() as stop:
            while not self._pipe.poll(LOOK_EVERY):
                if stop.asked and looks % ASK_EVERY == 0 and self._process.pid is not None:
                    os.kill(self._process.pid, signal.SIGINT)
                looks += stop.asked
                if head.lost():
                    self._process.kill()
                    raise self._end(stop.asked)
            try:
                answer, self.failures = self._pipe.recv()
            except (EOFError, ConnectionError):
                raise self._end(stop.asked) from None
        if isinstance(answer, SflError):
            raise answer
        return answer

    def _end(self, stopped: bool) -> SflError:
        """Why it has gone without an answer."""
        if stopped:
            return RunStoppedError("stopped; the same command goes on from the last checkpoints.")
        return ClusterLostError(
            f"The Ray cluster at {self._address} was lost; once it is back, the same command goes on from the last "
            "checkpoints."
        )


class Head:
    """Whether a cluster's head is still there, asked from time to time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._asked = self._answered = time.monotonic()

    def lost(self) -> bool:
        """It has taken no connection for a minute; never said of `auto`, which names no address."""
        now = time.monotonic()
        if self._address == "auto" or now - self._asked < LISTEN_EVERY:
            return False
        self._asked = now
        if takes_connection(self._address):
            self._answered = now
        return now - self._answered > LOST_AFTER


def _drive(pipe: Connection, parent: int, settings: tuple[Path, str, str, int | None]) -> None:
    """In the other process: one answer when it is connected, and one when all runs are made."""
    os.setsid()  # Ctrl-C reaches the command alone, which hands it on
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    engine: RayEngine | None = None
    with StopRequest(), contextlib.suppress(EOFError, BrokenPipeError):  # nothing is to be made, or nobody waits for it
        try:
            engine = RayEngine(*settings)
            pipe.send((engine.room(), engine.failures))
            engine.make(pipe.recv())
            pipe.send((None, engine.failures))
        except SflError as error:
            pipe.send((error, [] if engine is None else engine.failures))


def _end_with(parent: int) -> None:
    """No cluster is to work for a command that is no more."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)
