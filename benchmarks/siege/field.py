"""Cases side by side, each in a forked process and a room of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.siege import watch
from benchmarks.siege.case import Broken, Case, Family, Outcome, Room


@dataclass
class _Running:
    case: Case
    room: Room
    limit: float
    began: float
    memory: set[str]
    """Files in shared memory when it began."""


class Field:
    """Runs cases, so many at a time; each leaves its outcome and nothing else."""

    def __init__(self, scratch: Path, base: Path, environment: dict[str, str], workers: int, keep: Path | None) -> None:
        self.scratch, self.base, self.environment, self.workers, self.keep = scratch, base, environment, workers, keep
        self._running: dict[int, _Running] = {}

    def room(self, name: str) -> Room:
        """A fresh room."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        room = Room(path, self.base, {})
        for folder in (room.here, room.tmp, room.home):
            folder.mkdir(parents=True)
        own = {"TMPDIR": str(room.tmp), "HOME": str(room.home)}
        return Room(path, self.base, self.environment | own)

    def run(self, cases: Iterable[tuple[Family, int]]) -> Iterator[Outcome]:
        """Play cases; outcomes come as they are known."""
        waiting = iter(cases)
        for family, seed in waiting:
            self._start(family, seed)
            if len(self._running) >= self.workers:
                yield self._next()
        while self._running:
            yield self._next()

    def _start(self, family: Family, seed: int) -> None:
        case = Case(family.name, seed)
        room = self.room(f"{family.name}-{seed}")
        memory = watch.shared_memory()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            try:
                _play(family, seed, room)
            finally:
                os._exit(0)
        running = _Running(case, room, family.limit, time.monotonic(), memory)
        self._running[child] = running

    def _next(self) -> Outcome:
        wait = 0.002
        while True:
            for child in list(self._running):
                done, _ = os.waitpid(child, os.WNOHANG)
                if done:
                    return self._outcome(child)
                if time.monotonic() - self._running[child].began > self._running[child].limit:
                    self._stop(child)
            time.sleep(wait)
            wait = min(wait * 1.3, 0.02)

    def _stop(self, child: int) -> None:
        """A case over its limit ends with everything that it started."""
        started = watch.descendants(child)
        for process in (child, *started):
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                continue

    def _outcome(self, child: int) -> Outcome:
        running = self._running.pop(child)
        note, own_memory = running.room.path / "outcome.json", False
        if note.is_file():
            told = json.loads(note.read_text(encoding="utf-8"))
            ok, what, own_memory = bool(told["ok"]), str(told["what"]), bool(told["own_memory"])
        else:
            ok, what = False, f"the case did not end within {running.limit:.0f} s"
        if ok and not own_memory and (left := self._left_in_memory(running)):
            ok, what = False, f"left in shared memory: {', '.join(left[:4])}"
        if not ok and self.keep is not None:
            shutil.copytree(running.room.path, self.keep / running.room.path.name, symlinks=True, dirs_exist_ok=True)
        _remove(running.room.path)
        return Outcome(running.case, ok, what, time.monotonic() - running.began)

    def _left_in_memory(self, running: _Running) -> list[str]:
        """Files that appeared during the case and that no process uses any more."""
        new = sorted(watch.shared_memory() - running.memory)
        if not new:
            return []
        time.sleep(0.1)  # a game beside this case may be between making its file and mapping it
        used = watch.used_shared_memory()
        return [name for name in new if name in watch.shared_memory() and name not in used]


def _play(family: Family, seed: int, room: Room) -> None:
    """In the forked process: one case, and its outcome as a note."""
    watch.adopt_orphans()
    own_memory = watch.take_own_shared_memory()
    os.chdir(room.here)
    try:
        what, ok = family.run(seed, room), True
        watch.require_nothing_left(room, own_memory)
    except Broken as broken:
        what, ok = str(broken), False
    except BaseException:  # the siege's own fault is told, too, and the next case goes on
        what, ok = "the siege itself failed: " + " | ".join(traceback.format_exc().splitlines()[-6:]), False
    watch.end_all(os.getpid())
    line = " ".join(what.encode("utf-8", "backslashreplace").decode().split())
    (room.path / "outcome.json").write_text(
        json.dumps({"ok": ok, "what": line[:1500], "own_memory": own_memory}), encoding="utf-8"
    )


def _remove(path: Path) -> None:
    """A room goes, whatever a case has done to its permissions."""

    def allow(remove: Callable[..., object], name: str, _: BaseException) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        if not os.path.islink(name):
            os.chmod(name, 0o700)
        remove(name)

    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=allow)
    else:
        shutil.rmtree(path, onerror=lambda remove, name, info: allow(remove, name, info[1]))
