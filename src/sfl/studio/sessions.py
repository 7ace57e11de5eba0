"""Episodes under way: a thread each, at the pace that is asked for, whose events wait for whoever reads them."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sfl.config import require
from sfl.errors import SflError
from sfl.studio.answers import NotHereError, NotReadyError, confess, encode
from sfl.studio.players import Event, Player, rounds

MOST_SESSIONS = 4
IDLE = 60.0
"""Seconds without a reader after which an episode is given up, and one that is over forgotten."""

SPEEDS = (1.0, 60.0)
"""Decisions a second, at least and at most."""

SPEED = 8.0
"""Until the page says otherwise."""

ORDERS = ("play", "pause", "step", "stop")


class Session:
    """One task, its players, and the thread that moves them on. Its methods may be called from any thread."""

    def __init__(self, players: Sequence[Player], idle: float = IDLE, playing: bool = True) -> None:
        self.id = secrets.token_urlsafe(9)
        self._players, self._idle = players, idle
        self._changed = threading.Condition()
        self._events: list[bytes] = []
        self._bells: list[Callable[[], None]] = []
        self._playing, self._owed, self._speed, self._stopped = playing, 0, SPEED, False
        self._due = self._unread_since = time.monotonic()
        self._over = False
        self._thread = threading.Thread(target=self._run, name=f"episode {self.id}", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Nothing more will happen, and every world is closed."""
        return self._over

    @property
    def forgotten(self) -> bool:
        """It is over, and nobody has read it for long."""
        with self._changed:
            return self._over and self._unread()

    def order(self, word: str, speed: float | None = None) -> None:
        """`play`, `pause`, `step` (one decision, and a pause) or `stop`; `speed` in decisions a second."""
        require(word in ORDERS, f"do must be one of {', '.join(ORDERS)}, got {word!r:.40}.")
        least, most = SPEEDS
        fits = speed is None or least <= speed <= most
        require(fits, f"speed must lie between {least:g} and {most:g} steps a second, got {speed!r:.40}.")
        with self._changed:
            self._speed = self._speed if speed is None else speed
            self._playing = word == "play"
            self._owed += word == "step"
            self._stopped = self._stopped or word == "stop"
            self._due = time.monotonic()
            self._changed.notify_all()

    def events_from(self, first: int) -> list[tuple[int, bytes]]:
        """Numbers and texts of the events from this number on."""
        with self._changed:
            return list(enumerate(self._events[first:], first))

    @contextmanager
    def reading(self, bell: Callable[[], None]) -> Iterator[None]:
        """Somebody reads: `bell` is rung, from the episode's own thread, when there is more."""
        with self._changed:
            self._bells.append(bell)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._bells.remove(bell)
                self._unread_since = time.monotonic()
                self._changed.notify_all()

    def close(self) -> None:
        """End it, and wait until its worlds are closed."""
        self.order("stop")
        self._thread.join()

    # ---- its thread

    def _run(self) -> None:
        try:
            turns = rounds(self._players)
            while self._may_go_on() and (events := next(turns, None)) is not None:
                self._tell(events)
            self._tell([event for player in self._players for event in player.stop()])
        except SflError as error:
            self._tell([{"type": "error", "text": " ".join(str(error).split())}])
        except Exception:
            confess("an episode broke off by an error of the program:")
            self._tell(
                [{"type": "error", "text": "The episode broke off by an error; the server's console says more."}]
            )
        finally:
            self._close_players()

    def _close_players(self) -> None:
        for player in self._players:
            try:
                player.close()
            except Exception:  # the others are to be closed all the same
                confess("a world did not close:")
        self._players = ()  # events are kept for a while, agents and worlds are not
        self._over = True
        self._tell([])

    def _may_go_on(self) -> bool:
        """Wait until it is time for the next decision; False: there is none, as it was stopped or given up."""
        with self._changed:
            while not self._stopped and not self._unread():
                now = time.monotonic()
                if self._owed:
                    self._owed -= 1
                    return True
                if self._playing and now >= self._due:
                    self._due = max(now, self._due + 1.0 / self._speed)
                    return True
                waits = [self._due - now] if self._playing else []
                waits += [] if self._bells else [self._unread_since + self._idle - now]
                self._changed.wait(max(0.0, min(waits)) if waits else None)
            return False

    def _unread(self) -> bool:
        return not self._bells and time.monotonic() >= self._unread_since + self._idle

    def _tell(self, events: Sequence[Event]) -> None:
        texts = [encode(event) for event in events]
        with self._changed:
            self._events += texts
            bells = list(self._bells)
        for bell in bells:
            bell()


class Stage:
    """All episodes of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._beginning = 0
        self._closed = threading.Event()

    def begin(self, gather: Callable[[], Sequence[Player]]) -> Session:
        """A new episode; its players are made only if there is room for it."""
        with self._lock:
            self._sweep()
            running = self._beginning + sum(not session.over for session in self._sessions.values())
            if self._closed.is_set() or running >= MOST_SESSIONS:
                raise NotReadyError(f"{MOST_SESSIONS} episodes are under way already; stop one of them first.")
            self._beginning += 1
        try:
            players = gather()
            with self._lock:
                session = Session(players)
                self._sessions[session.id] = session
                late = self._closed.is_set()
        finally:
            with self._lock:
                self._beginning -= 1
        if late:  # the server ended while the worlds were being made
            session.close()
        return session

    def find(self, name: str) -> Session:
        """The episode of this id."""
        with self._lock:
            self._sweep()
            if name not in self._sessions:
                raise NotHereError("There is no such episode any more.")
            return self._sessions[name]

    def close(self) -> None:
        """End all of them; no world is left open."""
        with self._lock:
            self._closed.set()
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.order("stop")
        for session in sessions:
            session.close()

    def _sweep(self) -> None:
        self._sessions = {name: session for name, session in self._sessions.items() if not session.forgotten}
