"""The worker processes of some games, seen from their parent: started, told, waited for, replaced, ended.

First the engines that workers start, and what these leave in shared memory; then the folder in which games keep their
files; then `Workers`. The owner of a folder and its workers hold a lock on a file in it, which ends with the last of
them whatever ends that: a folder whose lock can be had has no owner any more, in whatever container it was made. The
instances of the engines are noted in it, so that their shared memory can be removed with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfl.config import require, to_json
from sfl.errors import SflError
from sfl.worlds.doom.protocol import (
    CHECK_MAP,
    DEFAULT_LIMITS,
    FAILED,
    LEAVE,
    READY,
    GameSpec,
    Limits,
    SharedMemory,
    WorkerSpec,
)
from sfl.worlds.mazes.layout import Maze

DEV_SHM = Path("/dev/shm")
GAME_BYTES = 256 << 10
"""Shared memory that one engine needs; some 100 KiB were measured at this resolution."""
LEFT_BEHIND = ("ViZDoomSM", "ViZDoomMQCtr", "ViZDoomMQDoom")


@dataclass(frozen=True)
class Engine:
    """A running engine, or one that ran."""

    process: int
    instance: str

    def kill(self) -> None:
        """End it, if it still runs."""
        try:
            os.kill(self.process, signal.SIGKILL)
        except ProcessLookupError:
            return

    def remove_shared_memory(self) -> None:
        """Remove what an engine and a worker that were both killed could not."""
        for name in LEFT_BEHIND:
            (DEV_SHM / f"{name}{self.instance}").unlink(missing_ok=True)


def read_engine(folder: Path) -> Engine | None:
    """The engine that was last started in a folder, as the launcher noted it."""
    try:
        process, instance = (folder / "engine.txt").read_text(encoding="utf-8").split()
        return Engine(int(process), instance)
    except (FileNotFoundError, ValueError):  # not started yet, or being written just now
        return None


def last_words(log: Path) -> str:
    """The last line of a log that says something, or an empty text."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def check_shared_memory(games: int) -> None:
    """Engines exchange frames through shared memory, which containers often keep small."""
    if not DEV_SHM.is_dir():
        return
    status = os.statvfs(DEV_SHM)
    free, needed = status.f_bavail * status.f_frsize, games * GAME_BYTES
    if free < needed:
        raise SflError(
            f"Too little shared memory: games need 256 KiB each, {needed >> 10} KiB in all, and {DEV_SHM} has "
            f"{free >> 10} KiB free; run fewer games, or enlarge it (containers: --shm-size)."
        )


def check_display() -> None:
    """A window needs a screen to be on; ViZDoom itself would only say that it crashed."""
    has_display = os.name != "posix" or os.uname().sysname != "Linux"
    has_display = has_display or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    require(
        has_display,
        "A visible game needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set: leave visible off, "
        "or run it where there is a screen.",
    )


PREFIX = "sfl-games-"
_LOCK = "lock"
_PAUSE = 0.05  # seconds; a file that an engine is being given is mapped within microseconds


def make_folder() -> tuple[Path, int]:
    """A folder for games, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):  # swept in the moment in which it was not locked yet
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if _take(lock) and os.path.samestat(os.fstat(lock), os.stat(folder / _LOCK)):
                return folder, lock
            os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_folder(folder: Path) -> None:
    """A folder of games that have ended, with what those of them that were killed left in shared memory."""
    unknown = False
    for game in folder.glob("game-*"):
        if (engine := read_engine(game)) is not None:
            engine.remove_shared_memory()
        unknown |= engine is None and (game / "engine.sh").exists()
    if unknown:  # killed after its memory was made and before its number was noted
        _remove_orphans()
    for path in folder.glob("*"):
        if path.name != _LOCK:  # which goes last: without it nobody would know that the rest has no owner
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def sweep_folders() -> None:
    """Remove what games left whose owners were killed all at once, as by the kernel when memory runs out."""
    with contextlib.suppress(OSError):  # no folder for temporary files at all, for instance
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):  # another user's, or swept by another process just now
                _sweep(folder)


def _sweep(folder: Path) -> None:
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        return
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        folder.rmdir()  # only if it is empty: its owner was killed before it had a lock
        return
    try:
        if _take(lock):
            remove_folder(folder)
    finally:
        os.close(lock)


def _remove_orphans() -> None:
    """Shared memory of engines, ours and mapped by no process."""
    first = set(_unmapped())
    time.sleep(_PAUSE)
    for path in first & set(_unmapped()):
        path.unlink(missing_ok=True)


def _unmapped() -> Iterator[Path]:
    with contextlib.suppress(OSError):
        mapped = _mapped()
        for path in DEV_SHM.iterdir():
            if path.name.startswith(LEFT_BEHIND) and path.lstat().st_uid == os.getuid() and str(path) not in mapped:
                yield path


def _mapped() -> set[str]:
    """Files in shared memory that processes have mapped, as far as this one may know."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            lines = maps.read_text(errors="replace").splitlines()
            found |= {line.split(maxsplit=5)[5] for line in lines if str(DEV_SHM) in line}
    return found


