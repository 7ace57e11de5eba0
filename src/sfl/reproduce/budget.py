"""What each row of a table was given and took, phase by phase, its networks' training elsewhere included.

First how budgets are read from run folders, then the same as a table for people and as rows for other programs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfl.errors import CheckpointError, FileError
from sfl.files import read_json
from sfl.nn.weights import tensor_sizes
from sfl.registry import method_of, setting
from sfl.reproduce.plan import checkpoint_steps, run_folder
from sfl.reproduce.tables import Entry, last_value
from sfl.run.checkpoint import present
from sfl.run.folder import RunFolder, read_config
from sfl.run.inputs import Pretraining, pretraining_of
from sfl.run.log import read_columns
from sfl.run.machine import machine_words

BEFORE = "pre-training"
"""The phase in other mazes."""

NOT_LEARNED = ("target", "whitening")
"""Parts of a checkpoint's networks that are copies or statistics of others."""
RUNNING = ("running_mean", "running_var", "num_batches_tracked")
"""And batch normalization's own."""


@dataclass(frozen=True)
class Spent:
    """What training took; None: not known."""

    env_steps: float | None
    gradient_steps: float | None
    seconds: float | None
    """Evaluation and saving left out."""


MEASURES = ("env_steps", "gradient_steps", "seconds")


@dataclass(frozen=True)
class Phase:
    """One thing after another that a method needs."""

    name: str
    """pre-training, tuning, exploration, filling, cleanup or training."""
    source: str
    """The run or the file in which it took place."""
    spent: Spent
    machine: str


@dataclass(frozen=True)
class Budget:
    """All phases of a row; means over seeds."""

    row: str
    place: str
    run: str
    seeds: int
    phases: tuple[Phase, ...]
    trained: float | None
    """Parameters that gradient steps in the maze have changed, in its own run or in one that it reads; None: a run has
    been left without its weights."""
    frozen: float | None
    """Parameters that it uses as they came."""

    def total(self, before: bool) -> tuple[Spent, bool]:
        """The sum over phases before the maze or in it, and whether every number was known."""
        chosen = [phase.spent for phase in self.phases if (phase.name == BEFORE) == before]
        columns = [[getattr(spent, name) for spent in chosen] for name in MEASURES]
        known = all(value is not None for column in columns for value in column)
        return Spent(*(math.fsum(value for value in column if value is not None) for column in columns)), known

    @property
    def machines(self) -> str:
        """On which its runs were made."""
        return "; ".join(dict.fromkeys(phase.machine for phase in self.phases if phase.name != BEFORE))


def budget_of(runs_dir: Path, entry: Entry, done: Sequence[RunFolder]) -> Budget:
    """What the finished runs of a row took, those that each reads included."""
    found = [_of_seed(runs_dir, entry, folder) for folder in done]
    trained, frozen = (_mean(numbers) for numbers in zip(*(counts for _, counts in found), strict=True))
    phases = tuple(_means([phases for phases, _ in found]))
    return Budget(entry.row, entry.place, entry.run, len(done), phases, trained, frozen)


def _of_seed(runs_dir: Path, entry: Entry, folder: RunFolder) -> tuple[list[Phase], tuple[int | None, int | None]]:
    """All phases of one run, in the order of time, and its parameters: trained and frozen."""
    _, seed = read_config(folder.path)
    read = [RunFolder(run_folder(runs_dir, *source)) for source in entry.sources(seed)]
    runs = [*(run for run in read if run.config.is_file()), folder]
    gone = [Phase("training", run.path.parent.name, Spent(None, None, None), "") for run in read if run not in runs]
    earlier = list(dict.fromkeys(one for run in runs for one in _pretrained(run)))  # a file that two runs read, once
    within = [phase for run in runs for phase in run_phases(run)]
    learned = [run for run in runs if any(phase.spent.gradient_steps for phase in run_phases(run))]
    trained = _sum(parameter_count(run, without=_taken_over(run, learned)) for run in learned)
    as_they_came = 0 if learned else parameter_count(folder)
    frozen = _sum([as_they_came, *(one.frozen for one in earlier)])
    return [*map(_before, earlier), *gone, *within], (trained, frozen)


def _before(one: Pretraining) -> Phase:
    spent = Spent(one.env_steps, one.gradient_steps, one.seconds)
    return Phase(BEFORE, f"{one.network} ({one.file})", spent, one.machine)


