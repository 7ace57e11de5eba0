"""The exam of a run on disk: collected once, read back by whoever evaluates the run later."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from sfl.api import Array
from sfl.config import require
from sfl.errors import FileError, UsageError
from sfl.files import MEGABYTE, read_arrays, written
from sfl.run.log import note
from sfl.run.settings import EvalConfig
from sfl.worlds.config import GymConfig, make_env
from sfl.worlds.exam import GIVEN, NO_SEED, SEARCH, WALKS, Exam, collect
from sfl.worlds.gym import GoalWrapper

EXAM = "exam.npz"
"""Name of the file in the run folder."""
FORMAT = 1
MOST_BYTES = UNPACKED = 512 * MEGABYTE
"""Of pictures, packed and not: unpacking takes twice as much."""
TELL_EVERY = 10.0  # seconds


def collected(env: GymConfig, config: EvalConfig) -> Exam:
    """The exam of a world, with a line for the user that says what it is."""
    world = make_env(env)
    assert isinstance(world, GoalWrapper)
    told = time.monotonic()

    def tell(line: str) -> None:
        nonlocal told
        if time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            note(f"exam of {env.id}: {line} of {config.exam_steps:,}")

    exam = collect(world, config.exam_steps, config.exam_goals, tell)
    world.close()
    size = sum(value.nbytes for value in _arrays(exam).values())
    require(
        size <= UNPACKED - MEGABYTE,  # a file has headers, too
        f"The exam of {env.id} has {size // MEGABYTE:,} MB, and at most {UNPACKED // MEGABYTE - 1} are kept; "
        f"give --eval.exam-goals below {len(exam.goals):,}.",
    )
    note(f"exam of {env.id}: {exam.summary()}.")
    return exam


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
