"""Fields: how near every place is, to the agent, to the place that was clicked.

The score of every pair of views is worked out once for a checkpoint, which takes a while and shows its progress; a
click is then one column of that table. The table is kept in a folder `studio` of the run. In a maze one can stand
between its views: there the view from the very pose is rendered and compared with all of the table's, if one asks.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfl.api import Array, FieldPolicy
from sfl.errors import FileError, SflError
from sfl.files import MEGABYTE, read_arrays
from sfl.registry import field_score
from sfl.run.folder import LoadedRun
from sfl.run.log import note
from sfl.show.views import HEADINGS, frozen
from sfl.studio.answers import Document, NotReadyError, confess, numbers
from sfl.studio.places import Atlas, Recent, Views
from sfl.studio.runs import Run

EMBEDDED, COMPARED = 8, 32
"""Views that are embedded, and references that are compared with, at a time: progress is shown in between."""

WAITING = 8
"""Tables that may wait to be made."""

MOST_KEPT = 1024 * MEGABYTE
"""Of a table: 20,000 views."""

LOOKING = 3
"""Frozen agents that are kept to look at views from exact poses."""

Loader = Callable[[Run, str], tuple[LoadedRun, str]]
"""The agent of a checkpoint, and the checkpoint's fingerprint."""

Key = tuple[str, str, str]
"""Run, checkpoint, fingerprint."""


@dataclass(frozen=True, eq=False)
class Table:
    """The score of every view with every other."""

    poses: Array  # [N, 3]
    side: float
    embedded: Array  # [N, F] float32: what comparing with yet another view needs of each
    scores: Array  # [N, N] float16: of each view to each reference
    range: tuple[float, float]


@dataclass
class Job:
    """A table being made."""

    total: int = 0
    done: int = 0
    error: str = ""


class ClosedError(Exception):
    """The server ends."""


