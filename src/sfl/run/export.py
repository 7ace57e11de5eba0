"""A slim copy of a run to move or publish: what evaluation, plots and reports read, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

from sfl.core.errors import UsageError
from sfl.envs import world_name
from sfl.run import checkpoint
from sfl.run.folder import RunFolder, config_spec, read_config

TEXTS = ("config.json", "system.json", "train.csv", "eval.csv", "episodes.csv", "tasks.json")


def export(path: Path | str, out: Path | str | None = None) -> RunFolder:
    """Copy configuration, tables and the last checkpoint without replay and optimiser."""
    experiment, seed = read_config(path)
    source = RunFolder(Path(path))
    target = RunFolder(Path(out) if out else Path(f"{experiment.name}-seed-{seed:04d}"))
    if target.path.exists():
        raise UsageError(f"{target.path} exists already; choose another place with --out.")
    spec = config_spec(experiment.env, experiment.train.env_count)
    loaded = checkpoint.load(source.last, world_name(experiment.env), spec)
    draft = target.path.with_name(target.path.name + ".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for name in TEXTS:
            if (source.path / name).exists():
                shutil.copyfile(source.path / name, draft / name)
        checkpoint.save(RunFolder(draft).last, loaded, "slim")
        draft.rename(target.path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target
