"""SFL in three lines of Python: make it, let it learn, ask it for actions."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from sfl.api import Agent, EnvSpec, Observation, Policy
from sfl.config import from_json, require, to_json
from sfl.errors import FileError, UsageError
from sfl.files import read_json, write_text
from sfl.method.config import recommended
from sfl.registry import AgentConfig, agent_name, make_agent, require_settings
from sfl.run import checkpoint
from sfl.run.compare import TaskSet, require_seed
from sfl.run.evaluate import EpisodeRow, Label, env_name, evaluate
from sfl.run.folder import RunFolder, load_run
from sfl.run.inputs import describe_input
from sfl.run.log import note
from sfl.run.machine import resolve
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.seeding import spawn
from sfl.worlds import (
    EnvConfig,
    GoalWrapper,
    Task,
    draw_tasks,
    is_goal_env,
    make_env,
)
from sfl.worlds.config import config_of, is_config
from sfl.worlds.gym import env_spec, kind_of_goal_env
from sfl.worlds.observations import ObservationKind
from sfl.worlds.session import Env, EnvSession

EnvLike = str | Env | EnvConfig | gymnasium.vector.VectorEnv[Any, Any, Any] | Callable[[], Env] | Sequence[Env]


class SFL:
    """An agent and the environments it learns in.

    `env` is a Gymnasium id, a configuration, an environment, a function that makes one, or several environments to
    learn in at once, also as a Gymnasium vector that runs them in this process.
    Environments that do not give goal observations are wrapped in `GoalWrapper`.

        agent = SFL("sfl/FourRoom-v0").learn(20_000)
        action = agent.predict(observation, goal)
    """

    def __init__(self, env: EnvLike, config: AgentConfig | None = None, seed: int = 0, device: str = "auto") -> None:
        require_seed(seed)
        envs = _environments(env)
        worlds = {id(one.unwrapped) for one in envs}
        require(len(worlds) == len(envs), "The list holds one environment twice; make each anew.")
        config = recommended() if config is None else require_settings(config)
        line = describe_input(_kind_of_all(envs), config)
        spec = env_spec(envs[0], len(envs))
        note(line)
        self._set_up(make_agent(config, spec, seed, resolve(device)), config, spec, seed, envs, env_name(envs[0]))

    def _set_up(
        self, agent: Agent, config: AgentConfig, spec: EnvSpec, seed: int, envs: list[Env], env_name: str
    ) -> None:
        self.agent, self.config, self.spec, self.seed = agent, config, spec, seed
        self.envs, self.env_name = envs, env_name
        self.env_steps = 0
        self._format = checkpoint.FORMAT
        self._session = EnvSession(envs, FreeEpisodes(spawn(seed, ["env"])["env"]))
        self._policy: Policy | None = None
        self._goal: Observation | None = None

    def learn(self, steps: int) -> SFL:
        """Explore and learn for this many environment steps more, without any reward or goal."""
        _require_count(steps, "steps", 0)
        saved, now = self._format, checkpoint.FORMAT
        require(
            saved == now, f"This agent was saved in format {saved}; it acts, and only agents of format {now} learn on."
        )
        end = self.env_steps + steps
        self._policy = None
        self._need_envs()
        for step in rollout(self.agent, self._session, learner=self.agent) if steps else ():
            self.env_steps += len(step.poses)
            if self.env_steps >= end:
                break
        return self

    def predict(self, observation: Any, goal: Observation) -> int:
        """The next action on the way to `goal`, an observation seen there.

        Call it once for each step of an episode: it remembers its route between calls. `reset` starts a new episode;
        so does another goal. `observation` may be an array or the environment's whole dictionary.
        """
        whole = isinstance(observation, dict)
        require(
            not whole or "observation" in observation,
            "A dictionary of observations must have the entry observation, as the environments in agent.envs give it.",
        )
        seen = self._checked(observation["observation"] if whole else observation, "observation")
        goal = self._checked(goal, "goal")
        if self._policy is None:
            self._policy = self.agent.policy(self.seed)
            self._goal = None
        if self._goal is None or not np.array_equal(self._goal, goal):
            self._goal = np.array(goal)
            self._policy.begin_episode(0, self._goal)
        return int(self._policy.act(seen[None], np.zeros(1, np.int64))[0])

    def _checked(self, given: Any, what: str) -> Observation:
        """An observation as the agent knows them."""
        try:
            array, kind = np.asarray(given), np.dtype(self.spec.observation_dtype)
        except ValueError as error:
            raise UsageError(f"The {what} is no array: {error}.") from error
        known = self.spec.observation_shape
        require(array.shape == known, f"The {what} has shape {array.shape}, this agent knows {known}.")
        numbers = array.dtype.kind in "biuf"
        require(numbers, f"The {what} has {array.dtype} in it, this agent knows {kind}.")
        finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        require(finite, f"The {what} holds numbers that are not finite; nothing like it was ever learned.")
        fits = np.can_cast(array.dtype, kind, "same_kind") or np.array_equal(array, array.astype(kind))
        require(fits, f"The {what} has {array.dtype} numbers that are no {kind}, which this agent knows.")
        return array

    def reset(self) -> None:
        """A new episode starts: forget the route of the last one."""
        self._goal = None

    def evaluate(self, tasks: TaskSet | Sequence[Task] | None = None, episodes: int = 100) -> list[EpisodeRow]:
        """Run tasks (by default `episodes` random ones) in the agent's own environments, one row each."""
        self._need_envs()
        _require_count(episodes, "episodes", 1)
        if isinstance(tasks, TaskSet):
            tasks = tasks.tasks
        if tasks is not None and not (isinstance(tasks, Sequence) and all(isinstance(task, Task) for task in tasks)):
            raise UsageError("evaluate takes a list of sfl.worlds.Task; without one it draws `episodes` of them.")
        if tasks is None:
            tasks = draw_tasks(self.envs[0], "any", episodes, spawn(self.seed, ["eval/any"])["eval/any"])
        label = Label("", agent_name(self.config), self.seed, self.env_steps)
        rows = evaluate(self.agent, self.envs, tasks, seed=self.seed, label=label)
        self._session.abandon()
        return rows

    def save(self, path: Path | str) -> None:
        """Write the agent to a folder: weights, graph, replay and settings, without pickle."""
        target = _path(path)
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
        if RunFolder(_path(path)).config.is_file():
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
        name = env_name(envs[0]) if envs else from_json(str, body["env"], f"{file}: env")
        made = cls.__new__(cls)
        made._set_up(make_agent(config, spec, seed, resolve(device)), config, spec, seed, envs, name)
        snapshot = checkpoint.load(Path(path) / "checkpoint", name, env_spec(envs[0], len(envs)) if envs else spec)
        made._check_env_count()
        checkpoint.load_agent(made.agent, Path(path), snapshot)
        made.env_steps, made._format = snapshot.env_steps, snapshot.format
        return made

    @classmethod
    def _of_run(cls, path: Path | str, env: EnvLike | None, device: str) -> SFL:
        run = load_run(path, device=device)
        config, count = run.experiment.env, run.experiment.train.env_count
        envs = [make_env(config) for _ in range(count)] if env is None else _environments(env)
        made = cls.__new__(cls)
        made._set_up(run.agent, run.experiment.agent, env_spec(envs[0], count), run.seed, envs, config.world_name())
        made._check_env_count()
        made.env_steps, made._format = run.env_steps, run.format
        return made

    def _check_env_count(self) -> None:
        count = self.spec.env_count
        require(len(self.envs) in (0, count), f"This agent learns in {count} environments, got {len(self.envs)}.")

    def _need_envs(self) -> None:
        require(bool(self.envs), "This agent was loaded without an environment; give one: SFL.load(path, env).")


