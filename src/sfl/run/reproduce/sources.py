"""What runs read that no planned run makes: mazes, and files of weights. Said before hours are spent on the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sfl.agents.mss.config import FrameMSSConfig
from sfl.agents.sfl.config import FrameSFLConfig
from sfl.core.errors import SflError
from sfl.envs import DoomConfig
from sfl.learners.networks import NetworkConfig
from sfl.nn.weights import find_weights, read_card, require_networks
from sfl.run.reproduce.plan import PlannedRun


def runs_without_sources(runs: Iterable[PlannedRun]) -> dict[str, list[PlannedRun]]:
    """The runs that would fail at their start, by the line that they would end with, and those that read them."""
    found: dict[str, list[PlannedRun]] = {}
    failing: dict[Path, str] = {}
    read: set[DoomConfig] = set()
    runs = list(runs)
    for run in runs:
        try:
            env = run.experiment.env
            if isinstance(env, DoomConfig) and env not in read:  # each maze once
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
    if isinstance(agent, FrameSFLConfig | FrameMSSConfig):
        read_card(find_weights(agent.frames.encoder if isinstance(agent, FrameSFLConfig) else agent.encoder))
    networks = agent.metric.networks if isinstance(agent, FrameSFLConfig) else ""
    if isinstance(agent, NetworkConfig):
        networks = agent.networks
    if networks and not any(folder in Path(networks).parents for folder in run.after):
        needed = ["retrieval", "locomotion"] if isinstance(agent, NetworkConfig) else ["retrieval"]
        require_networks(networks, needed)
