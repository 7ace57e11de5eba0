"""Many `sfl/DoomMaze-v0` behind Gymnasium's vector interface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sfl.core.config import require
from sfl.data.types import Array
from sfl.envs.mazes import Maze, Textures
from sfl.envs.mazes.textures import PAPER_TEXTURES
from sfl.envs.tasks import GoalObservation
from sfl.envs.vector.pool import NO_ACTION, GameEpisode, GamePool
from sfl.envs.vizdoom.env import MAX_STEPS, chosen, load, observation_space
from sfl.envs.vizdoom.protocol import ACTIONS, DEFAULT_LIMITS, Limits
from sfl.envs.vizdoom.stacks import Stacks


class DoomVectorEnv(VectorEnv[GoalObservation, Array, Array]):
    """Many `sfl/DoomMaze-v0` at once; under the same seed it shows what as many single ones would.

    Sub-environment i is seeded with `seed + i`. An episode that has ended begins anew with the next step, which leaves
    the action out. The options of `reset`, `start` and `goal` as in the single environment, hold until the next reset.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        maze: str | Maze = "small",
        maze_dir: str | Path | None = None,
        textures: Textures = PAPER_TEXTURES,
        spawn: Literal["fixed", "random"] = "fixed",
        max_steps: int = MAX_STEPS,
        goal_terminates: bool = True,
        stack: int = 4,
        workers: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.num_envs = num_envs
        self.single_observation_space = observation_space(stack)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs: list[np.random.Generator] = [seeding.np_random()[0] for _ in range(num_envs)]
        self._options: dict[str, Any] | None = None
        self._stacks = Stacks(num_envs, stack)
        self.pool = GamePool(
            load(maze, maze_dir, textures),
            num_envs,
            workers=workers,
            halves=1,
            spawn=spawn,
            max_steps=max_steps,
            goal_terminates=goal_terminates,
            episodes=self._episode,
            limits=limits,
        )

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Start an episode in every game."""
        seeds = [seed + index for index in range(self.num_envs)] if isinstance(seed, int) else seed
        require(seeds is None or len(seeds) == self.num_envs, f"Give one seed or {self.num_envs}, got {seed}.")
        for index, one in enumerate(seeds or []):
            if one is not None:
                self._rngs[index], _ = seeding.np_random(one)
        self._options = options
        self.pool.restart()
        observation, *_, info = self.step(np.full(self.num_envs, NO_ACTION))
        return observation, info

    def step(self, actions: Array) -> tuple[GoalObservation, Array, Array, Array, dict[str, Any]]:
        """One action in every game whose episode runs; the others begin one."""
        self.pool.send(0, actions)
        step = self.pool.receive(0)
        self._stacks.push(step.frames, step.started)
        reward = (step.succeeded & ~step.started).astype(np.float64)
        info: dict[str, Any] = {"pose": step.poses, "is_success": step.succeeded, "restarts": step.restarts}
        info |= {f"_{name}": np.ones(self.num_envs, bool) for name in list(info)}
        return self._observation(), reward, step.terminated, step.truncated, info

    def _episode(self, game: int) -> GameEpisode:
        start, goal, picture = chosen(self.pool.places[game], self._options, self._rngs[game])
        require(picture is None, "Many games at once take goals as poses, not as pictures.")
        return GameEpisode(start, goal)

    def _observation(self) -> GoalObservation:
        rows = self._stacks.rows
        goals = np.broadcast_to(self.pool.goals(0)[:, None], rows.shape)
        return {"observation": rows.copy(), "achieved_goal": rows.copy(), "desired_goal": goals.copy()}

    def close_extras(self, **kwargs: Any) -> None:
        """End all games."""
        self.pool.close()
