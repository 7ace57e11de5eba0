"""What a program says, and where: the standard streams, CSV files, TensorBoard.

In this order: the three standard streams, which may be missing or break; a line for the user (`note`) and the progress
of a run, on stderr; results on stdout; CSV files that grow row by row; TensorBoard and Weights & Biases.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import math
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

from sfl.errors import SflError
from sfl.files import MEGABYTE, flush, read_bytes, write_bytes, write_text

NAMES = ("stdin", "stdout", "stderr")


def open_missing_streams() -> None:
    """Put the null device in the place of a standard stream that was closed when this program started.

    Its number would go to the next file that is opened, which may be the memory of games or a checkpoint.
    """
    for number, name in enumerate(NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            null = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115  # kept for good
            setattr(sys, name, null)


def escape_unprintable() -> None:
    """Print what the terminal's encoding lacks, in a path for instance, as an escape instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def drop_broken_output() -> None:
    """Send to the null device what a broken stream still holds: Python's last flush would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class UnfailingStream(io.TextIOBase):
    """A stream for what is shown beside results; that it is missing, closed or full is no error."""

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
        """The encoding of the stream behind it."""
        return getattr(self._stream, "encoding", None) or "utf-8"


def note(line: str) -> None:
    """One line for the user, beside the results; where stderr is gone or full, it goes nowhere."""
    print(line, file=UnfailingStream(sys.stderr), flush=True)


SUCCESS = "eval/success_"
PLAIN_EVERY = 10.0  # seconds between two plain lines


class Progress:
    """Steps done, steps per second, last success and time left: a bar on a terminal, plain lines otherwise."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self._title, self._total, self._first, self._done = title, total, done, done
        self._started = self._printed = time.monotonic()
        self._success = ""
        self._bar: Any = None
        stream = UnfailingStream(sys.stderr)
        if stream.isatty():
            self._bar, self._task = _bar(stream, title, total, done)

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


def _bar(stream: UnfailingStream, title: str, total: int, done: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    bar = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}/s{task.fields[success]}"),
        TimeRemainingColumn(),
        console=Console(file=cast(Any, stream)),
    )
    bar.start()
    return bar, bar.add_task(title, total=max(total, 1), completed=done, rate="-", success="")


