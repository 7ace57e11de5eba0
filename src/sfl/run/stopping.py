"""Ctrl-C and SIGTERM: the first asks to stop, the second stops. A lost terminal only asks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from sfl.errors import SflError
from sfl.run.log import open_closed, say


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


# ---- Ctrl-C, and being told to end, in the process of a command: one line and exit code 130 at any moment of it.

_IMPORTING = "<frozen importlib._bootstrap>"


def is_command() -> bool:
    """This process is `sfl` or `python -m sfl`, and not a program that imports the package."""
    words = sys.orig_argv[1:]
    first = next((number for number, word in enumerate(words) if word == "-m" or not word.startswith("-")), None)
    if first is None:
        return False
    return words[first + 1 : first + 2] == ["sfl"] if words[first] == "-m" else Path(words[first]).name == "sfl"


class _Interrupt:
    """Python's own answer to Ctrl-C, but for the times at which it would be a page of tracebacks.

    Modules take the exception badly while they are imported, torch for seconds, and Python itself while it ends.
    SIGTERM and a lost terminal have the same answer: without it they end a command on the spot, with nothing put in
    order, where a run is not training (which has its own answer, `StopRequest`).
    """

    def __init__(self) -> None:
        self.over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_at_work(frame) and not _is_importing(frame):
            raise KeyboardInterrupt
        if not self.over:  # else the exit code is known, and perhaps being told: a second Ctrl-C comes too late
            say("sfl: stopped.")
            os._exit(130)


_interrupt = _Interrupt()
_ANSWERED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def begin() -> None:
    """Call before anything large is imported."""
    open_closed()
    for number in _ANSWERED:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):  # not ignored, by `&` or `nohup`
            signal.signal(number, _interrupt)


def work(command: Callable[[], int]) -> int:
    """Run the command. Only in here Ctrl-C is an exception, for whoever called this to catch."""
    _interrupt.over = False
    try:
        return command()
    finally:
        _interrupt.over = True


def _is_at_work(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is work.__code__:
            return True
        frame = frame.f_back
    return False


def end() -> None:
    """All is done, and the exit code is known."""
    _interrupt.over = True
    for number in _ANSWERED:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_IGN)
