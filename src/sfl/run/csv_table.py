"""CSV files that grow row by row: train.csv, eval.csv and episodes.csv."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sfl.core.files import MEGABYTE, flush, read_bytes, write_bytes, write_text

MOST_ROWS = 1024 * MEGABYTE
"""Of a table of training: millions of rows."""

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
