"""sfl under observation: as a forked child of this warm process, or as a real command, with limits of time and memory.

A forked child calls the same `main` as the command and ends as it does, but its imports were made once, before the
first case: 7,000 commands would import for two hours.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.siege import names
from benchmarks.siege.case import Broken, Room

MB = 1 << 20
SECONDS = 20.0
"""Of processor time that a command may take unless a family says otherwise; of the clock it may take more."""
PATIENCE = 6
"""So many times as much: the machine may be busy."""
MEMORY = 1500 * MB
"""What a command may have resident beyond what it started with."""
ADDRESSES = 5 << 30
"""Address space beyond what it started with: an allocation past it fails, as on a machine that has no more."""

CODES = (names.DONE, names.FAILED, names.WRONG_USE, names.STOPPED, names.READER_LEFT)
_INSIDE = re.compile(r'File "[^"]*?/(sfl/[^"]+\.py)", line (\d+), in (\S+)')
_WARNING = re.compile(r"^\S+\.py:\d+: (\w*Warning: .*)$", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    code: int
    """The exit code; below 0: the signal that ended it."""
    out: str
    err: str
    seconds: float
    memory: int
    """Bytes resident at most, beyond what it started with."""
    over: str = ""
    """Which limit it went over; empty: none."""

    @property
    def complaints(self) -> list[str]:
        """The lines of stderr that tell of an error."""
        return [line for line in self.err.splitlines() if line.startswith(names.COMPLAINT)]

    @property
    def shown(self) -> str:
        """The command in one line, for people."""
        words = [word if len(word) < 200 else f"{word[:80]}...({len(word)} characters)" for word in self.words]
        return (
            "`sfl " + " ".join(word if re.fullmatch(r"[\w./,:=+@%-]+", word) else ascii(word) for word in words) + "`"
        )


@dataclass(frozen=True)
class Limits:
    """What a command may take."""

    seconds: float = SECONDS
    memory: int = MEMORY
    addresses: int = ADDRESSES
    stop_after: float = math.inf
    """Seconds of processor time, or thrice as many of the clock, after which it gets a Ctrl-C: it is right to go on."""


USUAL = Limits()


@dataclass
class _Streams:
    """Files that take what a command says."""

    folder: Path
    out: Path = field(init=False)
    err: Path = field(init=False)

    def __post_init__(self) -> None:
        name = f"said-{time.monotonic_ns()}"
        self.out, self.err = self.folder / f"{name}.out", self.folder / f"{name}.err"

    def read(self) -> tuple[str, str]:
        """What was said, and no file of it stays."""
        texts = []
        for path in (self.out, self.err):
            with path.open("rb") as file:
                content = file.read(2 * MB)
            texts.append(content.decode("utf-8", "backslashreplace"))
            path.unlink()
        return texts[0], texts[1]


@dataclass
class Begun:
    """A command that runs."""

    words: tuple[str, ...]
    child: int
    limits: Limits
    streams: _Streams
    resident: int
    began: float = field(default_factory=time.monotonic)

    def said(self) -> str:
        """What it has printed to stdout so far."""
        return self.streams.out.read_text(encoding="utf-8", errors="replace") if self.streams.out.exists() else ""

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self.child, signal.SIGINT)

    def end(self) -> Ended:
        """Wait for its end; end it where it goes over a limit."""
        over, wait, stopped = "", 0.002, False
        while True:
            done, status, usage = os.wait4(self.child, os.WNOHANG)
            if done:
                break
            passed = time.monotonic() - self.began
            if not stopped and max(passed / 3, _processor_time(self.child)) > self.limits.stop_after:
                stopped = True
                self.interrupt()
            if not over and (over := self._over(passed)):
                _end_group(self.child)
            time.sleep(wait)
            wait = min(wait * 1.3, 0.02)
        code, memory = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024 - self.resident
        if code == -signal.SIGXCPU:
            over = f"more than {self.limits.seconds:.0f} s of processor time"
        if not over and memory > self.limits.memory:
            over = f"{memory // MB} MB of memory"
        return Ended(self.words, code, *self.streams.read(), time.monotonic() - self.began, memory, over)

    def _over(self, passed: float) -> str:
        if passed > PATIENCE * self.limits.seconds + min(3 * self.limits.stop_after, 60):
            return f"not done after {passed:.0f} s"
        if _resident(self.child) - self.resident > 2 * self.limits.memory:
            return f"more than {2 * self.limits.memory // MB} MB of memory"
        return ""


def sfl(
    words: Sequence[str],
    room: Room,
    limits: Limits = USUAL,
    real: bool = False,
    given: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Run one command in the room: forked, or as a real command. `given` changes its environment; None takes away."""
    return begin(words, room, limits, real, given, cwd).end()


def begin(
    words: Sequence[str],
    room: Room,
    limits: Limits = USUAL,
    real: bool = False,
    given: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
) -> Begun:
    """As `sfl`, but it runs on while the caller does other things."""
    changed = room.environment | dict(given or {})
    environment = {name: value for name, value in changed.items() if value is not None}
    words = tuple(word.replace("\0", "") for word in words)  # no command can be given one
    if real:
        return _real(words, room, limits, environment, cwd or room.here)
    return _forked(words, room, limits, environment, cwd or room.here, lambda: _main(words))


