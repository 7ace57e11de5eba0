"""How a run shows that it is alive: a bar on a terminal, plain lines otherwise, always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, cast

from sfl.run.streams import Onlookers, say

SUCCESS = "eval/success_"
PLAIN_EVERY = 10.0  # seconds between two plain lines


def note(line: str) -> None:
    """One line for the user, beside the results; where stderr is gone or full, nobody's."""
    say(line)


class Progress:
    """Steps done, steps per second, last success and time left."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self._title, self._total, self._first, self._done = title, total, done, done
        self._started = self._printed = time.monotonic()
        self._success = ""
        self._bar: Any = None
        onlookers = Onlookers(sys.stderr)
        if onlookers.isatty():
            self._bar, self._task = _bar(onlookers, title, total, done)

    def advance(self, done: int) -> None:
        """Show the steps done; cheap enough to call after every step."""
        self._done = done
        now = time.monotonic()
        if now - self._printed < (0.2 if self._bar else PLAIN_EVERY):
            return
        self._printed = now
        rate = (done - self._first) / max(now - self._started, 1e-9)
        if self._bar:
            self._bar.update(self._task, completed=done, rate=f"{rate:,.0f}", success=self._success)
        else:
            left = (self._total - done) / rate if rate > 0 else 0.0
            note(f"{self._title}: {done:,}/{self._total:,} steps, {rate:,.0f}/s, {left:,.0f} s left{self._success}")

    def evaluated(self, metrics: Mapping[str, float], random: Mapping[str, float]) -> None:
        """Show the success of the newest evaluation, and beside it that of the random policy where it is known."""
        shares = {name: value for name, value in metrics.items() if name.startswith(SUCCESS)}
        beside = {name: f" (random {100 * share:.0f}%)" for name, share in random.items()}
        parts = [f", {n.removeprefix(SUCCESS)} {100 * share:.0f}%{beside.get(n, '')}" for n, share in shares.items()]
        self._success = "".join(parts)
        if not self._bar:
            note(f"{self._title}: evaluated at {self._done:,} steps{self._success}")

    def close(self) -> None:
        """Leave the terminal tidy."""
        if self._bar:
            self._bar.update(self._task, completed=self._done, success=self._success)
            self._bar.stop()


def _bar(onlookers: Onlookers, title: str, total: int, done: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    bar = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}/s{task.fields[success]}"),
        TimeRemainingColumn(),
        console=Console(file=cast(Any, onlookers)),
    )
    bar.start()
    return bar, bar.add_task(title, total=max(total, 1), completed=done, rate="-", success="")
