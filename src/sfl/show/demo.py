"""The demonstration: train, evaluate beside the random policy, draw."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from sfl.run.chance import read_random
from sfl.run.compare import outcome_cells
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.settings import Experiment
from sfl.run.train import train
from sfl.show.draw import draw
from sfl.show.video import record


def fresh_runs_dir(runs_dir: Path | str) -> Path:
    """A folder `demo-YYYYMMDD-HHMMSS` for this demonstration only, so that it can be run again and again."""
    return Path(runs_dir) / time.strftime("demo-%Y%m%d-%H%M%S")


@dataclass(frozen=True)
class Demonstration:
    """What a demonstration has to show."""

    cells: list[list[str]]
    """The table of both policies, headings first."""
    files: list[Path]
    """Figures and video."""


def demonstrate(experiment: Experiment, seed: int, runs_dir: Path | str, device: str, threads: int) -> Demonstration:
    """Train the experiment in a folder of its own, compare it with the random policy and draw what it learned."""
    folder = train(experiment, seed, fresh_runs_dir(runs_dir), device, threads)
    cells = comparison_cells(experiment, folder)
    return Demonstration(cells, [*draw([folder.path]), record(folder.path)])


def comparison_cells(experiment: Experiment, folder: RunFolder) -> list[list[str]]:
    """The table of both policies, headings first."""
    rows = read_episodes(folder.episodes)
    last = max(row.env_steps for row in rows)
    ours = outcome_cells([row for row in rows if row.env_steps == last])
    chance = outcome_cells(read_random(folder.path))
    named = [[experiment.name, *cells] for cells in ours[1:]] + [["random policy", *cells] for cells in chance[1:]]
    return [["policy", *ours[0]], *named]
