"""Our training loop without disk, clock and console, and experiments cut so that every part is at work soon."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfl.api import Transitions
from sfl.config import require
from sfl.method.config import SFLConfig
from sfl.registry import make_agent
from sfl.run.folder import env_spec
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import Experiment
from sfl.seeding import spawn
from sfl.worlds import MiniGridConfig, make_env
from sfl.worlds.session import EnvSession


@dataclass(frozen=True)
class Subject:
    """What is measured: SFL with learned features on MiniGrid."""

    name: str
    env: MiniGridConfig
    agent: SFLConfig
    env_count: int


def minigrid_only(experiment: Experiment) -> Subject:
    """An experiment as a subject; others than SFL on MiniGrid are refused."""
    env, agent = experiment.env, experiment.agent
    fits = isinstance(env, MiniGridConfig) and isinstance(agent, SFLConfig)
    require(fits, f"The benchmarks measure SFL on MiniGrid, {experiment.name} is something else.")
    assert isinstance(env, MiniGridConfig)
    assert isinstance(agent, SFLConfig)
    return Subject(experiment.name, env, agent, experiment.train.env_count)


def awake_at(subject: Subject, step: int) -> Subject:
    """The same with every part at work from this step on: both learners, and a graph that fills at once."""
    agent = subject.agent
    landmarks = replace(
        agent.landmarks, start_step=step, add_every=4 * subject.env_count, candidates_per_add=agent.landmarks.limit
    )
    awake = replace(
        agent,
        features=replace(agent.features, start_step=step, stop_step=0),
        successor=replace(agent.successor, start_step=step),
        landmarks=landmarks,
    )
    return replace(subject, agent=awake)


class TrainingLoop:
    """The loop of `sfl train` without its tables and evaluations."""

    def __init__(self, subject: Subject, seed: int = 0) -> None:
        envs = [make_env(subject.env, goal_terminates=False) for _ in range(subject.env_count)]
        self.agent = make_agent(subject.agent, env_spec(envs[0], len(envs)), seed, "cpu")
        session = EnvSession(envs, FreeEpisodes(spawn(seed, ["env"])["env"]))
        self._steps = rollout(self.agent, session, learner=self.agent)

    def step(self) -> Transitions:
        """One step of every environment, and the learning that it calls for."""
        return next(self._steps).transitions
