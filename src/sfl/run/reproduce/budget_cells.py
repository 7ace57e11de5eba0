"""Budgets as a table for people and as rows for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfl.run.reproduce.budgets import BEFORE, MEASURES, Budget

READING = (
    "Fair budgets: what each method was given and took, means over seeds. Environment steps, gradient steps and "
    "training time (evaluation and saving left out) are those of all phases in the maze, also in runs that a method "
    "reads: of a controller that tunes its networks, of an explorer. Before: what its networks and encoders took in "
    "other mazes, where each frame of a random walk is a step. Trained are parameters that changed in the maze, frozen "
    "those that are used as they came. At least (≥): a part is not known."
)

HEAD = [
    *("method", "place", "seeds", "env steps", "phases", "gradient steps", "training time"),
    *("parameters trained", "parameters frozen"),
    *("env steps before", "gradient steps before", "time before", "machine"),
]

WORDS = (0, 1, 4, 12)
"""Columns that are no numbers."""


def budget_table(budgets: Sequence[Budget]) -> list[list[str]]:
    """A line for each row of a table, headings first."""
    return [HEAD, *map(_line, budgets)]


def _line(budget: Budget) -> list[str]:
    parts = [phase for phase in budget.phases if phase.name != BEFORE]
    phases = " + ".join(f"{phase.name} {_count(phase.spent.env_steps)}" for phase in parts)
    steps, gradients, time = _totals(budget, before=False)
    known = [budget.row, budget.place, str(budget.seeds)]
    counts = [_count(budget.trained), _count(budget.frozen)]
    return [*known, steps, phases, gradients, time, *counts, *_totals(budget, before=True), budget.machines]


def _totals(budget: Budget, before: bool) -> list[str]:
    total, known = budget.total(before)
    shown = [_count(total.env_steps), _count(total.gradient_steps), time_words(total.seconds or 0.0)]
    return shown if known else [f"≥ {number}" for number in shown]


def _count(number: float | None) -> str:
    return "?" if number is None else f"{number:,.0f}"


def time_words(seconds: float) -> str:
    """In units in which it is below 100, or hours, with two digits or more."""
    hours = (seconds / 3_600, "h")
    number, unit = next((pair for pair in ((seconds, "s"), (seconds / 60, "min")) if pair[0] < 99.5), hours)
    return f"{number:.0f} {unit}" if number >= 9.95 or not number else f"{number:.1f} {unit}"


CSV_COLUMNS = (
    *("table", "row", "run", "place", "seeds", "phase", "source", "env_steps", "gradient_steps", "seconds"),
    *("parameters_trained", "parameters_frozen", "machine"),
)


def budget_rows(table: str, budgets: Sequence[Budget]) -> list[dict[str, Any]]:
    """Of each row a line for each phase, and one for all of them, which has the parameters; what is not known stays
    empty."""
    lines = [[table, one.row, one.run, one.place, one.seeds, *line] for one in budgets for line in _phase_lines(one)]
    return [dict(zip(CSV_COLUMNS, line, strict=True)) for line in lines]


def _phase_lines(budget: Budget) -> Iterator[list[Any]]:
    for phase in budget.phases:
        spent = [getattr(phase.spent, measure) for measure in MEASURES]
        yield [phase.name, phase.source, *spent, None, None, phase.machine]
    for name, before in (("all before the maze", True), ("all in the maze", False)):
        total, known = budget.total(before)
        spent = [getattr(total, measure) if known else None for measure in MEASURES]
        yield [name, "", *spent, *((None, None) if before else (budget.trained, budget.frozen)), ""]
