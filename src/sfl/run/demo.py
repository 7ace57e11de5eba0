"""The demonstration: train, evaluate beside the random policy, draw."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from sfl.agents import agent_name, make_agent
from sfl.agents.random_agent import RandomConfig
from sfl.run.config import Experiment
from sfl.run.evaluate import EpisodeRow, Label, eval_tasks, evaluate
from sfl.run.folder import RunFolder, config_spec, read_episodes
from sfl.run.judge import outcome_cells
from sfl.run.plots import draw
from sfl.run.train import train
from sfl.run.video import record


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
    cells = comparison_cells(experiment, folder, seed)
    return Demonstration(cells, [*draw([folder.path]), record(folder.path)])


def random_rows(experiment: Experiment, seed: int) -> list[EpisodeRow]:
    """The random policy on the very tasks that the experiment is evaluated on."""
    config = RandomConfig()
    agent = make_agent(config, config_spec(experiment.env), seed, "cpu")
    label = Label("random", agent_name(config), seed)
    tasks = eval_tasks(experiment.env, experiment.eval, seed)
    return evaluate(agent, experiment.env, tasks, seed=seed, parallel=experiment.eval.parallel, label=label)


def comparison_cells(experiment: Experiment, folder: RunFolder, seed: int) -> list[list[str]]:
    """The table of both policies, headings first."""
    rows = read_episodes(folder.episodes)
    last = max(row.env_steps for row in rows)
    ours = outcome_cells([row for row in rows if row.env_steps == last])
    chance = outcome_cells(random_rows(experiment, seed))
    named = [[experiment.name, *cells] for cells in ours[1:]] + [["random policy", *cells] for cells in chance[1:]]
    return [["policy", *ours[0]], *named]
