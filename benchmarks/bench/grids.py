"""Grids: steps per second beside the plain eager loop, where the time of a training step goes, what observing costs.

First the training loop that is measured, without disk, clock and console; then one measurement after the other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
from benchmarks.bench.eager import PlainLoop
from benchmarks.bench.measuring import Row, Sizes, Stopwatch, median_ratio, row, take_turns
from minigrid.wrappers import FullyObsWrapper

from sfl.api import Transitions
from sfl.errors import UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import SFLConfig
from sfl.method.feature_learning import FeatureLearner
from sfl.method.schedule import LearnedRepresentation
from sfl.method.successor_features import SuccessorLearner
from sfl.registry import make_agent
from sfl.replay.replay import SequenceReplay
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import Experiment
from sfl.seeding import spawn
from sfl.worlds import MiniGridConfig, make_env
from sfl.worlds.grids import GridWorld
from sfl.worlds.gym import env_spec
from sfl.worlds.session import EnvSession
from sfl.worlds.tasks import GoalObservation


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
    if env.kind != "grid" or not isinstance(agent, SFLConfig) or agent.states != "grid":
        raise UsageError(f"The benchmarks measure SFL on MiniGrid, {experiment.name} is something else.")
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


def measure_speed(subject: Subject, sizes: Sizes) -> list[Row]:
    """Environment steps per second of both, taking turns, over replays that hold the same steps."""
    ours, plain = TrainingLoop(awake_at(subject, sizes.fill_steps)), PlainLoop(subject)
    for _ in range(sizes.fill_steps // subject.env_count):
        plain.replay.add(ours.step())
    for _ in range(sizes.settle_steps // subject.env_count):
        ours.step()
    plain.step()
    block = max(1, sizes.block_steps // subject.env_count)
    seconds = take_turns({"ours": ours.step, "plain": plain.step}, sizes.rounds, block)
    rates = {name: subject.env_count / median(turns) for name, turns in seconds.items()}
    return [
        row("speed", f"{subject.name}: ours", rates["ours"], "steps/s"),
        row("speed", f"{subject.name}: plain eager loop", rates["plain"], "steps/s"),
        row("speed", f"{subject.name}: ratio", median_ratio(seconds["plain"], seconds["ours"]), "times", at_least=3),
    ]


def measure_observation(env_id: str, sizes: Sizes) -> list[Row]:
    """What observing the whole grid adds to a step."""
    cost = observation_cost(env_id, sizes.observation_steps)
    return [
        row("observation", f"{env_id}: ours", cost["ours_us"], "us"),
        row("observation", f"{env_id}: FullyObsWrapper", cost["fully_obs_wrapper_us"], "us"),
        row("observation", f"{env_id}: ratio", cost["ratio"], "times", at_least=10),
    ]


SPANS: dict[str, list[tuple[type, str]]] = {
    "environment": [(EnvSession, "begin_episodes"), (EnvSession, "step")],
    "observation": [(GridWorld, "gen_obs")],
    "replay": [(SFLAgent, "observe"), (SequenceReplay, "sample_triplets"), (SequenceReplay, "sample_n_step")],
    "encoder": [(LearnedRepresentation, "update"), (FeatureLearner, "encode")],
    "learner": [(SuccessorLearner, "step")],
    "graph": [(SFLAgent, "act"), (SFLAgent, "update")],
}
"""The methods that make up each part. A method's time is without that of those listed that it calls: what is left of
`LearnedRepresentation.update` is encoding for both losses and the encoder's gradient, and what is left of the agent's
methods is localizing, planning and acting."""


def measure_shares(subject: Subject, sizes: Sizes) -> list[Row]:
    """Milliseconds and percent of an environment step for each part, while everything learns.

    Where the encoder is frozen after some steps, also with the encoder frozen.
    """
    awake = awake_at(subject, sizes.fill_steps)
    rows = _shares(awake, subject.name, sizes)
    if subject.agent.features.stop_step:
        features = replace(awake.agent.features, updates_per_step=0.0)
        frozen = replace(awake, agent=replace(awake.agent, features=features))
        rows += _shares(frozen, f"{subject.name}, encoder frozen", sizes)
    return rows


def _shares(subject: Subject, name: str, sizes: Sizes) -> list[Row]:
    loop = TrainingLoop(subject)
    for _ in range((sizes.fill_steps + sizes.settle_steps) // subject.env_count):
        loop.step()
    watch, count = Stopwatch(), sizes.share_steps // subject.env_count
    with watch.watching(SPANS):
        begin = time.perf_counter()
        for _ in range(count):
            loop.step()
        total = time.perf_counter() - begin
    parts = {part: watch.seconds[part] for part in SPANS}
    parts["rest"] = total - sum(parts.values())
    per_step = 1e3 / (count * subject.env_count)
    rows = [row("step", f"{name}: all", total * per_step, "ms")]
    for part, seconds in parts.items():
        rows.append(row("step", f"{name}: {part}", seconds * per_step, "ms"))
        rows.append(row("step", f"{name}: {part}", 100 * seconds / total, "percent"))
    return rows


_ROUNDS = 5


class _BlindWorld(GridWorld):
    """The same world without its observation: what a step costs anyway."""

    def gen_obs(self) -> GoalObservation:
        return {}


def observation_cost(env_id: str, steps: int = 2000) -> dict[str, float]:
    """Microseconds per step of an `sfl/...` world, and of its observation: a step with it minus a step without.

    Each figure is the best of a few interleaved rounds, so that other work on the machine falls out.
    """
    seeing = gym.make(env_id, disable_env_checker=True).unwrapped
    blind = _BlindWorld(seeing.layout.name)  # type: ignore[attr-defined]
    wrapped = FullyObsWrapper(_BlindWorld(blind.layout.name))  # type: ignore[no-untyped-call]
    worlds: dict[str, gym.Env[Any, Any]] = {"blind": blind, "ours": seeing, "wrapped": wrapped}
    actions = np.random.Generator(np.random.PCG64(0)).integers(4, size=steps).tolist()
    rounds = [{name: _seconds(world, actions) for name, world in worlds.items()} for _ in range(_ROUNDS)]
    micro = {name: 1e6 / steps * min(seconds[name] for seconds in rounds) for name in worlds}
    ours, wrapper = micro["ours"] - micro["blind"], micro["wrapped"] - micro["blind"]
    return {"step_us": micro["ours"], "ours_us": ours, "fully_obs_wrapper_us": wrapper, "ratio": wrapper / ours}


def _seconds(env: gym.Env[Any, Any], actions: list[int]) -> float:
    """Time of a walk within one episode: time limits are only announced, never enforced, by `step`."""
    env.reset(seed=0, options={"goal": None})
    begin = time.perf_counter()
    for action in actions:
        env.step(action)
    return time.perf_counter() - begin