_PATIENCE = 3  # workers lost in a row, without one answer in between, before the games are given up
_FAREWELL = 5.0  # seconds in which a worker may end its games by itself
_PACKAGE_HOME = str(Path(__file__).parents[3])
_ENTRY = f"import sys; sys.path.insert(0, {_PACKAGE_HOME!r}); from sfl.worlds.doom.worker import main; main()"


class _Worker:
    """One process with its two pipes. Requests are numbers of halves, and so are the replies."""

    def __init__(
        self, folder: Path, lock: int, memory: int, count: int, games: tuple[GameSpec, ...], limits: Limits
    ) -> None:
        self.games = games
        self._folder = folder
        self._log = folder / f"worker-{games[0].index}.log"
        heard, self._requests = os.pipe()
        self._replies, said = os.pipe()
        spec = WorkerSpec(os.getpid(), memory, heard, said, lock, count, str(folder), games, limits)
        with open(self._log, "ab") as log:
            # A fresh interpreter: safe after threads or a GPU have been started, and it runs no code of the user's.
            # Its own session: Ctrl-C in the terminal must reach the run, which saves, and not the games.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _ENTRY, json.dumps(to_json(spec))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(memory, heard, said, lock),
                start_new_session=True,
            )
        os.close(heard)
        os.close(said)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        self._asked = [READY]
        self.ended = False

    @property
    def process(self) -> int:
        """Its number, which is also that of its process group."""
        return self._process.pid

    @property
    def asked(self) -> tuple[int, ...]:
        """Halves that it has been told of and not yet answered."""
        return tuple(self._asked)

    def ask(self, half: int) -> None:
        """Ring; a worker that has died is found when its answer is waited for."""
        if self.ended:
            return
        self._asked.append(half)
        try:
            os.write(self._requests, bytes([half]))
        except BrokenPipeError:
            return

    def answers(self, word: int, seconds: float) -> bool:
        """Wait for the answer to a request; False when the worker died or took too long."""
        deadline = time.monotonic() + seconds
        while word in self._asked:
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
            reply = os.read(self._replies, 1)
            if not reply:
                return False
            if reply[0] == FAILED:
                raise SflError(self._read_rest())
            self._asked.remove(reply[0])
        return True

    def _read_rest(self) -> str:
        parts = []
        while part := os.read(self._replies, 4096):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")

    def last_words(self) -> str:
        """The last line that the process or one of its engines wrote to its log."""
        logs = [self._log, *(self._folder / f"game-{game.index}" / "engine.log" for game in self.games)]
        return next(filter(None, map(last_words, logs)), "it said nothing")

    def has_left(self, seconds: float) -> bool:
        """Wait until a worker that was asked to leave has ended its games; False when it died or took too long."""
        try:
            return self.ended or self.answers(LEAVE, seconds)
        except SflError:
            return False

    def end(self) -> None:
        """Make sure that it and its engines have ended and leave nothing behind."""
        if self.ended:
            return
        self._kill_group()
        self._process.wait()
        for pipe in (self._requests, self._replies):
            os.close(pipe)
        self.ended = True
        for game in self.games:
            if (engine := read_engine(self._folder / f"game-{game.index}")) is not None:
                engine.remove_shared_memory()

    def _kill_group(self) -> None:
        try:
            os.killpg(self.process, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # all have ended; macOS says the latter of zombies
            return


class Workers:
    """Games in worker processes. `post` makes the games of a half do what the shared says; `wait` ends when they have.

    Games are told apart by their index. A worker that dies or does not answer in time is replaced: its games count a
    restart, and those in an episode find it cut.
    """

    def __init__(
        self,
        mazes: Sequence[Maze],
        halves: Sequence[int],
        workers: int,
        visible: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Start a game of each maze; `halves` [N] says to which half a game belongs."""
        require(len(mazes) >= 1, f"There must be at least 1 game, got {len(mazes)}.")
        require(workers >= 1, f"workers must be at least 1, got {workers}.")
        if visible:
            check_display()
        check_shared_memory(len(mazes))
        self._limits = limits
        self._failures = 0
        self._memory, self.shared = SharedMemory.create(len(mazes))
        try:
            self.folder, self._lock = make_folder()
            """Where the games keep their files; nobody's working directory."""
        except OSError:
            os.close(self._memory)
            raise
        self._workers: list[_Worker] = []
        self._finalizer = weakref.finalize(
            self, _end_all, self._workers, (self._memory, self._lock), self.folder, os.getpid()
        )
        try:
            specs = self._specs(mazes, halves, visible)
            for first in range(min(workers, len(specs))):
                self._workers.append(self._start(tuple(specs[first::workers])))
            for worker in self._workers:
                self._await_start(worker)
        except BaseException:
            self.close()
            raise

    def _specs(self, mazes: Sequence[Maze], halves: Sequence[int], visible: bool) -> list[GameSpec]:
        files: dict[int, Path] = {}
        for maze in mazes:
            if id(maze) not in files:
                files[id(maze)] = self.folder / f"maze-{len(files)}.wad"
                files[id(maze)].write_bytes(maze.wad)
        return [
            GameSpec(index, half, str(files[id(maze)]), maze.map_name, visible)
            for index, (maze, half) in enumerate(zip(mazes, halves, strict=True))
        ]

    def _start(self, games: tuple[GameSpec, ...]) -> _Worker:
        return _Worker(self.folder, self._lock, self._memory, len(self.shared.commands), games, self._limits)

    def _await_start(self, worker: _Worker) -> None:
        seconds = self._limits.start * (1 + len(worker.games))  # its engines start one after the other
        if not worker.answers(READY, seconds):
            hint = " A visible game needs a working display." if worker.games[0].visible else ""
            raise SflError(
                f"A game process ended or took over {seconds:g} s before it was ready; its last words: "
                f"{worker.last_words()}.{hint}"
            )

    def post(self, half: int) -> None:
        """Ring at every worker that has games of a half."""
        require(self._finalizer.alive, "The games have been closed: make them anew.")
        for worker in self._workers:
            if any(game.half == half for game in worker.games):
                worker.ask(half)

    def wait(self, half: int) -> None:
        """Wait until every game of a half has done what it was told."""
        for number in range(len(self._workers)):
            while not self._workers[number].answers(half, self._limits.reply):
                self._replace(number)
            self._failures = 0

    def _replace(self, number: int) -> None:
        lost = self._workers[number]
        unanswered = lost.asked
        self._failures += 1
        if self._failures > _PATIENCE:
            raise SflError(
                f"{self._failures} game processes ended in a row without one answer, the last one with: "
                f"{lost.last_words()} {CHECK_MAP}"
            )
        lost.end()
        self._workers[number] = worker = self._start(lost.games)
        self._await_start(worker)
        self.shared.restarts[[game.index for game in lost.games]] += 1
        for half in unanswered:  # its commands still stand on the shared; a game without an episode calls it cut
            worker.ask(half)

    @property
    def processes(self) -> list[int]:
        """The worker processes that run now."""
        return [worker.process for worker in self._workers]

    def close(self) -> None:
        """End all games and leave nothing behind."""
        self._finalizer()


def _end_all(workers: list[_Worker], handles: tuple[int, ...], folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner: the games are not its own
        return
    for worker in workers:
        worker.ask(LEAVE)
    for worker in workers:
        if not worker.has_left(_FAREWELL):
            worker.end()
    remove_folder(folder)  # while those that have left look on, and would do it if this process were killed
    for worker in workers:
        worker.end()
    for handle in handles:
        os.close(handle)