def print_table(cells: Sequence[Sequence[str]], prose: bool = False) -> None:
    """Show rows of text, headings first; numbers are set to the right, `prose` to the left."""
    import rich.console
    from rich import box
    from rich.table import Table

    class Console(rich.console.Console):
        def on_broken_pipe(self) -> None:
            """As for every other output; rich would end the program as if it had failed."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    # Into a pipe nothing may be cut off, however narrow rich believes the terminal to be.
    width = 1 + sum(3 + max(map(len, column)) for column in zip(*cells, strict=True))
    console = Console() if sys.stdout.isatty() else Console(width=width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, pad_edge=False)
    for number, heading in enumerate(cells[0]):
        table.add_column(heading, justify="left" if number == 0 or prose else "right", no_wrap=number == 0)
    for row in cells[1:]:
        table.add_row(*row)
    console.print(table)


def print_json(value: Any) -> None:
    """Show a value for other programs to read."""
    print(json.dumps(value, indent=2))


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show mappings with the same keys as a table."""
    print_table([list(rows[0]), *([str(value) for value in row.values()] for row in rows)])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write mappings with the same keys to a CSV file, in place of what it held; its folder is made."""
    write_text(path, csv_text(rows))


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mappings with the same keys as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def reader_has_left() -> bool:
    """Whether stdout has lost its reader; if so, what is still written goes nowhere instead of failing at the end."""
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    if not any(event & select.POLLERR for _, event in output.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


MOST_ROWS = 1024 * MEGABYTE
"""Bytes of a table of training that are read: millions of rows."""

LONGEST_STEPS = 18
"""Digits of a step count."""


class CsvTable:
    """A CSV file with fixed columns to which rows are appended; each row is on disk before the next is made."""

    def __init__(self, path: Path, names: Iterable[str]) -> None:
        self.path, self._names = path, list(names)
        if not path.exists():
            self._append([self._names])

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row; missing values stay empty, a name without a column raises."""
        self.write_all([row])

    def write_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append several rows at once."""
        rows = list(rows)
        for row in rows:
            if foreign := sorted(set(row) - set(self._names)):
                raise KeyError(f"{self.path.name} has no column for {foreign}; its columns are fixed: {self._names}")
        self._append([[_cell(row.get(name)) for name in self._names] for row in rows])

    def cut_after(self, env_steps: int, noted: Mapping[str, Any] | None = None) -> None:
        """Drop the rows of steps that a resumed run makes again, and whatever a crash has left behind them.

        With what a checkpoint `noted`, which `damage` has found whole, exactly those rows stay.
        """
        body = read_bytes(self.path, MOST_ROWS)
        if noted is not None and noted["rows"]:
            write_bytes(self.path, body[: noted["bytes"]])
            return
        kept = [row for row in _rows(body.decode("utf-8", "replace")) if int(row["env_steps"]) <= env_steps]
        text = io.StringIO()
        writer = csv.DictWriter(text, self._names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
        write_text(self.path, text.getvalue())

    def kept(self) -> dict[str, Any]:
        """What a checkpoint notes of the rows so far, once they are on the disk: `damage` compares it."""
        flush(self.path)
        flush(self.path.parent)
        body = self.path.read_bytes()
        return {"rows": body.count(b"\n") - 1, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}

    def _append(self, lines: list[list[Any]]) -> None:
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)


def damage(path: Path, noted: Mapping[str, Any]) -> str:
    """Why a table does not begin with the rows that were noted by `CsvTable.kept`; empty where it does.

    More rows may follow: a run that is killed has written some since its last checkpoint.
    """
    if path.exists() and not path.is_file():
        return f"{path} is no file"
    if not noted["rows"]:
        return ""
    if not path.is_file():
        return f"{path} is missing, which had {noted['rows']} rows"
    with path.open("rb") as file:
        body = file.read(noted["bytes"])
    if hashlib.sha256(body).hexdigest() == noted["sha256"]:
        return ""
    steps = read_columns(path).get("env_steps", [])
    if len(steps) >= noted["rows"]:
        return f"{path} was changed: its first {noted['rows']} rows are not those that the run wrote"
    until = f", up to step {steps[-1]:,.0f}" if steps else ""
    return f"{path} has only {len(steps)} of {noted['rows']} rows{until}; the others are missing"


def _rows(text: str) -> list[dict[str, str]]:
    """The whole rows of a table; what a crash may leave at its end, such as zeros by the thousand, is none."""
    found = []
    with contextlib.suppress(csv.Error):
        for row in csv.DictReader(io.StringIO(text, newline="")):
            if _is_whole(row):
                found.append(row)  # those before an error stay
    return found


def _is_whole(row: Mapping[str | None, Any]) -> bool:
    steps = str(row.get("env_steps"))
    return None not in row and None not in row.values() and steps.isdecimal() and len(steps) <= LONGEST_STEPS


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value


def read_columns(path: Path) -> dict[str, list[float]]:
    """The columns of train.csv or eval.csv by name; NaN where a cell is empty. A line that is being written is left,
    and of a file that is no table there is nothing."""
    rows = _rows(read_bytes(path, MOST_ROWS).decode("utf-8", "replace").rpartition("\n")[0])
    return {name: [_number(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def _number(cell: str) -> float:
    """NaN also where a damaged file has no number."""
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


FLUSH_EVERY = 30.0  # seconds; a row that a crash takes from TensorBoard is still in its CSV file


class Board(Protocol):
    """Where numbers are shown."""

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        """Show the metrics of one row."""

    def close(self) -> None:
        """Keep what is not yet kept."""


class Boards:
    """TensorBoard always, Weights & Biases when asked for: the same numbers as in the CSV files, for the eye.

    Neither ends a run: a board that cannot be written is left out from then on.
    """

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
    """An error of the package behind a board."""


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
