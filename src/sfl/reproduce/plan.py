"""Which runs a table takes, how far each of them is, and whether its folder holds the same run.

From top to bottom: planned runs and the planner, the progress of a run and damage to its folder, settings that differ,
and last what runs read that no planned run makes (mazes, files of weights), said before hours are spent on the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from sfl.config import from_json, require, to_json
from sfl.errors import FileError, SflError, UsageError
from sfl.files import read_json, write_text
from sfl.nn.weights import find_weights, read_card, require_networks
from sfl.registry import frame_encoder, method_of, setting
from sfl.reproduce.tables import Entry, Table
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import read_columns
from sfl.run.settings import Experiment, require_scale
from sfl.worlds import EnvConfig

Configure = Callable[[Sequence[str]], Experiment]
"""What `sfl train` makes of its words: the experiment with all its settings."""

SHOWN_DIFFERENCES = 3
MOST_SEEDS = 9_999
"""As many as the names of run folders have room for."""


@dataclass(frozen=True)
class PlannedRun:
    """One seed of one experiment."""

    experiment: Experiment
    seed: int
    words: tuple[str, ...]
    """What `sfl train` is called with, its folder and device left out."""
    path: Path
    after: tuple[Path, ...] = ()
    """Folders of runs that must be finished before."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.experiment.name} seed {self.seed}"


@dataclass(frozen=True)
class LackingRow:
    """An entry that no run can be planned for yet."""

    table: str
    entry: Entry
    reason: str


@dataclass(frozen=True)
class Plan:
    """Everything that a report needs, in the order in which it is best made."""

    tables: tuple[Table, ...]
    """With the entries that were asked for only."""
    runs: tuple[PlannedRun, ...]
    lacking: tuple[LackingRow, ...]
    seeds: dict[str, int]
    """Seeds of each table."""
    runs_dir: Path

    def paths(self, table: Table, entry: Entry) -> list[Path]:
        """The folders of an entry's runs, one for each seed."""
        known = {run.path for run in self.runs}
        named = (run_folder(self.runs_dir, entry.run, seed) for seed in range(self.seeds[table.name]))
        return [path for path in named if path in known]


@dataclass(frozen=True)
class Sizes:
    """How much of the paper's budget to spend."""

    seeds: int | None = None
    """Of every table; None: as many as the table has."""
    scale: float = 1.0
    tiny: bool = False

    def __post_init__(self) -> None:
        require(self.seeds is None or self.seeds >= 1, f"--seeds must be 1 or more, got {self.seeds}.")
        require((self.seeds or 1) <= MOST_SEEDS, f"--seeds must be at most {MOST_SEEDS:,}, got {self.seeds}.")
        require_scale(self.scale)

    @property
    def remark(self) -> str:
        """What a reader of a report must know of runs of another size; empty for the paper's."""
        if self.tiny:
            return "Tiny runs of seconds: they show that everything works, and their numbers mean nothing."
        return "" if self.scale == 1 else f"Runs with {self.scale:g} times the usual steps: not the paper's budget."

    def words(self) -> tuple[str, ...]:
        """The same for `sfl train`."""
        scaled = () if self.scale == 1 else ("--scale", f"{self.scale:g}")
        return (*scaled, *(("--tiny",) if self.tiny else ()))


def run_folder(runs_dir: Path, name: str, seed: int) -> Path:
    """Where `sfl train` puts a run."""
    return runs_dir / name / seed_name(seed)


def seed_name(seed: int) -> str:
    """The last part of a run's path."""
    return f"seed-{seed:04d}"


def make_plan(
    tables: Sequence[Table],
    known: Collection[str],
    configure: Configure,
    runs_dir: Path,
    sizes: Sizes,
    only: str = "",
) -> Plan:
    """Plan every entry whose experiment exists; each first seed comes before any second one.

    `known` are the experiments there are. Entries without one are listed as lacking, and so are those with options that
    their experiment does not have.
    """
    asked = [_narrowed(table, only) for table in tables]
    if only and not any(table.entries for table in asked):
        rows = ", ".join(sorted({entry.run for table in tables for entry in table.entries}))
        raise UsageError(f"No row matches --only {only!r}; the runs are called {rows}.")
    planner = _Planner(known, configure, runs_dir, sizes)
    seeds = {table.name: sizes.seeds or table.seeds for table in asked}
    for table in asked:
        for entry in table.entries:
            planner.add(table, entry, seeds[table.name])
    runs = sorted(planner.runs.values(), key=lambda run: run.seed)
    return Plan(tuple(asked), tuple(runs), tuple(planner.lacking), seeds, runs_dir)


def _narrowed(table: Table, only: str) -> Table:
    try:
        pattern = re.compile(only, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"--only {only!r} is no regular expression: {error}.") from error
    wanted = [entry for entry in table.entries if pattern.search(entry.run) or pattern.search(entry.row)]
    places = {entry.place for entry in wanted}
    columns = tuple(column for column in table.columns if column.place in places)
    return replace(table, entries=tuple(wanted), columns=columns)


