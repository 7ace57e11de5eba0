"""Ctrl-C and SIGTERM: the first asks to stop, the second stops. A lost terminal only asks."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from sfl.core.errors import SflError


class RunStoppedError(SflError):
    """The user stopped the run; it can be continued."""

    exit_code = 130


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

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number != signal.SIGHUP:  # of which a shell and the kernel both send one
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
