"""SFL in three lines of Python: make it, let it learn, ask it for actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sfl.agents import AgentConfig, agent_name, make_agent
from sfl.agents.sfl.config import recommended
from sfl.core.config import from_json, require, to_json
from sfl.core.errors import FileError, UsageError
from sfl.core.files import read_json, write_text
from sfl.core.seeding import spawn
from sfl.data.types import Agent, EnvSpec, Observation, Policy
from sfl.envs import (
    DOOM_ID,
    DoomConfig,
    GoalWrapper,
    GymConfig,
    MiniGridConfig,
    Task,
    draw_tasks,
    is_goal_env,
    make_env,
    world_name,
)
from sfl.run import checkpoint
from sfl.run.device import resolve
from sfl.run.evaluate import EpisodeRow, Label, evaluate
from sfl.run.folder import RunFolder, env_spec, load_run
from sfl.run.rollout import Env, EnvSession, FreeEpisodes, rollout

EnvLike = str | Env | Callable[[], Env] | Sequence[Env]


class SFL:
    """An agent and the environments it learns in.

    `env` is a Gymnasium id, an environment, a function that makes one, or several environments to learn in at once.
    Environments that do not give goal observations are wrapped in `GoalWrapper`.

        agent = SFL("sfl/FourRoom-v0").learn(20_000)
        action = agent.predict(observation, goal)
    """

    def __init__(self, env: EnvLike, config: AgentConfig | None = None, seed: int = 0, device: str = "auto") -> None:
        envs = _environments(env)
        config = recommended() if config is None else config
        spec = env_spec(envs[0], len(envs))
        self._set_up(make_agent(config, spec, seed, resolve(device)), config, spec, seed, envs, _env_name(envs[0]))

    def _set_up(
        self, agent: Agent, config: AgentConfig, spec: EnvSpec, seed: int, envs: list[Env], env_name: str
    ) -> None:
        self.agent, self.config, self.spec, self.seed = agent, config, spec, seed
        self.envs, self.env_name = envs, env_name
        self.env_steps = 0
        self._session = EnvSession(envs, FreeEpisodes(spawn(seed, ["env"])["env"]))
        self._policy: Policy | None = None
        self._goal: Observation | None = None

    def learn(self, steps: int) -> SFL:
        """Explore and learn for this many environment steps more, without any reward or goal."""
        require(steps >= 0, f"steps must be 0 or more, got {steps}.")
        end = self.env_steps + steps
        self._policy = None
        self._need_envs()
        for step in rollout(self.agent, self._session) if steps else ():
            self.agent.observe(step.transitions)
            self.agent.update()
            self.env_steps += len(step.poses)
            if self.env_steps >= end:
                break
        return self

    def predict(self, observation: Any, goal: Observation) -> int:
        """The next action on the way to `goal`, an observation seen there.

        Call it once for each step of an episode: it remembers its route between calls. `reset` starts a new episode;
        so does another goal. `observation` may be an array or the environment's whole dictionary.
        """
        seen = observation["observation"] if isinstance(observation, dict) else np.asarray(observation)
        for array, what in ((seen, "observation"), (goal, "goal")):
            require(
                np.shape(array) == self.spec.observation_shape,
                f"The {what} has shape {np.shape(array)}, this agent knows {self.spec.observation_shape}.",
            )
        if self._policy is None:
            self._policy = self.agent.policy(self.seed)
            self._goal = None
        if self._goal is None or not np.array_equal(self._goal, goal):
            self._goal = np.array(goal)
            self._policy.begin_episode(0, self._goal)
        return int(self._policy.act(seen[None], np.zeros(1, np.int64))[0])

    def reset(self) -> None:
        """A new episode starts: forget the route of the last one."""
        self._goal = None

    def evaluate(self, tasks: Sequence[Task] | None = None, episodes: int = 100) -> list[EpisodeRow]:
        """Run tasks (by default `episodes` random ones) in the agent's own environments, one row each."""
        self._need_envs()
        if tasks is None:
            tasks = draw_tasks(self.envs[0], "any", episodes, spawn(self.seed, ["eval/any"])["eval/any"])
        label = Label("", agent_name(self.config), self.seed, self.env_steps)
        rows = evaluate(self.agent, self.envs, tasks, seed=self.seed, label=label)
        self._session.abandon()
        return rows

    def save(self, path: Path | str) -> None:
        """Write the agent to a folder: weights, graph, replay and settings, without pickle."""
        target = Path(path)
        ours = [(target / name).exists() for name in ("agent.json", "checkpoint")]  # one alone: its disk was full
        if target.exists() and not any(ours):
            raise UsageError(f"{target} exists and is no saved agent; choose another path.")
        target.mkdir(parents=True, exist_ok=True)
        snapshot = checkpoint.Checkpoint(self.agent.state_dict(), self.env_name, self.spec, self.env_steps)
        checkpoint.save(target / "checkpoint", snapshot)
        body = {"agent": to_json(self.config), "spec": to_json(self.spec), "env": self.env_name, "seed": self.seed}
        write_text(target / "agent.json", json.dumps(body, indent=2) + "\n")

    @classmethod
    def load(cls, path: Path | str, env: EnvLike | None = None, device: str = "auto") -> SFL:
        """Read an agent saved by `save`, or the last checkpoint of a run folder.

        Without `env` a saved agent can predict; to learn or evaluate it needs one. A run knows its own.
        """
        if RunFolder(Path(path)).config.is_file():
            return cls._of_run(path, env, device)
        file = Path(path) / "agent.json"
        if not file.is_file():
            raise UsageError(f"{path} is neither a saved agent (agent.json) nor a run folder (config.json).")
        body = read_json(file)
        if not isinstance(body, dict) or not {"agent", "spec", "env", "seed"} <= body.keys():
            raise FileError(f"{file} is no saved agent: it must hold agent, spec, env and seed.")
        seed: int = from_json(int, body["seed"], f"{file}: seed")
        config, spec = from_json(AgentConfig, body["agent"], str(file)), from_json(EnvSpec, body["spec"], str(file))
        envs = [] if env is None else _environments(env)
        name = _env_name(envs[0]) if envs else from_json(str, body["env"], f"{file}: env")
        made = cls.__new__(cls)
        made._set_up(make_agent(config, spec, seed, resolve(device)), config, spec, seed, envs, name)
        snapshot = checkpoint.load(Path(path) / "checkpoint", name, env_spec(envs[0], len(envs)) if envs else spec)
        made._check_env_count()
        checkpoint.check_keys(Path(path), snapshot.agent.networks, made.agent.state_dict().networks)
        made.agent.load_state_dict(snapshot.agent)
        made.env_steps = snapshot.env_steps
        return made

    @classmethod
    def _of_run(cls, path: Path | str, env: EnvLike | None, device: str) -> SFL:
        run = load_run(path, device=device)
        config, count = run.experiment.env, run.experiment.train.env_count
        envs = [make_env(config) for _ in range(count)] if env is None else _environments(env)
        made = cls.__new__(cls)
        made._set_up(run.agent, run.experiment.agent, env_spec(envs[0], count), run.seed, envs, world_name(config))
        made._check_env_count()
        made.env_steps = run.env_steps
        return made

    def _check_env_count(self) -> None:
        count = self.spec.env_count
        require(len(self.envs) in (0, count), f"This agent learns in {count} environments, got {len(self.envs)}.")

    def _need_envs(self) -> None:
        require(bool(self.envs), "This agent was loaded without an environment; give one: SFL.load(path, env).")


def _env_name(env: Env) -> str:
    return type(env.unwrapped).__name__ if env.spec is None else env.spec.id


def _environments(env: EnvLike) -> list[Env]:
    if isinstance(env, str):
        ours = DoomConfig() if env == DOOM_ID else MiniGridConfig(env) if env.startswith("sfl/") else None
        return [make_env(GymConfig(env) if ours is None else ours)]
    if isinstance(env, gymnasium.Env):
        return [env if is_goal_env(env) else GoalWrapper(env)]
    if callable(env):
        return _environments(env())
    require(len(env) > 0, "SFL needs one environment or more, got an empty list.")
    return [wrapped for one in env for wrapped in _environments(one)]