class _Planner:
    """Gathers runs, each once however many tables it serves."""

    def __init__(self, known: Collection[str], configure: Configure, runs_dir: Path, sizes: Sizes) -> None:
        self._known, self._configure, self._runs_dir, self._sizes = known, configure, runs_dir, sizes
        self._experiments: dict[tuple[str, ...], Experiment] = {}
        self.runs: dict[Path, PlannedRun] = {}
        self.lacking: list[LackingRow] = []

    def add(self, table: Table, entry: Entry, seeds: int) -> None:
        absent = [name for name in (entry.experiment, *entry.after, *entry.shared) if name not in self._known]
        if absent:
            self.lacking.append(LackingRow(table.name, entry, f"there is no experiment {absent[0]!r} yet"))
            return
        try:
            made = [self._planned(entry, seed) for seed in range(seeds)]
        except UsageError as error:
            self.lacking.append(LackingRow(table.name, entry, str(error)))
            return
        for seed in range(seeds):
            for name, source_seed in entry.sources(seed):
                self._keep(self._planned(Entry("", "", name), source_seed))
        for run in made:
            self._keep(run)

    def _keep(self, run: PlannedRun) -> None:
        other = self.runs.setdefault(run.path, run)
        if other.words != run.words:
            raise ValueError(f"two rows call different runs {run.title}: {other.words} and {run.words}")

    def _planned(self, entry: Entry, seed: int) -> PlannedRun:
        places = {"runs": str(self._runs_dir), "seed": seed_name(seed), "first": seed_name(0)}
        options = tuple(option.format(**places) for option in entry.options)
        named = ("--name", entry.name) if entry.name else ()
        settings = (*self._sizes.words(), *named, *options)
        experiment = self._configured(entry.experiment, settings)
        words = (entry.experiment, "--seed", str(seed), *settings)
        path = run_folder(self._runs_dir, entry.run, seed)
        after = tuple(run_folder(self._runs_dir, *source) for source in entry.sources(seed))
        return PlannedRun(experiment, seed, words, path, after)

    def _configured(self, name: str, settings: tuple[str, ...]) -> Experiment:
        """Parsed once for all seeds that share the words."""
        words = (name, *settings)
        if words not in self._experiments:
            self._experiments[words] = self._configure(words)
        return self._experiments[words]


class Progress(Enum):
    """How far a run is."""

    MISSING = "missing"
    STARTED = "started"
    """A folder without a checkpoint: nothing to go on from."""
    BROKEN_OFF = "broken off"
    """It can be resumed from its last checkpoint."""
    FINISHED = "finished"


def progress_of(run: PlannedRun) -> Progress:
    """Look at a run's folder."""
    folder = RunFolder(run.path)
    if not run.path.exists():
        return Progress.MISSING
    steps = checkpoint_steps(folder)
    if steps is None:
        return Progress.STARTED
    if _at_its_end(run, folder, steps) and not damage_of(run, run.path):
        return Progress.FINISHED
    return Progress.BROKEN_OFF


def _at_its_end(run: PlannedRun, folder: RunFolder, steps: int) -> bool:
    """All steps are made, and the last evaluation too."""
    return steps >= run.experiment.train.steps and _evaluated_at(folder, steps) == steps


