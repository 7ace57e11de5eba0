"""The same numbers for the eye: TensorBoard, and Weights & Biases where it is asked for.

Neither ends a run: the numbers are in its CSV files, and a board that cannot be written is left out from then on.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sfl.core.errors import SflError
from sfl.run.progress import note

FLUSH_EVERY = 30.0  # seconds; a row that a crash takes from TensorBoard is still in its CSV file


class Board(Protocol):
    """Where numbers are shown."""

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        """Show the metrics of one row."""

    def close(self) -> None:
        """Keep what is not yet kept."""


class Boards:
    """TensorBoard always, Weights & Biases when asked for."""

    def __init__(self, folder: Path, config: dict[str, Any], name: str, wandb: bool, env_steps: int) -> None:
        self._boards: dict[str, Board] = {}
        self._add("TensorBoard", lambda: _TensorBoard(folder, env_steps))
        if wandb:
            _require_wandb()
            self._add("Weights & Biases", lambda: _Wandb(config, name))

    def _add(self, name: str, make: Callable[[], Board]) -> None:
        try:
            self._boards[name] = make()
        except (OSError, BoardError) as error:
            _give_up(name, error)

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        """Show the metrics of one row."""
        self._tell(lambda board: board.write(metrics, env_steps))

    def close(self) -> None:
        """Keep what is not yet kept."""
        self._tell(lambda board: board.close())
        self._boards = {}

    def _tell(self, say: Callable[[Board], None]) -> None:
        for name, board in list(self._boards.items()):
            try:
                say(board)
            except (OSError, BoardError) as error:
                del self._boards[name]
                _give_up(name, error)


class BoardError(Exception):
    """What the package behind a board raised."""


def _give_up(name: str, error: Exception) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    note(f"{name} is left out from here on ({reason}); the run goes on, and its CSV files have the same numbers.")


class _TensorBoard:
    """An event file, written in this thread.

    tensorboardX's own SummaryWriter writes in another one: when that dies, of a full disk for instance, or waits for a
    time that the clock was set back from, its queue fills and every further row waits for ever.
    """

    def __init__(self, folder: Path, env_steps: int) -> None:
        from tensorboardX import RecordWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        self._file = RecordWriter(str(folder / f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"))
        self._put(Event(file_version="brain.Event:2"))
        if env_steps:  # rows of steps that the run makes again
            self._put(Event(step=env_steps, session_log=SessionLog(status=SessionLog.START)))
        self._flush()

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._put(Event(step=env_steps, summary=Summary(value=values)))
        if time.monotonic() - self._flushed >= FLUSH_EVERY:
            self._flush()

    def close(self) -> None:
        self._file.close()

    def _put(self, event: Any) -> None:
        event.wall_time = time.time()
        with self._closed_on_failure():
            self._file.write(event.SerializeToString())

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        with self._closed_on_failure():
            self._file.flush()

    @contextlib.contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            with contextlib.suppress(OSError):  # else Python tries to write it again when it throws the file away
                self._file.close()
            raise


def _require_wandb() -> None:
    try:
        import wandb  # noqa: F401
    except ImportError as error:
        raise SflError("--wandb needs the package wandb; install it with `pip install wandb`.") from error


class _Wandb:
    """A run of Weights & Biases. Its package raises whatever it likes where its server or its own process is gone."""

    def __init__(self, config: dict[str, Any], name: str) -> None:
        import wandb

        self._run = _asked(wandb.init, project="sfl", name=name, config=config)

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        _asked(self._run.log, dict(metrics), step=env_steps)

    def close(self) -> None:
        _asked(self._run.finish)


def _asked(call: Callable[..., Any], *words: Any, **named: Any) -> Any:
    try:
        return call(*words, **named)
    except (TypeError, AttributeError):  # asked wrongly, by us
        raise
    except Exception as error:
        raise BoardError(str(error) or type(error).__name__) from error
