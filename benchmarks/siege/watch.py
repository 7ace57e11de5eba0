"""What a case must not leave behind: processes, shared memory, files outside of its room."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from benchmarks.siege import names
from benchmarks.siege.case import Broken, Room

PATIENCE = 5.0
"""Seconds that what a case started has for its end."""
_SUBREAPER = 36
_NEW_MOUNTS, _PRIVATE, _ALL_BELOW = 0x20000, 1 << 18, 1 << 14


def adopt_orphans() -> None:
    """Processes whose parents end become this one's children, so that none is lost sight of."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def take_own_shared_memory() -> bool:
    """Give this process and all that it starts a shared memory of their own, where the system permits it.

    What is left there is then this case's, whatever else runs on the machine.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not Path(names.SHARED_MEMORY).is_dir() or libc.unshare(_NEW_MOUNTS):
        return False
    if libc.mount(b"none", b"/", None, _PRIVATE | _ALL_BELOW, None):
        return False
    return libc.mount(b"tmpfs", names.SHARED_MEMORY.encode(), b"tmpfs", 0, b"size=2g") == 0


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()]
    except OSError:
        return []


def descendants(process: int) -> list[int]:
    """With those that they have started."""
    found = children(process)
    return found + [other for child in found for other in descendants(child)]


def end_all(process: int) -> None:
    """End everything that a process has started."""
    for other in descendants(process):
        try:
            os.kill(other, signal.SIGKILL)
        except ProcessLookupError:
            continue
    _reap()


def require_nothing_left(room: Room, own_memory: bool) -> None:
    """At the end of a case, in its own process."""
    until = time.monotonic() + PATIENCE
    while left := descendants(os.getpid()):
        if time.monotonic() > until:
            told = ", ".join(_told(process) for process in left)
            end_all(os.getpid())
            raise Broken(f"left processes behind: {told}")
        _reap()
        time.sleep(0.02)
    for folder, what in ((room.tmp, "the folder for temporary files"), (room.home, "the home folder")):
        if found := sorted(path.name for path in folder.iterdir()):
            raise Broken(f"left behind in {what}: {', '.join(found[:5])}")
    if own_memory and (kept := sorted(shared_memory())):
        raise Broken(f"left behind in shared memory: {', '.join(kept[:5])}")


def shared_memory() -> set[str]:
    """The names of the files in shared memory."""
    try:
        return set(os.listdir(names.SHARED_MEMORY))
    except FileNotFoundError:
        return set()


def used_shared_memory() -> str:
    """The memory maps of every process that can be read, as one text."""
    texts = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            texts.append(maps.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return "\n".join(texts)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _told(process: int) -> str:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return f"{process}"
    return f"{process} ({state}) {words[:80]!r}"
