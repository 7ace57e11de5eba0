"""What a case is: a family, a seed, and a promise that is kept or broken."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Broken(Exception):  # noqa: N818 (a promise, not a fault of the siege)
    """A promise was broken; the text says which, in one line."""


@dataclass(frozen=True)
class Room:
    """Where a case plays: a folder of its own, which is the folder it starts in, and runs that it may copy."""

    path: Path
    """The case's folder. All it does happens in here; whatever appears elsewhere is a failure."""
    base: Path
    """The folder with the runs made at the start, by name (`benchmarks/siege/base.py`). Copied, never changed."""
    environment: dict[str, str]
    """The environment of commands: TMPDIR and HOME are in the case's folder."""

    @property
    def here(self) -> Path:
        """The current folder of its commands."""
        return self.path / "here"

    @property
    def tmp(self) -> Path:
        """The folder for temporary files of its commands: empty again at the end."""
        return self.path / "tmp"

    @property
    def home(self) -> Path:
        """The home folder of its commands: empty at the end."""
        return self.path / "home"


Run = Callable[[int, Room], str]
"""A case: plays by its seed, returns one line saying what happened, raises Broken where a promise was broken."""


@dataclass(frozen=True)
class Family:
    """Cases of one kind."""

    name: str
    about: str
    """The promise, in one sentence; docs/reference/reliability.md has it too."""
    run: Run
    weight: float = 1.0
    """Its share of the cases."""
    needs: tuple[str, ...] = ()
    """Which runs its cases copy, by name."""
    limit: float = 400.0
    """Seconds of wall clock after which a case has failed."""
    short: int = 1
    """Cases in the short form, with seeds from 0."""


@dataclass(frozen=True)
class Case:
    """One of them."""

    family: str
    seed: int
    """With the family it makes the very same case again."""

    @property
    def command(self) -> str:
        """How to repeat it."""
        return f"python -m benchmarks.siege --family {self.family} --seed {self.seed} --only"


@dataclass(frozen=True)
class Outcome:
    """How a case went."""

    case: Case
    ok: bool
    what: str
    """One line: what happened, or which promise was broken."""
    seconds: float


def chance(family: str, seed: int) -> random.Random:
    """The dice of a case: the same for the same family and seed, in every version of Python."""
    return random.Random(f"{family}/{seed}")
