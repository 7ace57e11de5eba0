"""A slim copy of a run to move or publish: what evaluation, plots and reports read, and nothing else."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from sfl.config import require
from sfl.errors import UsageError
from sfl.files import copy_file
from sfl.run import checkpoint
from sfl.run.folder import RunFolder, config_spec, usable_config
from sfl.run.inputs import FOLDER as INPUTS
from sfl.run.log import MOST_ROWS
from sfl.worlds import world_name

TEXTS = ("config.json", "system.json", "train.csv", "eval.csv", "episodes.csv", "random.csv", "tasks.json", "exam.npz")


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
    spec = config_spec(experiment.env, experiment.train.env_count)
    loaded = checkpoint.load(source.last, world_name(experiment.env), spec, learning=False)
    if not poses:
        loaded = replace(loaded, poses=())
    draft = target.path.with_name(target.path.name + ".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for name in TEXTS:
            if (source.path / name).exists():
                copy_file(source.path / name, draft / name, MOST_ROWS)
        if (source.path / INPUTS).is_dir():
            _copy_folder(source.path / INPUTS, draft / INPUTS)
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
