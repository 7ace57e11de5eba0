"""The three standard streams: there at the start, and no reason to stop when nobody reads them any more."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TextIO

NAMES = ("stdin", "stdout", "stderr")


def open_closed() -> None:
    """Put the null device where a standard stream was closed by whoever started this program.

    Its number would go to the next file that is opened, which may be the memory of games or a checkpoint.
    """
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            nobody = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115  # kept for good
            setattr(sys, name, nobody)


def spell_out_what_has_no_letter() -> None:
    """Print what the terminal's encoding lacks, in a path for instance, as an escape instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def let_go() -> None:
    """Send to the null device what a broken stream still holds: Python's last flush would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Onlookers(io.TextIOBase):
    """A stream, as far as there is one: what is shown there is decoration, and whatever becomes of it ends nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Show a text, or do not."""
        with contextlib.suppress(OSError, ValueError):  # the latter of a stream that was closed
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Show it now."""
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:
            return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the stream behind it."""
        return getattr(self._stream, "encoding", None) or "utf-8"


def say(line: str) -> None:
    """One line to whoever looks on."""
    print(line, file=Onlookers(sys.stderr), flush=True)