def _environments(env: EnvLike) -> list[Env]:
    if isinstance(env, str):
        return [config_of(env).make()]
    if is_config(env):
        return [env.make()]
    if isinstance(env, gymnasium.Env):
        return [env if is_goal_env(env) else GoalWrapper(env)]
    if isinstance(env, gymnasium.vector.VectorEnv):
        return _environments(_inside(env))
    if callable(env):
        require(_needs_nothing(env), "The function that makes an environment must need no argument: lambda: make(...).")
        return _environments(env())
    if not isinstance(env, Sequence):
        raise UsageError(
            f"SFL learns in a Gymnasium id, an environment, a function that makes one, or a list of environments; got "
            f"{type(env).__name__}."
        )
    require(len(env) > 0, "SFL needs one environment or more, got an empty list.")
    return [wrapped for one in env for wrapped in _environments(one)]


def _needs_nothing(make: Callable[..., Any]) -> bool:
    try:
        inspect.signature(make).bind()
    except TypeError:
        return False
    except ValueError:  # some built-in ones do not say
        return True
    return True


def _inside(vector: gymnasium.vector.VectorEnv[Any, Any, Any]) -> list[Env]:
    """The environments of a vector that runs them in this process: SFL steps them itself, each at its own pace."""
    if isinstance(vector, gymnasium.vector.SyncVectorEnv):
        return list(vector.envs)
    raise UsageError(
        f"SFL cannot look into a {type(vector).__name__}; give it the environments: "
        f"SFL([gymnasium.make(ID) for _ in range({vector.num_envs})]), or make_vec(..., vectorization_mode='sync')."
    )


def _kind_of_all(envs: Sequence[Env]) -> ObservationKind:
    """What all show alike; the actions are as many in each."""
    kinds, specs = [kind_of_goal_env(env) for env in envs], [env_spec(env, 1) for env in envs]
    for number, spec in enumerate(specs):
        seen = [f"observations {one.observation_shape} and {one.action_count} actions" for one in (specs[0], spec)]
        require(
            spec == specs[0],
            f"Environments to learn in together must be alike; number 0 has {seen[0]}, number {number} has {seen[1]}.",
        )
    return kinds[0]


def _path(given: Any) -> Path:
    require(isinstance(given, str | os.PathLike), f"path must name a folder, got {given!r:.60}.")
    return Path(given)


def _require_count(count: Any, name: str, least: int) -> None:
    number = isinstance(count, int | float | np.integer | np.floating)
    require(number and count >= least and count % 1 == 0, f"{name} must be {least} or more, got {count!r}.")
