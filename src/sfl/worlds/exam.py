"""The exam of a world: goals that can be reached from its start, how far away each is, and the tasks made of them.

`Exam` first, then its file in a run folder. `collector.py` finds out what an exam asks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sfl.api import Array, Observation
from sfl.errors import FileError, UsageError
from sfl.files import MEGABYTE, read_arrays, written
from sfl.seeding import spawn
from sfl.worlds.tasks import Task

LEVELS = ("near", "middle", "far")
"""Thirds of the largest distance."""
ANY = "any"
"""Goals of all distances alike."""

EXAM_STEPS = 200_000
"""Environment steps that the collector may take, unless a setting says otherwise."""
EXAM_GOALS = 1_000
"""Goals that an exam keeps at most, unless a setting says otherwise."""
NO_SEED = -1
"""In `Exam.reset_seeds`: whatever seed the episode is reset with."""
NEVER_TWICE = "chance changes all that is seen, so that hardly anything ever equals a goal"
"""In the note of an exam whose goals count as reached when they are equalled."""
SEARCH, WALKS, GIVEN = "search", "walks", "given"
"""How a goal was found; `given` by a sampler of the user's."""


@dataclass(frozen=True, eq=False)
class Exam:
    """What every method is asked in a world. It knows no agent, and no seed of a run."""

    goals: Observation  # [N, ...] distinct observations, none of which is reached at the start
    distances: Array  # [N] int: fewest steps from the start, in what the collector saw; 0: not known
    found: Array  # [N] of SEARCH, WALKS or GIVEN
    reset_seeds: Array  # [N] int: the seed of the world that a goal is in, or NO_SEED
    budget: int
    """Environment steps after which an episode counts as failed."""
    steps: int
    """Environment steps that collecting took."""
    complete: bool
    """Whether these are all states that can be reached, or an even choice of all, with their exact distances."""
    note: str
    """How it was collected, in one line."""

    @property
    def knows_distances(self) -> bool:
        """Goals of the user's may come without."""
        return bool((self.distances > 0).all())

    def of_level(self, level: str) -> Array:
        """Which goals [n] belong to a level."""
        if level == ANY:
            return np.arange(len(self.goals))
        if level not in LEVELS:
            raise UsageError(_no_level(level))
        if not self.knows_distances:
            raise UsageError(
                "The goals given come without distances, which levels need: return (goals, distances), or pose them "
                "all alike with --eval.levels any."
            )
        thirds = np.ceil(3 * self.distances / self.distances.max()).astype(int)
        return np.flatnonzero(thirds == 1 + LEVELS.index(level))

    def ranges(self) -> dict[str, tuple[int, int]]:
        """For each level that has goals the least and the largest distance of these."""
        if not self.knows_distances:
            return {}
        chosen = {level: self.distances[self.of_level(level)] for level in LEVELS}
        return {level: (int(far.min()), int(far.max())) for level, far in chosen.items() if len(far)}

    def tasks(self, level: str, count: int) -> list[Task]:
        """Each goal of the level once, in an order of its own, then again from the front; none where it has none."""
        goals = self.of_level(level)
        if not len(goals):
            return []
        order = spawn(0, [f"exam/{level}"])[f"exam/{level}"].permutation(goals)
        return [self._task(level, pair, int(order[pair % len(order)])) for pair in range(count)]

    def _task(self, level: str, pair: int, goal: int) -> Task:
        seed = int(self.reset_seeds[goal])
        return Task(level, pair, None, self.goals[goal], self.budget, None if seed == NO_SEED else seed)

    def summary(self) -> str:
        """How many goals, how far, and what the levels mean, in one line."""
        if not self.knows_distances:
            return f"{len(self.goals):,} goals; {self.note}"
        parts = [
            f"{level} {_span(*span)} ({len(self.of_level(level)):,} goals)" for level, span in self.ranges().items()
        ]
        empty = [level for level in LEVELS if level not in self.ranges()]
        left_out = f"; no goals, left out: {', '.join(empty)}" if empty else ""
        return f"{', '.join(parts)}{left_out}; {self.note}"


def _span(least: int, most: int) -> str:
    return f"{least} to {most} steps away" if least < most else f"{most} step{'s' * (most > 1)} away"


def _no_level(level: str) -> str:
    if level == "paper":
        return "This environment has no start and goal of the paper; use the level 'any' instead of 'paper'."
    return f"No level {level!r}; the levels are {', '.join(map(repr, LEVELS))} and 'any'."


EXAM_FILE = "exam.npz"
"""Name of the file in the run folder."""
FORMAT = 1
MOST_BYTES = UNPACKED = 512 * MEGABYTE
"""Of pictures, packed and not: unpacking takes twice as much."""


def exam_bytes(exam: Exam) -> int:
    """Its size before it is packed."""
    return sum(value.nbytes for value in _arrays(exam).values())


def save_exam(path: Path, exam: Exam) -> None:
    """Write it whole or not at all."""
    values: dict[str, Any] = _arrays(exam)
    with written(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, format=FORMAT, **values)


def _arrays(exam: Exam) -> dict[str, Array]:
    return {field.name: np.asarray(getattr(exam, field.name)) for field in fields(Exam)}


def read_exam(path: Path) -> Exam:
    """Read it back; a file that is damaged or something else is refused in one line."""
    try:
        return _checked(read_arrays(path, MOST_BYTES, UNPACKED))
    except (OSError, ValueError, KeyError, TypeError, FileError) as error:
        raise UsageError(
            f"The exam {path} cannot be read: {error}. Delete it: the exam is then collected anew, and is the same."
        ) from error


def _checked(arrays: dict[str, Any]) -> Exam:
    if int(arrays.pop("format")) != FORMAT:
        raise ValueError("it is of another format")
    exam = Exam(
        goals=arrays["goals"],
        distances=_column(arrays, "distances", np.integer),
        found=_column(arrays, "found", np.str_),
        reset_seeds=_column(arrays, "reset_seeds", np.integer),
        budget=int(arrays["budget"]),
        steps=int(arrays["steps"]),
        complete=bool(arrays["complete"]),
        note=str(arrays["note"]),
    )
    whole = len(exam.goals) > 0 and exam.budget > 0
    if not (whole and (exam.distances >= 0).all() and (exam.reset_seeds >= NO_SEED).all()):
        raise ValueError("its numbers make no sense")
    if not set(exam.found.tolist()) <= {SEARCH, WALKS, GIVEN}:
        raise ValueError("its goals were found in a way that is not known")
    return exam


def _column(arrays: dict[str, Any], name: str, kind: type[Any]) -> Any:
    column = arrays[name]
    if column.shape != arrays["goals"].shape[:1] or not np.issubdtype(column.dtype, kind):
        raise ValueError(f"{name} does not fit the goals")
    return column
