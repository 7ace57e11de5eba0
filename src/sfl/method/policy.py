"""The local policy pi_l: actions that are greedy in SFS to a waypoint or a goal (section 4.3, Eq. 8).

`LocalPolicy` leads several environments' agents, each by a navigator of its own; training and evaluation share it.
`FrozenPolicy` is the agent as it was at one moment, with goals to go to: what evaluations, films and users hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sfl.api import GOAL, Array, Decision, Observation
from sfl.fast.cuda import Fetched, Replayed, to_device
from sfl.method.config import EXACT, SFLConfig
from sfl.method.landmarks import Landmarks, Localization
from sfl.method.navigator import Navigator, Outcomes
from sfl.method.planner import Planner
from sfl.method.states import PsiSource
from sfl.method.successor_features import sfs_of_actions, unit


class LocalPolicy:
    """Decisions of several environments: a navigator says where to head, SFS says how to get there."""

    def __init__(
        self,
        config: SFLConfig,
        landmarks: Landmarks,
        planner: Planner,
        rng: np.random.Generator,
        epsilon: float,
    ) -> None:
        self.landmarks, self.planner, self.outcomes = landmarks, planner, Outcomes()
        self._config, self._rng, self._epsilon = config, rng, epsilon
        self.navigators: dict[int, Navigator] = {}
        self._goals: dict[int, Tensor] = {}  # their keys, [K] each
        self._decisions: dict[int, Decision] = {}  # the last of each environment
        self._last: tuple[Localization, list[int]] | None = None  # the last batch, and its environments
        self._psi_size = landmarks.psi_size  # in the ablation of the metric, keys hold R's numbers behind psi
        self._best = Replayed(self._best_actions, landmarks.device)

    def begin_episode(self, env_index: int, source: PsiSource, goal: Observation | None) -> None:
        """A new episode, to a goal or to explore; the goal is joined to its most similar landmarks."""
        navigator = self.navigators.setdefault(env_index, Navigator(self._config.navigator, self.outcomes))
        self.landmarks.begin_episode(env_index)
        source.begin_episode(env_index)
        if goal is None:
            navigator.begin(None)
            return
        keys = source.keys(source.goal_state(goal))
        self._goals[env_index] = keys[0]
        similarity = self.landmarks.aliasing.mask(self.landmarks.similarity(keys))[0].cpu().numpy()
        navigator.begin(np.argsort(-similarity, kind="stable")[: self._config.goal_links])

    def localize(self, source: PsiSource, states: Array | Tensor, env_indices: Array) -> Localization:
        """Ask where the agents are, and how near the next waypoints of their routes."""
        envs = env_indices.tolist()
        waypoints = [self.navigators[env].waypoints() for env in envs]
        goals = self._goal_keys(envs) if any(GOAL in route for route in waypoints) else None
        return self.landmarks.localize(source, states, env_indices, waypoints, goals)

    def act(self, here: Localization, decisions: Sequence[Decision], env_indices: Array, action_count: int) -> Array:
        """Complete the decisions, and take them: actions [B]."""
        actions = self._rng.integers(action_count, size=len(env_indices))
        self._last = here, env_indices.tolist()
        greedy: list[int] = []
        for row, (env, decision) in enumerate(zip(self._last[1], decisions, strict=True)):
            self.navigators[env].decide(decision, self.planner, self.landmarks.set, self._rng)
            self._decisions[env] = decision
            if decision.heading is not None and self._rng.random() >= self._epsilon:
                greedy.append(row)
        if greedy:
            actions[greedy] = self._greedy(here, decisions, self._last[1])[greedy]
        return actions

    def explain(self, env_index: int) -> Decision:
        """The last decision of this environment."""
        return self._decisions.get(env_index, Decision())

    @torch.no_grad()
    def action_values(self, env_index: int) -> Decision:
        """The same, with the SFS of psi(s, a) to what it heads for, and whether it takes what it sees for the goal."""
        decision = self.explain(env_index)
        if self._last is None or env_index not in self._last[1] or decision.heading is None:
            return decision
        (here, envs), goal = self._last, self._goals.get(env_index)
        row = envs.index(env_index)
        headings = self._headings([self._decisions[env] for env in envs])
        targets = self._target_psi(to_device(headings, here.psi.device), headings, envs)
        values = sfs_of_actions(here.psi, targets)[row].tolist()
        threshold = self.landmarks.config.localize_threshold
        arrived = goal is not None and threshold < EXACT
        if arrived and goal is not None:
            arrived = float(self.landmarks.compare_rows(here.keys[row][None], goal[None])) > threshold
        return replace(decision, values=tuple(values), values_name="SFS of the target", arrived=arrived)

    def _greedy(self, here: Localization, decisions: Sequence[Decision], envs: list[int]) -> Array:
        """Eq. 8: for each row the action [B] whose psi(s, a) is most similar to what the row heads for."""
        headings, psi = self._headings(decisions), here.psi
        noise = self._rng.gumbel(size=psi.shape[:2]) if self._config.sharpness else np.empty((len(psi), 0))
        # All numbers in one copy.
        numbers = to_device(np.column_stack([headings, noise]).astype(np.float32), psi.device)
        targets = self._target_psi(numbers[:, 0].long(), headings, envs)
        return np.asarray(Fetched(self._best(psi, targets, numbers[:, 1:])[0]).wait().numpy())

    def _best_actions(self, psi: Tensor, targets: Tensor, noise: Tensor) -> tuple[Tensor]:
        """Actions [B] for psi [B, A, F] and targets [B, F]; the noise [B, A] is drawn where all chance is."""
        similarity = sfs_of_actions(psi, targets)
        if self._config.sharpness:
            spread = similarity.std(1, keepdim=True).clamp_min(1e-9)
            # The best of log-odds with Gumbel noise is a draw with these odds.
            similarity = self._config.sharpness / spread * similarity + noise
        return (similarity.argmax(1),)

    def _headings(self, decisions: Sequence[Decision]) -> Array:
        """[B] what each row heads for. Rows that act at random get any: the work is then always of one shape."""
        headings = [decision.heading for decision in decisions]
        some = next(heading for heading in headings if heading is not None)
        return np.array([some if heading is None else heading for heading in headings])

    def _target_psi(self, places: Tensor, headings: Array, envs: list[int]) -> Tensor:
        """Unit psi [B, F] of what the rows head for [B], which is also on the device, as `places`."""
        goals = self._goal_keys(envs) if (headings == GOAL).any() else None
        if goals is not None and (headings == GOAL).all():
            return goals[:, : self._psi_size]
        keys = self.landmarks.keys.index_select(0, places.clamp_min(0))
        keys = keys if goals is None else torch.where((places == GOAL).unsqueeze(1), goals, keys)
        return keys[:, : self._psi_size]

    def _goal_keys(self, envs: list[int]) -> Tensor | None:
        """Keys [B, K] of the goals of environments, any for those without one; None: no environment has one."""
        goals = [self._goals.get(env) for env in envs]
        known = next((goal for goal in goals if goal is not None), None)
        return None if known is None else torch.stack([known if goal is None else goal for goal in goals])

    def state(self) -> list[list[int]]:
        """Trips under way, for a checkpoint."""
        return [[env, *navigator.state()] for env, navigator in sorted(self.navigators.items())]

    def load_state(self, rows: list[list[int]]) -> None:
        """Go on with trips under way."""
        for env, *numbers in rows:
            self.navigators[env] = Navigator(self._config.navigator, self.outcomes)
            self.navigators[env].load_state(numbers)


class FrozenPolicy:
    """An agent as it was at one moment, with goals to go to and a generator of its own."""

    score, score_range = "SFS", (-1.0, 1.0)

    def __init__(self, local: LocalPolicy, source: PsiSource, action_count: int) -> None:
        self._local, self._source, self._action_count = local, source, action_count

    @torch.no_grad()
    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """A new episode to this goal."""
        self._local.outcomes.clear()  # only training reads them
        self._local.begin_episode(env_index, self._source, goal)

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B] along the shortest route to each environment's goal."""
        here = self._local.localize(self._source, self._source.perceive(observations, env_indices), env_indices)
        return self._local.act(here, here.decisions(), env_indices, self._action_count)

    def explain(self, env_index: int) -> Decision:
        """The last decision of this environment."""
        return self._local.explain(env_index)

    def action_values(self, env_index: int) -> Decision:
        """`explain` with the values of the actions; good until the policy acts again."""
        return self._local.action_values(env_index)

    def sfs(self, observations: Array, references: Array) -> Array:
        """SFS of observations [B, ...] to references [R, ...], [B, R]; a frame stands for standing still before it."""
        seen = self.embed(observations)
        return self.compare(seen, seen if references is observations else self.embed(references))

    @torch.no_grad()
    def embed(self, observations: Array) -> Array:
        """Unit psi [N, F] of observations [N, ...]."""
        rows = [self._source.psi(self._source.goal_state(row)).mean(1) for row in observations]
        return np.asarray(unit(torch.cat(rows)).cpu().numpy())

    def compare(self, embedded: Array, references: Array) -> Array:
        """SFS [N, R] of unit psi [N, F] and [R, F]."""
        return np.asarray(embedded @ references.T)
