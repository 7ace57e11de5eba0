"""Ctrl-C, SIGTERM and a lost terminal.

First in a loop such as training's (`StopRequest`): the first signal asks to stop, a second one stops, a lost terminal
only asks. Then in the process of a command (`at_work`): one line and exit code 130 at any moment of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from sfl.errors import SflError
from sfl.run.log import note, open_missing_streams


class RunStoppedError(SflError):
    """The user stopped the run; it can be continued."""

    exit_code = 130


class StopNow(Exception):  # noqa: N818  # no error: how a request to stop leaves a loop
    """The user asked to stop."""


class StopRequest:
    """While entered, the first signal only sets `asked`; a second one interrupts at once, as Python always does."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` sets it: to go on is what was asked
                numbers.append(signal.SIGHUP)
            for number in numbers:
                self._previous[number] = signal.signal(number, self._ask)
        return self

    def check(self) -> None:
        """Raise `StopNow` once it was asked to stop; a loop calls this where it can be left."""
        if self.asked:
            raise StopNow

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number != signal.SIGHUP:  # of which a shell and the kernel both send one
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)


_IMPORTING = "<frozen importlib._bootstrap>"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CommandSignals:
    """Python's own answer to Ctrl-C, but for the times at which it would be a page of tracebacks.

    Modules take the exception badly while they are imported, torch for seconds, and Python itself while it ends. So it
    is raised only while this object is entered. SIGTERM and a lost terminal have the same answer: without it they end a
    command on the spot, with nothing put in order, where a run is not training.
    """

    def __init__(self) -> None:
        self._at_work = self._over = False

    def __enter__(self) -> None:
        self._at_work, self._over = True, False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._at_work, self._over = False, True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._at_work and not _is_importing(frame):
            raise KeyboardInterrupt
        if not self._over:  # else the exit code is known, and perhaps being told: a second Ctrl-C comes too late
            note("sfl: stopped.")
            os._exit(130)

    def begin(self) -> None:
        """Answer from here on. Call it before anything large is imported."""
        open_missing_streams()
        for number in _SIGNALS:
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):  # not ignored, as by `nohup`
                signal.signal(number, self)

    def end(self) -> None:
        """All is done, and the exit code is known."""
        self._over = True
        for number in _SIGNALS:
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_IGN)


at_work = CommandSignals()
"""Enter it for the work of a command, where an exception at Ctrl-C is caught and said in one line."""


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def is_command() -> bool:
    """This process is `sfl` or `python -m sfl`, and not a program that imports the package."""
    words = sys.orig_argv[1:]
    first = next((number for number, word in enumerate(words) if word == "-m" or not word.startswith("-")), None)
    if first is None:
        return False
    return words[first + 1 : first + 2] == ["sfl"] if words[first] == "-m" else Path(words[first]).name == "sfl"
