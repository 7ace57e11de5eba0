"""The folder in which games keep their files, and what is done about one whose owner was killed.

Its owner and the owner's workers hold a lock on a file in it, which ends with the last of them whatever ends that: a
folder whose lock can be had belongs to nobody, in whatever container it was made. The instances of the engines are
noted in it, so that their shared memory can be removed with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sfl.envs.vizdoom.engine import LEFT_BEHIND, SHARED_MEMORY, read_engine

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


def remove(folder: Path) -> None:
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


def sweep() -> None:
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
            remove(folder)
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
        for path in SHARED_MEMORY.iterdir():
            if path.name.startswith(LEFT_BEHIND) and path.lstat().st_uid == os.getuid() and str(path) not in mapped:
                yield path


def _mapped() -> set[str]:
    """Files in shared memory that processes have mapped, as far as this one may know."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            lines = maps.read_text(errors="replace").splitlines()
            found |= {line.split(maxsplit=5)[5] for line in lines if str(SHARED_MEMORY) in line}
    return found
