"""The folder of a run: where everything is, and how to get a finished or broken-off run back.

In this order: names of files, making a new folder, config.json, the lock on a folder, a run read back (`load_run`), its
evaluation rows, and a slim copy of it (`export`).
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from sfl.api import Agent, Array, EnvSpec
from sfl.config import FORMER_KINDS, MOST, from_json, require, to_json
from sfl.errors import CheckpointError, FileError, UsageError
from sfl.files import MEGABYTE, copy_file, read_json, read_text, write_text
from sfl.old_names import new_name
from sfl.registry import AgentConfig, agent_name, make_agent
from sfl.run import checkpoint, inputs
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow, Label, eval_tasks
from sfl.run.log import MOST_ROWS, CsvTable, damage, note, read_columns
from sfl.run.machine import prepare
from sfl.run.metrics import columns
from sfl.run.settings import Experiment
from sfl.worlds import Task

LAST = "last"

MOST_EPISODES = 256 * MEGABYTE
"""Bytes of a table of evaluation episodes that are read: two million rows."""


@dataclass(frozen=True)
class RunFolder:
    """Names of the files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """The experiment and the seed."""
        return self.path / "config.json"

    @property
    def checkpoints(self) -> Path:
        """All checkpoints."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """The checkpoint that resuming starts from."""
        return self.checkpoints / LAST

    def history(self, env_steps: int) -> Path:
        """The small checkpoint of one step count."""
        return self.checkpoints / f"{env_steps:09d}"

    def history_names(self) -> list[str]:
        """Names of the small checkpoints, in order; folders with other names are not ours."""
        names = (path.name for path in self.checkpoints.glob("*"))
        return sorted(name for name in names if name.isascii() and name.isdigit())

    @property
    def figures(self) -> Path:
        """Pictures and videos."""
        return self.path / "figures"

    @property
    def episodes(self) -> Path:
        """One row per evaluation episode."""
        return self.path / "episodes.csv"

    @property
    def random(self) -> Path:
        """One row per task, of the random policy: what success is compared with."""
        return self.path / "random.csv"

    @property
    def tasks(self) -> Path:
        """The start-goal pairs that a run in a maze is evaluated on."""
        return self.path / "tasks.json"

    def tables(self, levels: Sequence[str]) -> dict[str, CsvTable]:
        """The run's CSV files by name, with their headers written."""
        return {
            "train": CsvTable(self.path / "train.csv", columns("train")),
            "eval": CsvTable(self.path / "eval.csv", columns("eval", levels)),
            "episodes": CsvTable(self.episodes, EPISODE_COLUMNS),
        }


def run_path(runs_dir: Path | str, experiment: Experiment, seed: int) -> Path:
    """`runs/NAME/seed-0003`; refuses a folder that exists, unless the same run can start over in it."""
    require(seed >= 0, f"--seed must be 0 or more, got {seed}.")
    path = Path(runs_dir) / experiment.name / f"seed-{seed:04d}"
    if path.exists():
        require_idle(path)
        _require_the_same_without_a_checkpoint(path, experiment, seed)
    return path


