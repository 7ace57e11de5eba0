"""Disks that are full, read-only, out of names, or limit the size of files: one line, and what was there is whole.

Each case plays on a small disk of its own, in a mount namespace that goes with the case; where mounts are not allowed
only the limit on the size of files is left.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import random
import resource
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from benchmarks.siege import names
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.damage import HALF_GRID, copy_half
from benchmarks.siege.forked import Ended, Limits, begin, call, judge, sfl, tree
from benchmarks.siege.sameness import Parts, parts_of, steps_of
from PIL import Image

LONG = Limits(seconds=120)
ROOMY = 256 << 20
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _RECURSIVE, _PRIVATE = 1, 32, 1 << 14, 1 << 18
_LIBC = ctypes.CDLL(None, use_errno=True)


# ---- disks


class Disk:
    """A disk in memory with as much room, and as many names, as a case gives it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        _own_mounts()
        _mount("tmpfs", path, "tmpfs", 0, f"size={ROOMY}")

    def leave(self, free: int) -> None:
        """So many bytes are free from now on."""
        status = os.statvfs(self.path)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        self._again(f"size={max(4096, used + free)}")

    def leave_names(self, free: int) -> None:
        """So many files can be made from now on."""
        status = os.statvfs(self.path)
        self._again(f"nr_inodes={max(2, status.f_files - status.f_ffree + free)}")

    def freeze(self) -> None:
        """Nothing can be written from now on."""
        _mount("tmpfs", self.path, "tmpfs", _REMOUNT | _READ_ONLY, "")

    def make_room(self) -> None:
        """As at first."""
        self._again(f"size={ROOMY},nr_inodes=100000")

    def _again(self, options: str) -> None:
        _mount("tmpfs", self.path, "tmpfs", _REMOUNT, options)


def _own_mounts() -> None:
    """Mounts of this process and its children only; they end with them."""
    flags, user, group = _NEW_MOUNTS, os.getuid(), os.getgid()
    if user != 0:
        flags |= _NEW_USERS
    if _LIBC.unshare(flags):
        raise PermissionError(ctypes.get_errno(), "mounts are not allowed here")
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _mount("none", Path("/"), "", _RECURSIVE | _PRIVATE, "")


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    if _LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()):
        raise PermissionError(ctypes.get_errno(), f"{target} cannot be mounted")


# ---- what is done there


@dataclass(frozen=True)
class Job:
    """A command that writes."""

    words: tuple[str, ...]
    bytes: int
    """About what it writes."""
    files: int
    """About how many."""
    run: str = "grid"
    """Which run it looks at, on the disk as `run`."""
    old: tuple[str, ...] = ()
    """Files there that it replaces, by pattern; they are old ones before."""
    talks: bool = False
    """It says on stderr how far it is."""


_FIGURES = ("run/figures/*.png", "run/figures/paper/*")
JOBS = {
    "plot": Job(("plot", "run"), 2_000_000, 12, old=_FIGURES),
    "plot-paper": Job(("plot", "run", "--paper"), 1_000_000, 12, old=_FIGURES),
    "plot-svg": Job(("plot", "run", "--paper", "--format", "svg"), 3_000_000, 12, old=_FIGURES),
    "video": Job(("video", "run"), 400_000, 4, old=("run/figures/*",)),
    "export": Job(("export", "run", "--out", "slim", "--history", "2", "--poses"), 3_000_000, 16),
    "export-page": Job(("studio", "run", "--export", "page.html"), 1_500_000, 2, talks=True),
    "maze-build": Job(("maze", "build", "small", "--out", "new.wad"), 300_000, 2),
    "maze-replace": Job(("maze", "build", "small", "--out", "old.wad", "--force"), 300_000, 2, old=("old.wad",)),
    "maze-import": Job(("maze", "import", "run/maze.wad", "--out", "new.wad"), 300_000, 2, run="files"),
    "maze-show": Job(("maze", "show", "small", "--out", "new.png"), 500_000, 2),
    "report": Job(("report", "run"), 1, 1),
    "eval": Job(("eval", "run", "--episodes", "1"), 1, 1),
    "table": Job(
        ("reproduce", "curves-minigrid", "--plan", "--runs-dir", "runs", "--out", "report"), 200_000, 8, talks=True
    ),
}
OLD = b"made before, and whole\n"


# ---- faults


def _strike(disk: Disk, dice: random.Random, job: Job) -> str:
    fault = dice.choice(("full", "full", "full", "full", "names", "read-only"))
    if fault == "full":
        free = dice.choice((0, 4096, dice.randrange(job.bytes), int(job.bytes ** dice.random())))
        disk.leave(free)
        return f"{free} bytes free"
    if fault == "names":
        free = dice.randrange(job.files)
        disk.leave_names(free)
        return f"{free} files left"
    disk.freeze()
    return "read-only"