class Fields:
    """The tables of all runs' checkpoints; they are made one at a time, in the background."""

    def __init__(self, atlas: Atlas, load: Loader) -> None:
        self._atlas, self._load = atlas, load
        self._tables, self._policies = Recent(6), Recent(LOOKING)
        self._looking = threading.Lock()  # a policy looks at one thing at a time
        self._jobs: dict[Key, Job] = {}
        self._unkept: dict[Key, str] = {}  # why a table is in memory only
        self._lock = threading.Lock()
        self._maker = ThreadPoolExecutor(1, "field")
        self._closed = False

    def status(self, run: Run, name: str) -> Document:
        """How far the table of a checkpoint is; its places once it is there."""
        score = field_score(run.facts.experiment.agent)
        answer: Document = {"state": "absent", "done": 0, "total": 0, "reason": "", "score": score, "range": None}
        answer["places"] = None
        key = self._key(run, name)
        if score is None or run.facts.kind == "other":
            what = "This method has no score of two views." if score is None else "This world has no map."
            return {**answer, "state": "impossible", "reason": what}
        table, job = self._table(run, key), self._jobs.get(key)
        if table is not None:
            total = len(table.poses)
            reason = self._unkept.get(key, "")
            return {**answer, "state": "ready", "done": total, "total": total, "reason": reason, **about(table)}
        if job is None:
            return answer
        state = "impossible" if job.error else "making"
        return {**answer, "state": state, "done": job.done, "total": job.total, "reason": job.error}

    def start(self, run: Run, name: str) -> Document:
        """Have the table made, unless it is there or being made."""
        status, key = self.status(run, name), self._key(run, name)
        with self._lock:
            wanted = status["state"] == "absent" or bool(self._jobs.get(key, Job()).error)
            if wanted and not self._closed:
                if sum(not job.error for job in self._jobs.values()) >= WAITING:
                    raise NotReadyError(f"{WAITING} fields are waiting to be made; ask again when some are there.")
                self._jobs[key] = Job()
                self._maker.submit(self._make, run, key)
        return self.status(run, name)

    def field(self, run: Run, name: str, x: float, y: float, degrees: float | None, exact: bool = False) -> Document:
        """The score of every view with what is seen from a pose; without a heading, the best of four.

        At once it is that of the nearest view; `exact`: of the pose itself, for which a game may have to start. The
        answer says which of the two it is: nobody can look from within a wall, and all poses of a grid are views.
        """
        begin, key = time.perf_counter(), self._key(run, name)
        table = self._table(run, key)
        if table is None:
            raise NotReadyError("The field of this checkpoint is not made yet.")
        view = Views(table.poses, table.side, None).nearest(x, y, degrees or 0.0)
        place = view - view % len(HEADINGS)
        columns = [view] if degrees is not None else list(range(place, place + len(HEADINGS)))
        scores, reference = table.scores[:, columns], table.poses[view, :2]
        poses = np.array([(x, y, turn) for turn in (HEADINGS if degrees is None else (degrees,))])
        heading = None if degrees is None else float(table.poses[view, 2])
        hit = bool(run.facts.kind == "grid" or (table.poses[columns] == poses).all())
        if exact and not hit and self._atlas.can_look(run, poses):
            scores, reference, heading, hit = self._compared(run, key, table, poses), poses[0, :2], degrees, True
        return {
            "reference": [*numbers(reference, 1), heading],
            "exact": hit,
            "values": numbers(scores.astype(np.float32).max(1).reshape(-1, len(HEADINGS)), 3),
            "milliseconds": round(1e3 * (time.perf_counter() - begin), 2),
        }

    def table(self, run: Run, name: str) -> Table | None:
        """The whole of it, for an export; None where it is not made."""
        return self._table(run, self._key(run, name))

    def close(self) -> None:
        """Leave what is being made."""
        self._closed = True
        self._maker.shutdown(wait=True, cancel_futures=True)

    def _compared(self, run: Run, key: Key, table: Table, poses: Array) -> Array:
        """[N, R] the score of each view of a table with what is seen at poses [R, 3] of a maze."""
        with self._looking:
            if self._closed:
                raise NotReadyError("The server ends.")
            policy = self._policies.get(key, lambda: self._frozen(run, key))
            return np.asarray(policy.compare(table.embedded, policy.embed(self._atlas.photographs(run, poses))))

    def _frozen(self, run: Run, key: Key) -> FieldPolicy:
        loaded, mark = self._load(run, key[1])
        if mark != key[2]:  # its embeddings would not be the table's
            raise NotReadyError("The run has gone on meanwhile; ask again.")
        policy = frozen(loaded)
        assert isinstance(policy, FieldPolicy)
        return policy

    def _key(self, run: Run, name: str) -> Key:
        return run.id, name, run.read(name, ())[2]

    def _table(self, run: Run, key: Key) -> Table | None:
        known: Table | None = self._tables.peek(key)
        if known is None and (known := _read(_file(run, key))) is not None:
            found = known
            self._tables.get(key, lambda: found)
        return known

    def _make(self, run: Run, key: Key) -> None:
        job = self._jobs[key]
        try:
            loaded, mark = self._load(run, key[1])
            table = self._work_out(run, loaded, job)
            made = (run.id, key[1], mark)  # a run in training may have gone on
            if run.keeps:
                self._keep(run, made, table)
            self._tables.get(made, lambda: table)  # whoever is told that it is there finds it kept, too
            self._jobs.pop(key)
        except ClosedError:
            self._jobs.pop(key)
        except (SflError, OSError) as error:
            job.error = str(error)
        except Exception as error:
            job.error = f"The field cannot be made: {error}"
            confess(job.error)

    def _keep(self, run: Run, key: Key, table: Table) -> None:
        """With the run; where nothing can be written, in memory only, and the page is told."""
        file = _file(run, key)
        try:
            _write(file, table)
            self._unkept.pop(key, None)
        except OSError as error:
            self._unkept[key] = f"This field could not be kept ({error}); it is made anew next time."
            note(f"{file} was not kept ({error}); it is made anew next time.")

    def _work_out(self, run: Run, loaded: LoadedRun, job: Job) -> Table:
        views, policy = self._atlas.views(run), frozen(loaded)
        assert isinstance(policy, FieldPolicy)
        count = len(views.poses)
        job.total = 3 * count

        def progress(done: int) -> None:
            if self._closed:
                raise ClosedError
            job.done = done

        seen = self._atlas.look(run, views, progress)
        parts = []
        for first in range(0, count, EMBEDDED):
            progress(count + first)
            parts.append(policy.embed(seen[first : first + EMBEDDED]))
        embedded = np.concatenate(parts)
        scores = np.empty((count, count), np.float16)
        for first in range(0, count, COMPARED):
            progress(2 * count + first)
            scores[:, first : first + COMPARED] = policy.compare(embedded, embedded[first : first + COMPARED])
        low, high = policy.score_range
        known = scores[np.isfinite(scores)]
        low, high = (float(known.min()) if low == -np.inf else low), (float(known.max()) if high == np.inf else high)
        return Table(views.poses, views.side, embedded, scores, (low, high))


def about(table: Table) -> Document:
    """What the page must know of a table beside its scores."""
    places = Views(table.poses, table.side, None).places
    return {
        "range": numbers(np.array(table.range), 3),
        "places": {
            "x": numbers(places[:, 0], 1),
            "y": numbers(places[:, 1], 1),
            "side": round(table.side, 3),
            "headings": list(HEADINGS),
        },
    }


def _file(run: Run, key: Key) -> Path:
    return run.folder.path / "studio" / f"field-{key[1]}-{key[2]}.npz"


def _read(file: Path) -> Table | None:
    """A table that was kept; None where there is none, or none that is whole."""
    try:
        kept = read_arrays(file, MOST_KEPT)
        poses, embedded, scores, ends = (kept[name] for name in ("poses", "embedded", "scores", "ends"))
        count = len(poses)
        fits = poses.shape == (count, 3) and scores.shape == (count, count) and ends.shape == (3,)
        if not fits or embedded.ndim != 2 or len(embedded) != count:
            return None
        return Table(poses, float(ends[0]), embedded, scores, (float(ends[1]), float(ends[2])))
    except (OSError, KeyError, FileError):
        return None


def _write(file: Path, table: Table) -> None:
    """Keep a table, whole or not at all, and those of this checkpoint's predecessors no longer."""
    body, ends = io.BytesIO(), np.array([table.side, *table.range])
    np.savez(body, poses=table.poses, embedded=table.embedded, scores=table.scores, ends=ends)
    draft = file.with_name(file.name + ".tmp")
    file.parent.mkdir(exist_ok=True)
    try:
        draft.write_bytes(body.getbuffer())
        os.replace(draft, file)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    for older in file.parent.glob(f"{file.name.rpartition('-')[0]}-*.npz*"):
        if older != file:
            older.unlink(missing_ok=True)