def create(path: Path, experiment: Experiment, seed: int, facts: dict[str, Any]) -> RunFolder:
    """Make the folder of a new run with its config.json, its system.json and copies of what it reads."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        _start_over(path, experiment, seed)
    try:
        write_text(path / "system.json", json.dumps(facts, indent=2) + "\n")
        inputs.copy_inputs(path, experiment)
        write_text(path / "config.json", _settings(experiment, seed))
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return RunFolder(path)


def _settings(experiment: Experiment, seed: int) -> str:
    return json.dumps({"experiment": to_json(experiment), "seed": seed}, indent=2) + "\n"


def _start_over(path: Path, experiment: Experiment, seed: int) -> None:
    """Empty the folder of the same run, which was killed before its first checkpoint."""
    with locked(path):
        _require_the_same_without_a_checkpoint(path, experiment, seed)
        for part in path.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()
    note(f"{path} was stopped before its first checkpoint; it starts over.")


BEFORE_CONFIG = ("system.json", inputs.FOLDER)
"""What is written into a new run folder before its config.json."""


def _require_the_same_without_a_checkpoint(path: Path, experiment: Experiment, seed: int) -> None:
    """Refuse to start over in a folder where something would be lost by it."""
    run, elsewhere = RunFolder(path), "choose another --runs-dir"
    if has_checkpoint(run):
        raise UsageError(f"Run folder {path} exists already; continue it with `sfl resume {path}` or {elsewhere}.")
    if not path.is_dir() or (not run.config.exists() and any(part.name not in BEFORE_CONFIG for part in _parts(path))):
        raise UsageError(f"Run folder {path} exists already and holds no run; move it away or {elsewhere}.")
    if run.config.exists() and _text(run.config) != _settings(experiment, seed):
        raise UsageError(
            f"Run folder {path} exists already: a run of other settings without a checkpoint. "
            f"Delete {path}, or {elsewhere}."
        )
    if _steps_with_rows(path) >= experiment.train.checkpoint_every + experiment.train.env_count:
        raise UsageError(
            f"Run folder {path} exists already and its checkpoints are gone. Delete {path}, or {elsewhere}."
        )


def _text(file: Path) -> str:
    """The text in a file; empty where it holds none."""
    try:
        return read_text(file)
    except FileError:
        return ""


def _steps_with_rows(path: Path) -> float:
    """Up to which step a run's tables go."""
    tables = [read_columns(file) for name in ("train", "eval") if (file := path / f"{name}.csv").is_file()]
    return max((step for table in tables for step in table.get("env_steps", [])), default=0)


def has_checkpoint(run: RunFolder) -> bool:
    """Whether a checkpoint to go on from was ever completed; a first save that was cut off leaves only history."""
    return run.checkpoints.exists() and (checkpoint.exists(run.last) or len(_parts(run.checkpoints)) > 1)


def _parts(folder: Path) -> list[Path]:
    """Files and folders in a folder, drafts left out."""
    return [part for part in folder.iterdir() if part.suffix != ".tmp"]


def tidy(run: RunFolder) -> None:
    """Remove what a process that was killed left half-written; call it while the folder is locked."""
    if run.checkpoints.is_dir():
        checkpoint.tidy(run.checkpoints)
    for draft in run.path.glob("*.tmp"):
        draft.unlink()


def read_config(path: Path | str) -> tuple[Experiment, int]:
    """Experiment and seed of a run folder, as the user wrote them; `usable_config` finds the files that they name."""
    file = RunFolder(Path(path)).config
    if not os.path.isfile(file):  # unlike Path.is_file() it says no to a name that is too long
        given = f"{path!s:.300} is not a run folder (it has no config.json)"
        raise UsageError(f"{given}; give e.g. runs/fourroom-sfl/seed-0000.")
    body = read_json(file)
    known = isinstance(body, dict) and {"experiment", "seed"} <= body.keys()
    if not known:
        raise FileError(f"{file} is no config.json of a run: it must hold an experiment and a seed.")
    seed: int = from_json(int, body["seed"], f"{file}: seed")
    require(seed >= 0, f"{file}: seed must be 0 or more, got {seed}.")
    experiment: Experiment = from_json(Experiment, body["experiment"], str(file))
    return replace(experiment, name=new_name(experiment.name)), seed


def settings_of(experiment: Experiment, seed: int) -> dict[str, Any]:
    """What a checkpoint notes of a run's settings: all that its agent is made with and meets, by their names.

    How long a run is and how often it is evaluated may be changed later. Paths may, too: runs travel.
    """
    body = to_json(experiment)
    found = {"seed": seed, "train.env_count": experiment.train.env_count}
    found |= _named("agent", body["agent"]) | _named("env", body["env"])
    return {name: value for name, value in found.items() if "/" not in str(value)}


