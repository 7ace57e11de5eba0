"""Every experiment by its name, and what each is in a line."""

from __future__ import annotations

from collections.abc import Iterator

from sfl.errors import unknown_name
from sfl.experiments import baselines as rivals
from sfl.experiments import grids as sfl_grids
from sfl.experiments import mazes as sfl_mazes
from sfl.registry import agent_about
from sfl.run.settings import Experiment

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (*sfl_grids.experiments(), *sfl_mazes.experiments(), *rivals.experiments())
}


def names() -> list[str]:
    """All experiments, ours first."""
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    """An experiment by name; a name that does not exist is answered with the nearest that does."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS, "`sfl list` shows all.")
    return EXPERIMENTS[name]


def overview() -> Iterator[tuple[str, str]]:
    """Names and descriptions for `sfl list`; experiments that differ in the maze only share a line."""
    families: dict[str, list[Experiment]] = {}
    for experiment in EXPERIMENTS.values():
        families.setdefault(_family(experiment), []).append(experiment)
    for family, members in families.items():
        mazes = [member.env.maze for member in members if member.env.kind == "maze"]
        line = describe(members[0].name)
        yield family, f"{line}; MAZE: {', '.join(mazes)}" if "MAZE" in family else line


def _family(experiment: Experiment) -> str:
    """The name, with MAZE where it says which."""
    env = experiment.env
    return experiment.name.replace(f"-{env.maze}-", "-MAZE-") if env.kind == "maze" else experiment.name


SETTINGS = {
    "sfl": "SFL, our settings",
    "paper": "SFL, the paper's settings",
    "reachability": "SFL, the paper's settings with SPTM's reachability network as the metric",
}
"""What the first word of an experiment of SFL says; others are called after their method."""


def describe(name: str) -> str:
    """What an experiment is, in one line."""
    experiment = get(name)
    meaning = SETTINGS.get(name.split("-", maxsplit=1)[0]) or agent_about(experiment.agent)
    env = experiment.env
    where = f"{env.id}, {env.spawn} spawn" if env.kind == "maze" else env.id
    if env.kind == "maze" and f"-{env.maze}" not in name:
        where += ", in any maze: --env.maze NAME|FILE"
    if env.kind == "other":
        where += ", or any other world: --env.id ID"
    return f"{meaning}; {where}; {experiment.train.steps:,} steps"
