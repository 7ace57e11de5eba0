"""What runs read that no planned run makes: mazes, and files of weights. Said before hours are spent on the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sfl.agents.mss.config import FrameMSSConfig
from sfl.agents.sfl.config import FrameSFLConfig
from sfl.core.errors import SflError
from sfl.envs import DoomConfig
from sfl.learners.networks import NetworkConfig
from sfl.nn.weights import find_weights, read_card, read_header
from sfl.run.reproduce.plan import PlannedRun


def runs_without_sources(runs: Iterable[PlannedRun]) -> dict[str, list[PlannedRun]]:
    """The runs that would fail at their start, by the line that they would end with."""
    found: dict[str, list[PlannedRun]] = {}
    read: set[DoomConfig] = set()
    for run in runs:
        try:
            env = run.experiment.env
            if isinstance(env, DoomConfig) and env not in read:  # each maze once
                env.load()
                read.add(env)
            _look_for_weights(run)
        except SflError as error:
            found.setdefault(str(error), []).append(run)
    return found


def _look_for_weights(run: PlannedRun) -> None:
    agent = run.experiment.agent
    if isinstance(agent, FrameSFLConfig | FrameMSSConfig):
        read_card(find_weights(agent.frames.encoder if isinstance(agent, FrameSFLConfig) else agent.encoder))
    networks = agent.metric.networks if isinstance(agent, FrameSFLConfig) else ""
    if isinstance(agent, NetworkConfig):
        networks = agent.networks
    if networks and not any(folder in Path(networks).parents for folder in run.after):
        read_header(Path(networks))
