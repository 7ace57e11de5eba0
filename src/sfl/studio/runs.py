"""Which runs the page shows, and what is known of each without loading its agent.

A run in training replaces its checkpoint every so often: whatever is read here is read whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from sfl.errors import CheckpointError, FileError, SflError, UsageError
from sfl.files import read_bytes
from sfl.registry import agent_name, field_score
from sfl.run import checkpoint
from sfl.run.diagnosis import run_line
from sfl.run.folder import LAST, RunFolder, read_config, usable_config
from sfl.run.log import note
from sfl.run.settings import Experiment
from sfl.studio.answers import Document, NotHereError, NotReadyError

ATTEMPTS, PAUSE = 6, 0.1
"""How often, and how many seconds apart, a checkpoint is read that changes meanwhile."""

RENAMES = 3
"""How often a checkpoint is looked for that training may be replacing: it does so by two renames, in no time."""

FRESH = 300.0
"""Seconds since anything was written, up to which an unfinished run counts as in training."""

AGAIN, PATIENCE = 2.0, 20.0
"""Seconds between two looks for new runs, at least; or so many times as long as a look takes."""

Kind = Literal["grid", "maze", "other"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Facts:
    """What config.json says, and where that takes place."""

    experiment: Experiment
    """With the run's own copies in place of the files that it names."""
    written: Experiment
    """As the user wrote it."""
    seed: int
    kind: Kind
    world_key: str

    @classmethod
    def read(cls, path: Path) -> Facts:
        """Of a run folder."""
        written, seed = read_config(path)
        experiment, _ = usable_config(path, whole=False)
        env = experiment.env
        try:
            key = env.world_name()
        except SflError:  # its maze is not on this machine: curves and graph can be shown all the same
            key = f"{env.id} in maze {getattr(env, 'maze', '')}"
        return cls(experiment, written, seed, env.kind, key if env.kind != "other" else f"{key} {env!r}")


