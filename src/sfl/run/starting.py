"""The first and the last moments of the process of a command, in which Ctrl-C finds nothing to put in order."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from sfl.run.streams import open_closed, say

_IMPORTING = "<frozen importlib._bootstrap>"


def is_command() -> bool:
    """This process is `sfl` or `python -m sfl`, and not a program that imports the package."""
    words = sys.orig_argv[1:]
    first = next((number for number, word in enumerate(words) if word == "-m" or not word.startswith("-")), None)
    if first is None:
        return False
    return words[first + 1 : first + 2] == ["sfl"] if words[first] == "-m" else Path(words[first]).name == "sfl"


class _CtrlC:
    """Python's own answer to Ctrl-C, but for the times at which it would be a page of tracebacks.

    Modules take the exception badly while they are imported, torch for seconds, and Python itself while it ends.
    """

    def __init__(self) -> None:
        self.at_work = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.at_work or _is_importing(frame):
            say("sfl: stopped.")
            os._exit(130)
        raise KeyboardInterrupt


_ctrl_c = _CtrlC()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def begin() -> None:
    """Call before anything large is imported."""
    open_closed()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a script's `&` has it ignored
        signal.signal(signal.SIGINT, _ctrl_c)


def work() -> None:
    """The command has begun."""
    _ctrl_c.at_work = True


def end() -> None:
    """All is done, and the exit code is known."""
    _ctrl_c.at_work = False
    if signal.getsignal(signal.SIGINT) is _ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