def call(action: Callable[[], Any], room: Room, limits: Limits = USUAL) -> Ended:
    """Run a function instead of `main` in a forked child: what it returns is its exit code, what it raises is told."""
    return _forked(("(python)",), room, limits, room.environment, room.here, action).end()


def _forked(
    words: tuple[str, ...],
    room: Room,
    limits: Limits,
    environment: Mapping[str, str],
    cwd: Path,
    action: Callable[[], Any],
) -> Begun:
    streams = _Streams(room.path)
    sys.stdout.flush()
    sys.stderr.flush()
    resident = _resident(os.getpid())
    child = os.fork()
    if child == 0:
        code = 70
        try:
            _settle(streams, environment, cwd, limits)
            code = _finish(action)
        finally:
            os._exit(code)
    return Begun(words, child, limits, streams, resident)


def _main(words: Sequence[str]) -> Any:
    from sfl.cli import main

    sys.argv = ["sfl", *words]
    return main(words)


def _settle(streams: _Streams, environment: Mapping[str, str], cwd: Path, limits: Limits) -> None:
    """In the child: its own group, streams, folder, environment and limits."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    for number, path in ((1, streams.out), (2, streams.err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    space = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space + limits.addresses, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))


def _finish(action: Callable[[], Any]) -> int:
    """In the child: do it, and end as the interpreter would; the exit code."""
    try:
        code = action()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does: waits for threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return int(code or 0)


def _real(words: tuple[str, ...], room: Room, limits: Limits, environment: Mapping[str, str], cwd: Path) -> Begun:
    streams = _Streams(room.path)
    with streams.out.open("wb") as out, streams.err.open("wb") as err:
        process = subprocess.Popen(
            [*names.COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(environment),
            cwd=cwd,
            process_group=0,
        )
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
    process.returncode = 0  # it is waited for below, with its resources
    longer = replace(limits, seconds=limits.seconds + 20)  # it has to import
    return Begun(words, process.pid, longer, streams, 600 * MB)


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(leader, signal.SIGKILL)


def _processor_time(process: int) -> float:
    try:
        words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def judge(ended: Ended, refuse: bool | None = None) -> str:
    """Raise Broken unless the command ended as one should; else how it ended, in a few words.

    `refuse`: True where only an error is right, False where only success is, None where either may be.
    """
    if ended.over:
        raise Broken(f"{ended.shown}: {ended.over}")
    if trace := traceback(ended.err) or traceback(ended.out):
        raise Broken(f"{trace} <- {ended.shown}")
    if ended.code == -signal.SIGABRT and re.search(r"what\(\):\s+KeyboardInterrupt", ended.err):
        return "Ctrl-C ended PyTorch's own code"  # which turns an exception into an abort here and there
    if ended.code not in CODES:
        how = f"ended by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        raise Broken(f"{how}: {_last(ended.err)} <- {ended.shown}")
    if warned := _WARNING.search(ended.err):
        raise Broken(f"a warning of Python's instead of a line: {warned[0]} <- {ended.shown}")
    if ended.code != names.STOPPED and len(ended.complaints) != int(ended.code in (names.FAILED, names.WRONG_USE)):
        raise Broken(
            f"exit code {ended.code} and {len(ended.complaints)} lines of error: {_last(ended.err)} <- {ended.shown}"
        )
    if refuse is not None and refuse != (ended.code != names.DONE):
        what = "not refused" if refuse else "refused"
        raise Broken(f"{what}, exit code {ended.code}: {_last(ended.err or ended.out)} <- {ended.shown}")
    return f"exit code {ended.code}" + (f": {ended.complaints[0]}" if ended.complaints else "") + f" <- {ended.shown}"


def traceback(text: str) -> str:
    """A traceback in one line: the exception, and the last place in sfl that it passed; empty where there is none."""
    if "Traceback (most recent call last)" not in text:
        return ""
    last = text.rpartition("Traceback (most recent call last)")[2]
    words = next(
        (
            line
            for line in last.splitlines()
            if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Expired|\b:)", line)
        ),
        "",
    )
    places = _INSIDE.findall(last)
    place = f"{places[-1][0]}:{places[-1][1]} {places[-1][2]}" if places else "outside of sfl"
    return f"traceback at {place}: {_ADDRESS.sub('0x...', words)[:300] or _last(text)}"


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return ascii(lines[-1][:300])[1:-1] if lines else "(nothing said)"


def tree(folder: Path, but: Sequence[str] = ()) -> dict[str, str]:
    """Every file below a folder with what it holds, except for paths that begin with one of `but`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsdecode(path.relative_to(folder))
        if name.startswith(tuple(but)) if but else False:
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()
        else:
            found[name] = "folder"
    return found


def require_same(before: dict[str, str], after: dict[str, str], ended: Ended) -> None:
    """Nothing but what was asked for may change."""
    lost, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    for kind, found in (("lost", lost), ("changed", changed), ("left behind", new)):
        if found:
            raise Broken(f"{kind}: {', '.join(map(ascii, found[:4]))}; exit code {ended.code} <- {ended.shown}")


def copy_run(room: Room, name: str, to: str | None = None) -> Path:
    """A run of the base, copied into the room's folder."""
    target = room.here / (to or name)
    shutil.copytree(room.base / name, target)
    return target