class Run:
    """One run folder; `id` is its name in every address."""

    def __init__(self, run_id: str, path: Path, keeps: bool = True) -> None:
        self.id, self.folder, self.keeps = run_id, RunFolder(path), keeps
        self._config_stamp = _stamp(self.folder.config)
        self._facts = Facts.read(path)
        self._found: tuple[Any, str | None] | None = None  # stamps of the files that say it, and the line
        self._remembered: dict[str, tuple[Any, Any]] = {}  # by what: the stamp of the file that it was read from

    @property
    def facts(self) -> Facts:
        """Read anew where the folder was made anew; the last known of a folder that is gone."""
        stamp = _stamp(self.folder.config)
        if stamp is not None and stamp != self._config_stamp:
            try:
                self._facts, self._config_stamp = Facts.read(self.folder.path), stamp
            except SflError:
                note(f"{self.folder.config} cannot be read; the one before it is shown.")
        return self._facts

    @property
    def title(self) -> str:
        """As it is called on the page."""
        return f"{self.facts.experiment.name} seed {self.facts.seed}"

    def checkpoints(self) -> dict[str, int]:
        """Name -> environment steps: the history, then `last`."""
        try:
            names = [path.name for path in self.folder.checkpoints.iterdir()]
        except OSError:
            return {}
        found = {name: int(name) for name in sorted(names) if name.isascii() and name.isdigit()}
        return found | ({LAST: steps} if (steps := self._last_steps()) is not None else {})

    def checkpoint(self, name: str) -> Path:
        """The folder of a checkpoint that is listed; any other name is refused."""
        known = self.checkpoints()
        if name not in known:
            listed = ", ".join(list(known)[-3:]) or "none yet"
            raise NotHereError(f"{self.title} has no checkpoint {name[:40]!r}; there are {listed}.")
        return self.folder.checkpoints / name

    def read(self, name: str, files: Sequence[str]) -> tuple[Document, dict[str, bytes], str]:
        """Header and files of a checkpoint, and its fingerprint."""
        folder = self.checkpoint(name)
        (header, found), mark = settled(folder, lambda: checkpoint.read_files(folder, files))
        return header, found, mark

    def summary(self) -> Document:
        """Its line in the list of runs."""
        facts, checkpoints = self.facts, self.checkpoints()
        last, train = checkpoints.get(LAST), facts.experiment.train
        # The newest of the history is the same as `last`, in half precision.
        shown = [(name, steps) for name, steps in checkpoints.items() if name == LAST or steps != last]
        scored = facts.kind != "other" and field_score(facts.experiment.agent) is not None
        return {
            "id": self.id,
            "title": self.title,
            "experiment": facts.experiment.name,
            "agent": agent_name(facts.experiment.agent),
            "seed": facts.seed,
            "world": facts.kind,
            "world_key": facts.world_key,
            "env_steps": max(checkpoints.values(), default=0) if last is None else last,
            "planned_steps": train.steps,
            "state": self.state(last),
            "checkpoints": [{"name": name, "env_steps": steps} for name, steps in shown],
            "has_graph": bool(checkpoints) and self._has_graph(next(reversed(checkpoints))),
            "has_field": bool(checkpoints) and scored,
            "can_play": bool(checkpoints),
            "levels": list(facts.experiment.eval.levels),
            "finding": self._finding(),
        }

    def state(self, last: int | None) -> str:
        """`training`, `finished`, `stopped` or `gone`, given the steps of its last checkpoint."""
        if _stamp(self.folder.config) is None:
            return "gone"
        if last is not None and last >= self.facts.experiment.train.steps:
            return "finished"
        files = ("config.json", "train.csv", "eval.csv", "episodes.csv", "checkpoints")
        times = [stamp[0] for name in files if (stamp := _stamp(self.folder.path / name)) is not None]
        return "training" if time.time() - max(times, default=0) / 1e9 < FRESH else "stopped"

    def _finding(self) -> str | None:
        """Why it most likely fails, in one line, once it was evaluated; asked again when a file is new."""
        files = ("eval.csv", "episodes.csv", "random.csv", "checkpoints/last/format.json")
        stamps = tuple(_stamp(self.folder.path / name) for name in files)
        if stamps[1] is None:
            return None
        if self._found is None or self._found[0] != stamps:
            try:
                self._found = (stamps, run_line(self.folder.path))
            except SflError:  # rows are being written: the line before it is shown until they are whole
                return None if self._found is None else self._found[1]
        return self._found[1]

    def _last_steps(self) -> int | None:
        return self._remember(
            "steps", LAST, "format.json", lambda place: int(checkpoint.read_files(place, ())[0]["env_steps"])
        )

    def _has_graph(self, name: str) -> bool:
        return bool(
            self._remember(
                "graph",
                name,
                "graph.npz",
                lambda place: "edge_sources.npy" in _members(place / "graph.npz"),
            )
        )

    def _remember(self, what: str, name: str, file: str, read: Callable[[Path], Result]) -> Result | None:
        """What `read` says of a checkpoint, asked again when its file is another one; None where it cannot be read."""
        for _ in range(RENAMES):
            place = _place(self.folder.checkpoints / name)
            if place is None:
                return None
            stamp = _stamp(place / file)
            if what in self._remembered and self._remembered[what][0] == (place / file, stamp):
                known: Result = self._remembered[what][1]
                return known
            try:
                found = read(place)
            except (SflError, OSError, ValueError, TypeError, zipfile.BadZipFile):
                continue  # damaged, or it was renamed since: then it is found at another place now
            self._remembered[what] = ((place / file, stamp), found)
            return found
        return None


