"""Whether two runs are the same run: every row without its times, every file of the last checkpoint, the history."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.siege import names
from benchmarks.siege.case import Broken

_OF_THE_CLOCK = ("time/", "memory/")
"""How columns begin that no two runs share."""
_SECONDS = ("seconds", "window_seconds")
"""Entries of a checkpoint that no two runs share."""

Parts = dict[str, str]
"""What a run is made of: a name and a digest."""


def parts_of(run: Path) -> Parts:
    """All that must be equal in a run that was never stopped and one that was."""
    found = {name: _rows(run / name) for name in (names.TRAIN_ROWS, names.EVAL_ROWS, names.EPISODES)}
    if (run / names.TASKS).exists():
        found[names.TASKS] = _digest((run / names.TASKS).read_bytes())
    for folder in sorted((run / names.CHECKPOINTS).iterdir()):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name != names.FORMAT:
                found[f"{folder.name}/{path.name}"] = _file(path) if path.is_file() else "no file"
    return found


def require_same(run: Path, expected: Parts) -> None:
    """Promise: a run that was stopped and resumed ends as one that never was."""
    require_whole(run, finished=True)
    found = parts_of(run)
    other = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    if other:
        raise Broken(
            f"another result: {'; '.join(f'{one} {found.get(one)} not {expected.get(one)}' for one in other)[:400]}"
        )


def require_whole(run: Path, finished: bool = False) -> None:
    """Promise: whatever bears the name of a checkpoint is one; a finished run has no drafts."""
    for folder in (run / names.CHECKPOINTS).glob("*"):
        if folder.suffix == names.DRAFT_ENDING:
            continue
        for name, digest in _files_said(folder):
            path = folder / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise Broken(f"{folder.name}/{name} is not what its checkpoint says it is")
    drafts = [str(path.relative_to(run)) for ending in names.ENDINGS for path in run.rglob(f"*{ending}")]
    if finished and drafts:
        raise Broken(f"a finished run has {', '.join(drafts)}")


def steps_of(run: Path) -> int:
    """At which step a run would go on; -1 before its first checkpoint."""
    for name in (names.LAST, names.LAST_OLD):
        path = run / names.CHECKPOINTS / name / names.FORMAT
        if path.exists():
            return int(json.loads(path.read_text())["env_steps"])
    return -1


def _files_said(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        header = json.loads((folder / names.FORMAT).read_text())
    except (OSError, ValueError) as error:
        raise Broken(f"{folder.name} has no readable {names.FORMAT}: {error}") from error
    for name, said in header["files"].items():
        yield name, said["sha256"]


def _rows(path: Path) -> str:
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError:
        return "missing"
    kept = [{name: cell for name, cell in row.items() if not str(name).startswith(_OF_THE_CLOCK)} for row in rows]
    return f"{len(rows)} rows {_digest(json.dumps(kept).encode())}"


def _file(path: Path) -> str:
    if path.name != names.GENERATORS:
        return _digest(path.read_bytes())
    try:
        body: dict[str, Any] = json.loads(path.read_text())
    except ValueError:
        return _digest(path.read_bytes())
    run = {name: value for name, value in body.get("run", {}).items() if name not in _SECONDS}
    return _digest(json.dumps({**body, "run": run}, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