def _named(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {key: one for part, inner in value.items() for key, one in _named(f"{name}.{part}", inner).items()}


def _by_present_names(noted: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint noted, where its agent's settings were of a class that is gone."""
    former = FORMER_KINDS.get(noted.get("agent.kind", ""))
    if former is None:
        return dict(noted)
    body: dict[str, Any] = {}
    for name, value in noted.items():
        first, *parts, last = name.split(".") if "." in name else ("", name)
        if first == "agent":
            part = body
            for word in parts:
                part = part.setdefault(word, {})
            part[last] = value
    others = {name: value for name, value in noted.items() if not name.startswith("agent.")}
    return others | _named("agent", former(body))


def require_settings(run: RunFolder, source: Path, noted: Mapping[str, Any]) -> None:
    """The settings are those that a checkpoint was made with, as far as it and this version know of them."""
    found, noted = settings_of(*read_config(run.path)), _by_present_names(noted)
    for name, value in found.items():
        of_a_part = name.endswith(".kind") and name.count(".") > 1  # which class that is, the whole's class says
        if name in noted and noted[name] != value and not of_a_part:
            raise CheckpointError(
                f"{run.config} says {name} {value!r:.60}, and checkpoint {source} was made with {noted[name]!r:.60}; "
                "put that back, or train a new run with the other."
            )


def usable_config(path: Path | str, whole: bool = True) -> tuple[Experiment, int]:
    """`read_config` with the run's own copies in place of files, so that it can be made again wherever it lies now.

    With `whole` a file that is missing or another one is an error; without, nothing is asked of them.
    """
    experiment, seed = read_config(path)
    return inputs.usable(Path(path), experiment, whole), seed


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time makes a run: two would mix their rows. The lock, on the folder, ends with the process."""
    folder = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # in its place may be a pipe
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{path} is being written by another process; wait for it or end it.") from error
        yield
    finally:
        os.close(folder)


def require_idle(path: Path) -> None:
    """Refuse a folder that another process writes to."""
    with locked(path):
        pass


@dataclass(frozen=True)
class LoadedRun:
    """A run read back from disk."""

    experiment: Experiment
    agent: Agent
    folder: RunFolder
    env_steps: int
    seed: int
    landmark_poses: Array  # [L, 3], NaN where unknown
    graph: dict[str, Array]
    """The arrays of the checkpoint's graph.npz, for plots."""
    poses: Array  # [N, 3] where the agent was at each step; empty in small checkpoints
    format: int = checkpoint.FORMAT
    """The format number of the checkpoint."""

    @property
    def label(self) -> Label:
        """The columns that all evaluation rows of this run share."""
        return Label(self.experiment.name, agent_name(self.experiment.agent), self.seed, self.env_steps)

    def tasks(self, level: str | None = None, episodes: int | None = None) -> list[Task]:
        """What it was evaluated on, or another level or number of that; pairs of a maze as they were saved."""
        own = self.experiment.eval
        levels = own.levels if level is None else (level,)
        wanted = replace(own, levels=levels, episodes=episodes or own.episodes)
        kept = set(levels) <= set(own.levels) and wanted.episodes <= own.episodes
        whole = self.experiment.env.kind == "other"  # an exam has every level, and any number of episodes
        return eval_tasks(self.experiment.env, wanted, self.seed, self.folder.path if kept or whole else None)

    def episode_rows(self) -> list[EpisodeRow]:
        """The run's own evaluation episodes."""
        return own_episodes(self.folder)


def load_run(
    path: Path | str, checkpoint_name: str = LAST, device: str = "auto", threads: int = 1, learning: bool = True
) -> LoadedRun:
    """Read a run folder and the agent in one of its checkpoints (`last`, or a step count such as `000200000`).

    Without `learning` it comes back as from a slim copy: enough to act, and the replay is neither read nor given room.
    """
    plain = len(Path(checkpoint_name).parts) == 1 and Path(checkpoint_name).name not in ("", "..")
    require(plain, f"A checkpoint is last or a number of steps such as 000200000, got {checkpoint_name!r:.60}.")
    experiment, seed = usable_config(path)
    folder = RunFolder(Path(path))
    spec = experiment.env.spec(experiment.train.env_count)
    inputs.note_other_modules(folder.path)
    source = folder.checkpoints / checkpoint_name
    loaded = checkpoint.load(source, experiment.env.world_name(), spec, learning)
    config = experiment.agent if learning else _acting_only(experiment.agent, spec)
    require_settings(folder, source, loaded.settings)
    agent = make_agent(config, spec, seed, prepare(device, threads))
    checkpoint.load_agent(agent, source, loaded)
    poses = np.concatenate([np.zeros((0, 3), np.float32), *loaded.poses])
    return LoadedRun(
        experiment,
        agent,
        folder,
        loaded.env_steps,
        seed,
        loaded.landmark_poses,
        loaded.agent.graph,
        poses,
        loaded.format,
    )


def _acting_only(config: AgentConfig, spec: EnvSpec) -> AgentConfig:
    """With the least of a replay: EC's over frames would take 4 GB, and as much again to be filled with nothing."""
    if not hasattr(config, "replay_size"):
        return config
    least = min(config.replay_size, 100 + 2 * spec.env_count)
    return cast(AgentConfig, replace(cast(Any, config), replay_size=least))


def require_rows(run: RunFolder, tables: Mapping[str, Any]) -> None:
    """The run's tables hold what one of its checkpoints noted of them."""
    for name, noted in tables.items():
        if what := damage(run.path / name, noted):
            raise CheckpointError(f"{what}. Put it back as it was, or delete {run.path} and make the run again.")


def own_episodes(run: RunFolder) -> list[EpisodeRow]:
    """The run's evaluation episodes, all those that its last checkpoint knows of; none before the first evaluation."""
    noted = _noted_tables(run).get(run.episodes.name)
    require_rows(run, {} if noted is None else {run.episodes.name: noted})
    return read_episodes(run.episodes) if run.episodes.exists() else []


def _noted_tables(run: RunFolder) -> dict[str, Any]:
    """Nothing where the checkpoint cannot be read: its rows can be reported all the same."""
    try:
        return dict(checkpoint.read_header(checkpoint.present(run.last))["tables"])
    except (CheckpointError, ValueError):
        return {}


def read_episodes(path: Path) -> list[EpisodeRow]:
    """Rows of an episodes.csv, also compressed (.csv.gz)."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path, MOST_EPISODES), newline=""))
        if tuple(reader.fieldnames or ()) != EPISODE_COLUMNS:
            raise FileError(f"{path} does not have the columns of episodes.csv: {','.join(EPISODE_COLUMNS)}.")
        return [_episode_row(row) for row in reader]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise FileError(f"{path} cannot be read as evaluation episodes: {error}.") from error


def _episode_row(row: dict[str, Any]) -> EpisodeRow:
    numbers = ("seed", "env_steps", "pair", "budget", "success", "steps")
    named = {"experiment": new_name(row["experiment"]), **{name: int(row[name]) for name in numbers}}
    found = EpisodeRow(**{**row, **named})
    if max(abs(getattr(found, name)) for name in numbers) >= MOST:
        raise ValueError("a number is too large")
    if found.success not in (0, 1):
        raise ValueError(f"success is 0 or 1, not {found.success}")
    return found


EXPORTED = (
    "config.json",
    "system.json",
    "train.csv",
    "eval.csv",
    "episodes.csv",
    "random.csv",
    "tasks.json",
    "exam.npz",
)


def export(path: Path | str, out: Path | str | None = None, history: int = 0, poses: bool = False) -> RunFolder:
    """Copy configuration, inputs, tables and the last checkpoint without replay and optimiser.

    With so many checkpoints of the `history`, spread over the run, and with the `poses` of all its steps.
    """
    require(history >= 0, f"--history must be 0 or more, got {history}.")
    experiment, seed = usable_config(path)
    source = RunFolder(Path(path))
    target = RunFolder(Path(out) if out else Path(f"{experiment.name}-seed-{seed:04d}"))
    if target.path.exists():
        raise UsageError(f"{target.path} exists already; choose another place with --out.")
    spec = experiment.env.spec(experiment.train.env_count)
    loaded = checkpoint.load(source.last, experiment.env.world_name(), spec, learning=False)
    if not poses:
        loaded = replace(loaded, poses=())
    draft = target.path.with_name(target.path.name + ".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for name in EXPORTED:
            if (source.path / name).exists():
                copy_file(source.path / name, draft / name, MOST_ROWS)
        if (source.path / inputs.FOLDER).is_dir():
            _copy_folder(source.path / inputs.FOLDER, draft / inputs.FOLDER)
        checkpoint.save(RunFolder(draft).last, loaded, "slim")
        for name in _spread(source, loaded.env_steps, history):
            _copy_folder(source.checkpoints / name, RunFolder(draft).checkpoints / name)
        draft.rename(target.path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _copy_folder(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=lambda one, copy: copy_file(Path(one), Path(copy), MOST_ROWS))


def _spread(source: RunFolder, last: int, count: int) -> list[str]:
    """Names of up to `count` checkpoints of the history before step `last`, spread over the run."""
    names = [name for name in source.history_names() if int(name) < last]
    places = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)
    return [names[place] for place in places]