class Shelf:
    """All runs that were named or lie in folders that were, in their order; those begun meanwhile come last."""

    def __init__(self, paths: Sequence[Path | str], keeps: bool = True) -> None:
        """`keeps`: what is worked out may be kept in a folder `studio` of the run."""
        self._paths, self._keeps = [Path(path) for path in paths], keeps
        self._lock = threading.Lock()
        self._next_look = time.monotonic() + AGAIN
        self._looks: Counter[tuple[Path, Any]] = Counter()  # of the config.json that was no run's, as it then was
        self._runs: dict[str, Run] = {}
        for folder in dict.fromkeys(folder for path in self._paths for folder in run_folders(path)):
            self._add(Run(f"r{len(self._runs)}", folder, keeps))

    @property
    def runs(self) -> list[Run]:
        """In the order of their numbers."""
        return list(self._runs.values())

    def run(self, run_id: str) -> Run:
        """One of them."""
        if run_id not in self._runs:
            raise NotHereError(f"There is no run {run_id[:20]!r}; there are r0 to r{len(self._runs) - 1}.")
        return self._runs[run_id]

    def chosen(self, text: str) -> list[Run]:
        """Those that a list such as `r0,r2` names."""
        return [self.run(word) for word in dict.fromkeys(text.split(",")) if word]

    def look_again(self) -> None:
        """Take up runs that were begun in the folders meanwhile; asked often, it looks seldom."""
        with self._lock:
            begin = time.monotonic()
            if begin < self._next_look:
                return
            known = {run.folder.path for run in self.runs}
            for folder in dict.fromkeys(folder for path in self._paths for folder in configured(path, known)):
                self._try(folder)
            end = time.monotonic()
            self._next_look = end + max(AGAIN, PATIENCE * (end - begin))

    def _try(self, folder: Path) -> None:
        """A new run; a file that is none, or only half written yet, is read again once it is another."""
        stamp = (folder, _stamp(folder / "config.json"))
        if self._looks[stamp] > 1:
            return
        try:
            self._add(Run(f"r{len(self._runs)}", folder, self._keeps))
        except (SflError, OSError) as error:
            self._looks[stamp] += 1
            if self._looks[stamp] > 1:  # nobody is writing it
                note(f"left out: {error}")

    def _add(self, run: Run) -> None:
        self._runs = {**self._runs, run.id: run}  # whoever reads it meanwhile has the one before


def run_folders(path: Path) -> list[Path]:
    """The run itself, or all runs below a folder."""
    if not path.exists():
        raise UsageError(f"{path} does not exist; give a run folder such as runs/fourroom-sfl/seed-0000.")
    if (path / "config.json").is_file():
        read_config(path)
        return [path.resolve()]
    found = [folder for folder in configured(path, set()) if _is_run(folder)]
    if not found:
        raise UsageError(f"{path} holds no run (no config.json); give a run folder or a folder of runs.")
    return found


def configured(path: Path, known: Set[Path]) -> Iterator[Path]:
    """Folders with a config.json, a given one and all below it; what is known is not looked into again."""
    for place, below, files in os.walk(path):
        folder = Path(place).resolve()
        below.sort()
        if folder in known:
            below.clear()
        elif "config.json" in files:
            yield folder


def _is_run(path: Path) -> bool:
    try:
        read_config(path)
    except UsageError as error:
        note(f"left out: {error}")
        return False
    return True


def fingerprint(folder: Path) -> str | None:
    """Of a checkpoint: equal as long as no file of it is another; None where there is none."""
    place = _place(folder)
    try:
        body = b"" if place is None else read_bytes(place / "format.json")
    except (OSError, FileError):
        return None
    return None if place is None else hashlib.sha256(body).hexdigest()[:16]


def settled(folder: Path, read: Callable[[], Result]) -> tuple[Result, str]:
    """What `read` finds in a checkpoint that is the same before and after, and its fingerprint.

    A checkpoint that changes meanwhile is read again; one that is damaged and stays as it is is an error.
    """
    for _ in range(ATTEMPTS):
        before = fingerprint(folder)
        try:
            found = read()
        except (CheckpointError, OSError, ValueError) as error:
            if before is not None and fingerprint(folder) == before:
                raise CheckpointError(str(error)) from error
        else:
            if before is not None and fingerprint(folder) == before:
                return found, before
        time.sleep(PAUSE)
    if fingerprint(folder) is None:
        raise NotHereError(f"Checkpoint {folder.name} is not there any more.")
    raise NotReadyError(f"Checkpoint {folder.name} is being replaced; try again.")


def _place(folder: Path) -> Path | None:
    """Where a checkpoint lies now: between two renames it has another name."""
    old = folder.with_name(folder.name + ".old")
    # The third look is for one that was renamed between the first two.
    return next((place for place in (folder, old, folder) if place.is_dir()), None)


def _members(archive: Path) -> list[str]:
    if not archive.is_file():  # a pipe would have to be waited for
        raise FileError(f"{archive} is no file.")
    with zipfile.ZipFile(archive) as packed:
        return packed.namelist()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """When a file was written last, which file it is, and its size; None where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
