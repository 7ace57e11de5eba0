"""Real commands seen from outside: started, struck at a moment, and what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.siege import names
from benchmarks.siege.case import Broken, Room

_MARK = "SIEGE_PROCESS"
"""A variable in the environment of a command, and so of all that it starts, also of what outlives it."""
_ENGINE = re.compile(rb"viz_instance_id\0([^\0]+)")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of stderr."""
        return (self.err.strip().splitlines() or [""])[-1]

    @property
    def complaint(self) -> str:
        """The one line of an error; raises Broken where there is no such line, or more than that."""
        if "Traceback" in self.err or not self.last.startswith(names.COMPLAINT):
            raise Broken(f"exit code {self.code} without one line that says why: {self.last[:300]!r}")
        return self.last


class Command:
    """A command that runs, its output in files, so that nobody has to read it."""

    def __init__(
        self, room: Room, words: Sequence[str], program: Sequence[str] = names.COMMAND, **popen: object
    ) -> None:
        self.mark = uuid.uuid4().hex
        self._room = room
        self._log = room.path / f"command-{self.mark[:8]}"
        self._log.mkdir()
        environment = {**room.environment, _MARK: self.mark}
        with (self._log / "out").open("wb") as out, (self._log / "err").open("wb") as err:
            settings = {"cwd": room.here, "env": environment, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            self.process = subprocess.Popen(
                [*program, *words],
                start_new_session=True,
                **{**settings, **popen},  # type: ignore[call-overload]
            )
        self.engines: set[str] = set()

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self.process.poll() is None

    def wait(self, seconds: float) -> Ended:
        """Until it ends; one that does not end is killed, which is a broken promise."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise Broken(f"did not end within {seconds:.0f} s: {self.said().last[:200]!r}") from None
        return self.said(code)

    def said(self, code: int = 0) -> Ended:
        """What it has said so far."""
        out, err = ((self._log / name).read_text(errors="replace") for name in ("out", "err"))
        return Ended(code, out, err)

    def family(self) -> dict[int, bytes]:
        """Every living process that it started, itself among them, with its command line."""
        found = dict(_marked(f"{_MARK}={self.mark}".encode()))
        self.engines |= {match[1].decode() for line in found.values() for match in _ENGINE.finditer(line)}
        return found

    def children(self) -> list[int]:
        """All of them but itself."""
        return [pid for pid in self.family() if pid != self.process.pid]

    def games(self) -> list[int]:
        """Its ViZDoom engines."""
        return [pid for pid, line in self.family().items() if _ENGINE.search(line)]

    def signal(self, number: int) -> None:
        """Only to the command itself."""
        self.process.send_signal(number)

    def kill_all(self) -> None:
        """Everybody at once, again until nobody is left: a child may have been born meanwhile."""
        while found := self.family():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def leftovers(self) -> list[str]:
        """What is there although the command has ended: processes, shared memory, files for the moment."""
        left = [f"process {pid} {line[:80]!r}" for pid, line in self.family().items()]
        shared = os.listdir(names.SHARED_MEMORY) if os.path.isdir(names.SHARED_MEMORY) else []
        left += [f"{names.SHARED_MEMORY}/{name}" for name in shared if any(name.endswith(one) for one in self.engines)]
        return left + [str(path) for path in self._room.tmp.iterdir()]

    def require_nothing_left(self, seconds: float = 10.0) -> None:
        """Promise: nothing stays behind. Games look once a second whether their parent lives."""
        deadline = time.monotonic() + seconds
        while left := self.leftovers():
            if time.monotonic() > deadline:
                self.kill_all()
                raise Broken(f"left behind: {', '.join(left)[:300]}")
            time.sleep(0.1)


def _marked(mark: bytes) -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                yield int(name), Path("/proc", name, "cmdline").read_bytes()
        except OSError:  # ended meanwhile, or somebody else's
            continue


def until(seen: Callable[[], bool], command: Command, seconds: float, pause: float = 0.0005) -> bool:
    """Look until something is seen; False when the command ended or the time was over before."""
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline or not command.running:
            return False
        if pause:
            time.sleep(pause)
    return True


def execute(room: Room, words: Sequence[str], seconds: float = 120.0, **popen: object) -> Ended:
    """A command from its start to its end; afterwards nothing may be left."""
    command = Command(room, words, **popen)
    ended = command.wait(seconds)
    command.require_nothing_left()
    return ended