def _command(seed: int, room: Room) -> str:
    """One command on a disk that has too little room, or just enough."""
    dice = chance("disk", seed)
    name = dice.choice(sorted(JOBS))
    job, disk = JOBS[name], Disk(room.here / "disk")
    _furnish(room, job)
    before = tree(disk.path)
    done = f"{name}, {_strike(disk, dice, job)}"
    ended = sfl(job.words, room, LONG, cwd=disk.path)
    return _told(done, ended, job.talks, partial(_require_whole, disk.path, before, job, ended))


def _limited(seed: int, room: Room) -> str:
    """The same where no file may be larger than so much; needs no mounts."""
    dice = chance("file-size", seed)
    name = dice.choice(sorted(JOBS))
    job, folder = JOBS[name], room.here / "disk"
    folder.mkdir()
    _furnish(room, job)
    before = tree(folder)
    most = dice.choice((512, 4096, 16 << 10, int(100 + job.bytes ** dice.random())))
    ended = call(partial(_with_limit, most, folder, job.words), room, LONG)
    return _told(
        f"{name}, files of at most {most} bytes", ended, job.talks, partial(_require_whole, folder, before, job, ended)
    )


def _with_limit(most: int, folder: Path, words: Sequence[str]) -> int:
    from sfl.cli import main

    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    return main(words)


def _furnish(room: Room, job: Job) -> None:
    """The run, and where the command replaces files, old ones in their places."""
    folder = room.here / "disk"
    shutil.copytree(room.base / job.run, folder / "run")
    (folder / "old.wad").write_bytes(OLD)
    if job.old:
        sfl(job.words, room, LONG, cwd=folder)
    for path in [path for pattern in job.old for path in folder.glob(pattern) if path.is_file()]:
        path.write_bytes(OLD)


def _told(done: str, ended: Ended, talks: bool, check: Callable[[], None]) -> str:
    try:
        told = judge(ended)
        said = [line for line in ended.err.splitlines() if line.strip()]
        if ended.code == names.FAILED and len(said) > 1 and not talks:
            raise Broken(f"more than one line: {' | '.join(said)[:300]}")
        check()
    except Broken as broken:
        raise Broken(f"{done}: {broken}") from None
    return f"{done}; {told}"


def _require_whole(folder: Path, before: dict[str, str], job: Job, ended: Ended) -> None:
    """What was there is as it was, or a whole new one; what is new is whole; nothing else is there."""
    after = tree(folder)
    if lost := sorted(before.keys() - after.keys()):
        raise Broken(f"lost: {', '.join(lost)[:200]}")
    for name in sorted(after):
        if before.get(name) == after[name]:
            continue
        path = folder / name
        if path.suffix in names.ENDINGS or ".tmp" in path.name:
            raise Broken(f"left behind: {name}")
        if path.is_file() and (fault := _fault(path)):
            raise Broken(f"{name} is not whole: {fault}")
    if ended.code and (slim := folder / "slim").exists() and not (slim / names.CHECKPOINTS / names.LAST).exists():
        raise Broken("a slim copy without its checkpoint was left")


def _cut_off(end: bytes) -> Callable[[bytes], object]:
    def read(content: bytes) -> None:
        if not content.rstrip().endswith(end):
            raise ValueError(f"does not end with {end!r}")

    return read


def _wad(content: bytes) -> None:
    entries, place = (int.from_bytes(content[at : at + 4], "little") for at in (4, 8))
    if place + 16 * entries > len(content):
        raise ValueError("its directory is cut off")


def _film(content: bytes) -> None:
    if b"moov" not in content:
        raise ValueError("a film without its index")


def _nothing(content: bytes) -> None:
    """Any content will do."""


READERS: dict[str, Callable[[bytes], object]] = {
    ".pdf": _cut_off(b"%%EOF"),
    ".svg": _cut_off(b"</svg>"),
    ".html": _cut_off(b"</html>"),
    ".png": lambda content: Image.open(io.BytesIO(content)).load(),
    ".gif": lambda content: Image.open(io.BytesIO(content)).load(),
    ".json": json.loads,
    ".npz": lambda content: zipfile.ZipFile(io.BytesIO(content)).testzip(),
    ".npy": lambda content: np.load(io.BytesIO(content)),
    ".wad": _wad,
    ".mp4": _film,
}