def damage_of(run: PlannedRun, path: Path) -> str:
    """Why a run that has come to its end cannot be reported; empty where it can, or has not come there."""
    folder = RunFolder(path)
    steps = checkpoint_steps(folder)
    if steps is None or not _at_its_end(run, folder, steps):
        return ""
    try:
        rows = [row for row in read_episodes(folder.episodes) if row.env_steps == steps]
    except UsageError as error:
        return str(error).removesuffix(".")
    for level in run.experiment.eval.levels:
        pairs = sorted(row.pair for row in rows if row.level == level)
        if pairs != list(range(_task_count(run, folder, level))):
            return f"{folder.episodes} does not hold the whole of its last evaluation"
    every = run.experiment.train.log_every
    for name, until in (("eval.csv", steps), ("train.csv", steps // every * every)):
        if until and _last_step(path / name) < until:
            return f"{path / name} does not go to the end of the run"
    return ""


def _last_step(table: Path) -> float:
    """Of the last whole row of train.csv or eval.csv; 0 without one."""
    steps = read_columns(table).get("env_steps", []) if table.is_file() else []
    return steps[-1] if steps else 0.0


def _task_count(run: PlannedRun, folder: RunFolder, level: str) -> int:
    """In a maze as many as were saved, as there may be fewer pairs than were asked for."""
    saved = (_read_json(folder.tasks) or {}).get("levels")
    pairs = saved.get(level) if isinstance(saved, dict) else None
    return len(pairs) if isinstance(pairs, list) else run.experiment.eval.episodes


def checkpoint_steps(folder: RunFolder) -> int | None:
    """Environment steps of the last checkpoint; None without one that can be read."""
    for place in _checkpoints(folder):
        steps = (_read_json(place / "format.json") or {}).get("env_steps")
        if isinstance(steps, int):
            return steps
    return None


def _checkpoints(folder: RunFolder) -> tuple[Path, Path]:
    """Where the last checkpoint may be: while it is being replaced, it is called old."""
    return folder.last, folder.last.with_name(folder.last.name + ".old")


def loss_of_restart(run: PlannedRun, path: Path) -> str:
    """Why a folder without a readable checkpoint must not be cleared to start again; empty where nothing is lost."""
    folder = RunFolder(path)
    if any(place.exists() for place in _checkpoints(folder)):
        return f"its checkpoint {folder.last} cannot be read"
    rows = read_episodes(folder.episodes) if folder.episodes.is_file() else []
    if any(row.env_steps >= run.experiment.train.steps for row in rows):
        return f"it was evaluated at its end, and its checkpoint {folder.last} is gone"
    return ""


def _evaluated_at(folder: RunFolder, steps: int) -> int:
    """A slim copy does not say; only finished runs are copied."""
    noted = (_read_json(folder.last / "generators.json") or {}).get("run", {})
    at = noted.get("evaluated_at", steps) if isinstance(noted, dict) else None
    return at if isinstance(at, int) else -1


def _read_json(file: Path) -> dict[str, Any] | None:
    try:
        body = read_json(file)
    except (OSError, FileError):
        return None
    return body if isinstance(body, dict) else None


def _with_later_settings(experiment: dict[str, Any]) -> Any:
    """A run's experiment with the defaults of settings that have come since; one that cannot be read stays as it is."""
    try:
        return to_json(from_json(Experiment, experiment))
    except (SflError, ValueError, KeyError, TypeError):
        return experiment


def refuse_other_settings(runs: Iterable[PlannedRun]) -> None:
    """A folder made by other settings would fill a row with the wrong numbers."""
    for run in runs:
        file = RunFolder(run.path).config
        body = _read_json(file)
        if body is None or not isinstance(body.get("experiment"), dict):
            if run.path.exists():
                raise UsageError(f"{run.path} has no readable config.json; move it away or choose another --runs-dir.")
            continue
        sides = _with_later_settings(body["experiment"]), to_json(run.experiment)
        found = differences(*(_portable(side, run.after) for side in sides))
        if body.get("seed") != run.seed:
            found.insert(0, f"seed is {body.get('seed')} there and {run.seed} here")
        if found:
            more = f" and {len(found) - SHOWN_DIFFERENCES} more" if len(found) > SHOWN_DIFFERENCES else ""
            shown = ", ".join(found[:SHOWN_DIFFERENCES])
            raise UsageError(f"{run.path} was made by other settings: {shown}{more}; choose another --runs-dir.")


def _portable(value: Any, sources: Collection[Path]) -> Any:
    """Settings with the runs that they read named by experiment and seed alone: a folder of runs may be moved."""
    if isinstance(value, dict):
        return {key: _portable(part, sources) for key, part in value.items()}
    if isinstance(value, str):
        for name in ("/".join(source.parts[-2:]) for source in sources):
            before, found, rest = value.rpartition(name)
            if found and (not before or before.endswith("/")):
                return found + rest
    return value


def follow_move(run: PlannedRun) -> None:
    """The settings of a run that is to go on name the runs that it reads where they are now."""
    file = RunFolder(run.path).config
    body, now = _read_json(file), to_json(run.experiment)
    if body is not None and body.get("experiment") != now:
        write_text(file, json.dumps({**body, "experiment": now}, indent=2) + "\n")


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """In words, where two experiments in JSON differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*here, *there])
        dotted = {key: f"{name}.{key}" if name else key for key in keys}
        absent = "absent"
        return [
            line
            for key in keys
            for line in differences(there.get(key, absent), here.get(key, absent), dotted[key].replace("_", "-"))
        ]
    return [] if there == here else [f"{name} is {there} there and {here} here"]


def runs_without_sources(runs: Iterable[PlannedRun]) -> dict[str, list[PlannedRun]]:
    """The runs that would fail at their start, by the line that they would end with, and those that read them."""
    found: dict[str, list[PlannedRun]] = {}
    failing: dict[Path, str] = {}
    read: set[EnvConfig] = set()
    runs = list(runs)
    for run in runs:
        try:
            env = run.experiment.env
            if env.kind == "maze" and env not in read:  # each maze once
                env.load()
                read.add(env)
            _look_for_weights(run)
        except SflError as error:
            failing[run.path] = str(error)
    for _ in runs:  # as long as there is another link, however the runs are ordered
        linked = {run.path: _broken(run, failing) for run in runs if run.path not in failing}
        more = {path: reason for path, reason in linked.items() if reason is not None}
        if not more:
            break
        failing |= more
    for run in runs:
        if run.path in failing:
            found.setdefault(failing[run.path], []).append(run)
    return found


def _broken(run: PlannedRun, failing: Mapping[Path, str]) -> str | None:
    """Why a run that reads others fails because of them; None where they are all right."""
    return next((failing[path] for path in run.after if path in failing), None)


def _look_for_weights(run: PlannedRun) -> None:
    agent = run.experiment.agent
    _, encoder = frame_encoder(agent)
    if encoder:
        read_card(find_weights(encoder))
    method = method_of(agent)
    networks = setting(agent, method.networks)
    if networks and not any(folder in Path(networks).parents for folder in run.after):
        require_networks(networks, method.needs)