def _pretrained(run: RunFolder) -> list[Pretraining]:
    """As the run noted when it began; a run of an earlier version is asked by its configuration."""
    try:
        return [Pretraining(**one) for one in _facts(run)["pretraining"]]
    except (KeyError, TypeError):  # not noted, or damaged
        return pretraining_of(read_config(run.path)[0].agent)


def _facts(run: RunFolder) -> dict[str, Any]:
    """What the run noted of its machine; nothing where the file is gone or damaged, so that the sums say "at least"."""
    try:
        facts = read_json(run.path / "system.json")
    except (OSError, FileError):
        return {}
    return facts if isinstance(facts, dict) else {}


def run_phases(run: RunFolder) -> list[Phase]:
    """What a run did, one thing after another."""
    experiment, _ = read_config(run.path)
    machine, source = machine_words(_facts(run)), run.path.parent.name
    steps = checkpoint_steps(run) or last_value(run, "env_steps")  # large checkpoints may have been thrown away
    if steps is None:
        return [Phase("training", source, Spent(None, None, None), machine)]
    ends = method_of(experiment.agent).phases(experiment.agent, int(steps))
    phases, earlier = [], [0.0, 0.0, 0.0]
    for name, end in ends.items():
        until = [float(end), *(_value_at(run, metric, end) for metric in ("train/gradient_steps", "time/wall_seconds"))]
        spent = Spent(*(None if now is None else now - then for now, then in zip(until, earlier, strict=True)))
        phases.append(Phase(name, source, spent, machine))
        earlier = [then if now is None else now for now, then in zip(until, earlier, strict=True)]
    return phases


def _value_at(run: RunFolder, metric: str, end: int) -> float | None:
    """A column of train.csv up to a step, between its rows in a straight line; 0 of what is never mentioned."""
    file = run.path / "train.csv"
    columns = read_columns(file) if file.is_file() else {}
    steps = np.array(columns.get("env_steps", []))
    values = np.array(columns.get(metric, np.full(len(steps), np.nan)))
    known = ~np.isnan(values)
    if not len(steps):
        return None
    if not known.any():
        return 0.0
    return float(np.interp(end, [0.0, *steps[known]], [0.0, *values[known]]))


def _taken_over(run: RunFolder, others: Sequence[RunFolder]) -> tuple[str, ...]:
    """Networks that a run goes on with where one of the others stopped: they are the same parameters."""
    agent = read_config(run.path)[0].agent
    method = method_of(agent)
    named = dict.fromkeys(method.needs, setting(agent, method.networks))
    sources = [other.path.parts[-2:] for other in others if other != run]  # name and seed: folders of runs are moved
    return tuple(network for network, file in named.items() if Path(file).parts[-5:-3] in sources)


def parameter_count(run: RunFolder, without: Sequence[str] = ()) -> int | None:
    """Parameters of the networks in the last checkpoint, but for some networks; None where weights were not kept."""
    try:
        weights = present(run.last) / "networks.safetensors"
    except CheckpointError:
        return None
    if not weights.is_file():
        return None
    try:
        sizes = tensor_sizes(weights)
    except CheckpointError:  # damaged: the report does not depend on it
        return None
    learned = {name: size for name, size in sizes.items() if name.partition(".")[0] not in (*NOT_LEARNED, *without)}
    return sum(size for name, size in learned.items() if not name.endswith(RUNNING))


def _means(seeds: Sequence[Sequence[Phase]]) -> Iterator[Phase]:
    """Phases of the same name and source, mean over the seeds that have them."""
    numbered = [_numbered(phases) for phases in seeds]
    for name, source, number in dict.fromkeys(key for phases in numbered for key in phases):
        same = [phases[name, source, number] for phases in numbered if (name, source, number) in phases]
        spent = Spent(*(_mean(getattr(phase.spent, measure) for phase in same) for measure in MEASURES))
        yield Phase(name, source, spent, "; ".join(dict.fromkeys(phase.machine for phase in same)))


def _numbered(phases: Sequence[Phase]) -> dict[tuple[str, str, int], Phase]:
    """By name, source and which of that name and source it is: two that look alike stay two."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for phase in phases:
        found[phase.name, phase.source, seen[phase.name, phase.source]] = phase
        seen[phase.name, phase.source] += 1
    return found


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


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