def _fault(path: Path) -> str:
    """What is wrong with a file; empty: it can be read to its end."""
    content = path.read_bytes()
    if content == OLD:
        return ""
    try:
        READERS.get(path.suffix.lower(), _nothing)(content)
    except (OSError, ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        return f"{type(error).__name__}: {error}"
    return "" if content else "empty"


# ---- training


def _training(seed: int, room: Room) -> str:
    """Train or resume until the disk is full; when there is room again the same result comes out."""
    dice = chance("disk-training", seed)
    disk = Disk(room.here / "disk")
    run = disk.path / "runs" / names.run_folder(names.GRID)
    own, source = copy_half(room, "grid")
    expected: Parts = json.loads((source / "expected.json").read_text())["parts"]
    fresh = dice.random() < 0.5
    if not fresh:
        shutil.copytree(own, run)
    before = tree(disk.path)
    done = ("train, " if fresh else "resume, ") + _strike(disk, dice, Job((), 14_000_000, 40))
    ended = sfl(HALF_GRID if fresh else _resume(run), room, LONG, cwd=disk.path)
    try:
        judge(ended)
        if not fresh and ended.code:
            _require_safe(before, tree(disk.path))
        disk.make_room()
        _go_on(room, disk, run, ended)
        other = [name for name, part in expected.items() if parts_of(run).get(name) != part]
        if other:
            raise Broken(f"another result: {', '.join(other)[:200]}")
    except Broken as broken:
        raise Broken(f"{done}: {broken}") from None
    return f"{done}; exit code {ended.code}; then the same result"


def _resume(run: Path) -> list[str]:
    return ["resume", str(run), "--device", "cpu"]


def _require_safe(before: dict[str, str], after: dict[str, str]) -> None:
    if lost := [name for name in before if name not in after]:
        raise Broken(f"lost: {', '.join(lost)[:200]}")
    if left := [name for name in after if name.endswith(names.ENDINGS)]:
        raise Broken(f"left behind: {', '.join(left)[:200]}")


def _go_on(room: Room, disk: Disk, run: Path, ended: Ended) -> None:
    """As the line said: resume, or delete and begin anew."""
    if run.exists() and steps_of(run) < 0:
        if "delete" not in ended.err:
            raise Broken(f"no checkpoint, and nothing said of what to do: {ended.err[-200:]!a}")
        shutil.rmtree(run)
    again = sfl(_resume(run) if run.exists() else HALF_GRID, room, LONG, cwd=disk.path)
    if again.code:
        raise Broken(f"not with room either: {again.err[-300:]!a}")


# ---- the studio


def _fields(seed: int, room: Room) -> str:
    """The studio computes a field and cannot keep it: it shows it, or says why not, and leaves no draft."""
    dice = chance("disk-studio", seed)
    disk = Disk(room.here / "disk")
    shutil.copytree(room.base / "grid", disk.path / "run")
    before = tree(disk.path)
    done = _strike(disk, dice, Job((), 60_000, 3))
    server = begin(["studio", "run", "--port", "0", "--no-open"], room, LONG, cwd=disk.path)
    try:
        port = _port(server.said)
        answers = [_ask(port, "POST", "/api/runs/r0/fields", {"checkpoint": "last"})]
        deadline = time.monotonic() + 60
        while '"making"' in answers[-1] and time.monotonic() < deadline:
            time.sleep(0.2)
            answers.append(_ask(port, "GET", "/api/runs/r0/fields?checkpoint=last", None))
    finally:
        server.interrupt()
        ended = server.end()
    try:
        if "Traceback" in ended.err:
            raise Broken(f"on the console: {ended.err[-300:]!a}")
        _require_whole(disk.path, before, Job((), 0, 0), ended)
    except Broken as broken:
        raise Broken(f"{done}: {broken}") from None
    return f"{done}; {answers[-1][:200]}"


def _port(said: Callable[[], str]) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "http://127.0.0.1:" in said():
            return int(said().rpartition("http://127.0.0.1:")[2].partition("/")[0])
        time.sleep(0.02)
    raise Broken("the server did not start within 60 s")


def _ask(port: int, method: str, path: str, body: object) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    with suppress(ConnectionError):
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        return connection.getresponse().read().decode(errors="replace")
    return "fail: no answer"


FAMILIES: tuple[Family, ...] = (
    Family(
        "disk",
        "A disk that is full, out of names or read-only: one line; what was there is whole, and nothing half-written.",
        _command,
        weight=4,
        needs=("grid", "files"),
    ),
    Family(
        "file-size", "The same where no file may be larger than so much.", _limited, weight=2, needs=("grid", "files")
    ),
    Family(
        "disk-training",
        "Training on a disk that fills up: one line, and with room again the same result.",
        _training,
        weight=2,
        limit=300,
    ),
    Family("disk-studio", "The studio on a disk that fills up.", _fields, weight=0.5, needs=("grid",)),
)
