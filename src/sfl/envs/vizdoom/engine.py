"""Engines seen from outside: their processes, what they leave in shared memory, and what they said last."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from sfl.core.config import require
from sfl.core.errors import SflError

SHARED_MEMORY = Path("/dev/shm")
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
            (SHARED_MEMORY / f"{name}{self.instance}").unlink(missing_ok=True)


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
    if not SHARED_MEMORY.is_dir():
        return
    status = os.statvfs(SHARED_MEMORY)
    free, needed = status.f_bavail * status.f_frsize, games * GAME_BYTES
    if free < needed:
        raise SflError(
            f"Too little shared memory: games need 256 KiB each, {needed >> 10} KiB in all, and {SHARED_MEMORY} has "
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
