"""Streams that are closed, full, slow, or whose reader goes away; other alphabets; a terminal that hangs up.

What a run says is decoration: whatever becomes of it, the run goes on, saves, and ends as if everybody had listened.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import shutil
import signal
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.siege import names
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.commands import Command, Ended, until
from benchmarks.siege.damage import half
from benchmarks.siege.forked import traceback
from benchmarks.siege.kills import GRID, LONGEST, MAZE, World, reference_of
from benchmarks.siege.sameness import require_same, steps_of

_SMALL_PIPE = 4096

# ---- who listens: each takes a command's words and says how it ended

Way = Callable[[Room, Sequence[str], random.Random], tuple[str, Ended]]


def _closed(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """Any of the three are no streams at all."""
    which = [number for number in range(3) if dice.random() < 0.6] or [dice.randrange(3)]

    def close() -> None:
        for number in which:
            os.close(number)

    command = Command(room, words, preexec_fn=close)
    return f"descriptors {which} closed", command.wait(LONGEST)


def _full(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """A disk without room behind stdout, stderr or both."""
    which = dice.choice((("stdout",), ("stderr",), ("stdout", "stderr")))
    with open("/dev/full", "wb") as full:
        command = Command(room, words, **{name: full for name in which})
    return f"{' and '.join(which)} full", command.wait(LONGEST)


def _leaving(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """A pipe to somebody who goes away, at once, after a line, or some time: `head`, a `tee` that dies."""
    which = dice.choice((("stdout",), ("stderr",), ("stdout", "stderr")))
    reader, writer = os.pipe()
    command = Command(room, words, **{name: writer for name in which})
    os.close(writer)
    when = dice.choice(("at once", "after a byte", "after some time"))
    if when == "after a byte":
        os.read(reader, 1)
    elif when == "after some time":
        until(lambda: False, command, dice.random() * 6.0, pause=0.01)
    os.close(reader)
    return f"the reader of {' and '.join(which)} leaves {when}", command.wait(LONGEST)


def _slow(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """A small pipe that is full and is read a few bytes at a time; or that nobody waits for (O_NONBLOCK)."""
    patient = dice.random() < 0.5
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _SMALL_PIPE)
    os.write(writer, b"." * _SMALL_PIPE)
    os.set_blocking(writer, patient)
    command = Command(room, words, stderr=writer, **({"stdout": writer} if dice.random() < 0.5 else {}))
    os.close(writer)
    if patient:
        threading.Thread(target=_sip, args=(reader,), daemon=True).start()
    return ("a slow reader" if patient else "a full pipe that does not wait"), command.wait(LONGEST)


def _sip(reader: int) -> None:
    while os.read(reader, 32):
        time.sleep(0.01)


LOCALES = (
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "de_DE.ISO-8859-1", "LANG": "de_DE.ISO-8859-1"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "utf-16"},
    {"LC_ALL": "tr_TR.UTF-8"},
    {"LC_ALL": "nonsense", "LANG": ""},
    {"TERM": "dumb", "COLUMNS": "5"},
    {"TERM": "nonsense", "COLUMNS": "0"},
    {"TZ": "Nowhere/Never", "HOME": "/nowhere", "USER": ""},
)


def _foreign(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """Alphabets, terminals and other things that a machine far away sets."""
    given = dice.choice(LOCALES)
    return f"{given}", Command(room, words, env={**room.environment, **given}).wait(LONGEST)


def _terminal(room: Room, words: Sequence[str], dice: random.Random) -> tuple[str, Ended]:
    """A terminal that hangs up in the middle, as when ssh is lost, or that has no size at all."""
    above, below = pty.openpty()
    rows, columns = dice.choice(((24, 80), (0, 0), (1, 1), (5, 400)))
    termios.tcsetwinsize(above, (rows, columns))

    def own() -> None:
        fcntl.ioctl(below, termios.TIOCSCTTY, 0)

    command = Command(room, words, stdin=below, stdout=below, stderr=below, preexec_fn=own)
    os.close(below)
    reader = threading.Thread(target=_drain, args=(above,), daemon=True)
    reader.start()
    hangs_up = dice.random() < 0.7
    if hangs_up:
        until(lambda: False, command, dice.random() * 8.0, pause=0.01)
        with suppress(OSError):
            os.close(above)
    return f"a terminal of {rows}x{columns}{' that hangs up' if hangs_up else ''}", command.wait(LONGEST)


def _drain(above: int) -> None:
    with suppress(OSError):
        while os.read(above, 4096):
            continue


# ---- cases


def _trained(way: Way, world: World, seed: int, room: Room) -> str:
    """Training ends with the same result, whoever listens; hung up on, it has saved and goes on."""
    dice = chance(f"streams-{way.__name__}", seed)
    run_seed = seed % world.seeds
    words = world.words(run_seed)
    expected = reference_of(room, f"{world.experiment}-{run_seed}", words)
    folder = names.run_folder(world.experiment, run_seed)
    done, ended = way(room, words, dice)
    try:
        _require_fair(ended)
        run = room.here / "runs" / folder
        if ended.code in (names.STOPPED, -signal.SIGHUP) and "hangs up" in done:
            _go_on(room, run, words)
        require_same(run, expected.runs[folder])
    except Broken as broken:
        raise Broken(f"{done}: {broken}; exit code {ended.code}: {ended.last[:200]!a}") from None
    return f"{done}: exit code {ended.code}, the same result"


def _require_fair(ended: Ended) -> None:
    if trace := traceback(ended.err):
        raise Broken(trace)
    allowed = (names.DONE, names.FAILED, names.STOPPED, names.READER_LEFT, -signal.SIGHUP)
    if ended.code not in allowed:
        raise Broken(f"exit code {ended.code}")


def _go_on(room: Room, run: Path, words: Sequence[str]) -> None:
    if steps_of(run) < 0:
        shutil.rmtree(run, ignore_errors=True)
    again = Command(room, ["resume", str(run), "--device", "cpu"] if run.exists() else words).wait(LONGEST)
    if again.code:
        raise Broken(f"and could not be resumed: {again.last[:200]!a}")


OTHERS = (
    ("list",),
    ("--help",),
    ("report", "run"),
    ("report", "run", "--json"),
    ("eval", "run", "--episodes", "1"),
    ("plot", "run"),
    ("export", "run", "--out", "slim"),
    ("maze", "build", "small", "--out", "maze.wad"),
    ("train", names.GRID, "--help"),
    ("train", "no-such-experiment"),
)


def _another(ways: Sequence[Way], seed: int, room: Room) -> str:
    """Any other command: it ends by itself, without a traceback."""
    dice = chance("streams", seed)
    shutil.copytree(half(room, "grid") / "run", room.here / "run")
    way, words = dice.choice(list(ways)), dice.choice(OTHERS)
    done, ended = way(room, words, dice)
    try:
        _require_fair_of_any(ended)
    except Broken as broken:
        raise Broken(f"{' '.join(words)}, {done}: {broken}; exit code {ended.code}: {ended.last[:200]!a}") from None
    return f"{' '.join(words)}, {done}: exit code {ended.code}"


def _require_fair_of_any(ended: Ended) -> None:
    for text in (ended.err, ended.out):
        if trace := traceback(text):
            raise Broken(trace)
        if "Exception ignored" in text or "lost sys.stderr" in text:
            raise Broken("Python's own words at the end")
    allowed = (names.DONE, names.FAILED, names.WRONG_USE, names.STOPPED, names.READER_LEFT, -signal.SIGHUP)
    if ended.code not in allowed:
        raise Broken("an odd exit code")


WAYS: dict[str, tuple[Way, str]] = {
    "closed": (_closed, "Closed descriptors 0 to 2: the run goes on and saves."),
    "full": (_full, "What a run says goes to a full disk: it goes on and saves."),
    "reader": (_leaving, "The reader of what a run says goes away: it goes on and saves."),
    "slow": (_slow, "The reader is slow, or the pipe is full: the run goes on and saves."),
    "locale": (_foreign, "In any locale and terminal the same result."),
    "terminal": (_terminal, "A terminal of any size, which may hang up: the run saves and can be resumed."),
}


SHORT = ("streams-closed", "streams-full", "streams-reader")
"""The kinds of the short form: each costs the start of a command or two."""


def _families() -> list[Family]:
    found = []
    for name, (way, about) in WAYS.items():
        for world, place, weight in ((GRID, "", 0.4), (MAZE, "-maze", 0.15)):

            def run(seed: int, room: Room, way: Way = way, world: World = world) -> str:
                return _trained(way, world, seed, room)

            full_name = f"streams-{name}{place}"
            found.append(Family(full_name, about, run, weight, limit=LONGEST * 2, short=int(full_name in SHORT)))
    return found


def _commands(seed: int, room: Room) -> str:
    return _another([way for way, _ in WAYS.values()], seed, room)


FAMILIES: tuple[Family, ...] = (
    *_families(),
    Family("streams", "Any other command with such streams ends by itself and without a traceback.", _commands, 3),
)
