"""What came of it: a table of families, the failures as commands, and rows for benchmarks/results."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.siege.case import Family, Outcome

COLUMNS = ("family", "first_seed", "cases", "failures", "seconds", "what", "command")
MOST_FAILURES = 400
"""Failures written as rows: the file stays small whatever happens."""


@dataclass
class Tally:
    """Cases of one family."""

    about: str
    cases: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass
class Report:
    """Counts, kept as outcomes come."""

    families: Sequence[Family]
    seed: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    failed: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tallies = {family.name: Tally(family.about) for family in self.families}

    def add(self, outcome: Outcome) -> None:
        """One more."""
        tally = self.tallies[outcome.case.family]
        tally.cases += 1
        tally.seconds += outcome.seconds
        if not outcome.ok:
            tally.failures += 1
            self.failed.append(outcome)

    def lines(self, wall: float) -> list[str]:
        """The table and the failures."""
        width = max(len(name) for name in self.tallies)
        lines = [f"{'family':<{width}}  {'cases':>6}  {'failures':>8}  {'seconds':>8}"]
        for name, tally in self.tallies.items():
            lines.append(f"{name:<{width}}  {tally.cases:>6,}  {tally.failures:>8,}  {tally.seconds:>8,.0f}")
        cases = sum(tally.cases for tally in self.tallies.values())
        lines.append(f"{cases:,} cases, {len(self.failed):,} failures, {wall / 60:.1f} minutes")
        for outcome in self.failed:
            lines += ["", f"FAILED  {outcome.case.command}", f"        {outcome.what}"]
        return lines

    def write(self, path: Path) -> None:
        """Rows: one for each family with its counts, one for each failure; families not played keep their rows."""
        path.parent.mkdir(parents=True, exist_ok=True)
        old: list[list[str]] = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                old = [row for row in list(csv.reader(file))[1:] if row[0] not in self.tallies]
        counts = [
            [name, self.seed, tally.cases, tally.failures, f"{tally.seconds:.0f}", tally.about, ""]
            for name, tally in self.tallies.items()
        ]
        failures = [
            [one.case.family, one.case.seed, 1, 1, f"{one.seconds:.1f}", one.what[:300], one.case.command]
            for one in self.failed[:MOST_FAILURES]
        ]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(sorted([*old, *counts, *failures], key=lambda row: (row[6] != "", row[0])))
