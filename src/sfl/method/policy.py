"""From what the agent sees to what it does: navigator for where, SFS for how. Training and evaluation share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sfl.api import GOAL, Array, Explanation, Observation
from sfl.fast.cuda import Fetched, Replayed, to_device
from sfl.method.config import EXACT, AnySFLConfig
from sfl.method.landmarks import LandmarkMemory, Routes, Sight
from sfl.method.navigator import Navigator, Sighting
from sfl.method.planner import Planner
from sfl.method.states import PsiSource
from sfl.method.successor import sfs_of_actions, unit


@dataclass(frozen=True)
class Choice:
    """What the last actions were chosen by; its tensors are good until the next ones are."""

    sight: Sight
    envs: list[int]  # [B]
    aims: dict[int, int]  # what the rows that go somewhere go to

    @property
    def targets(self) -> Array:
        """[B] what each row goes to; whatever for those that walk at random: the work is then of one shape."""
        targets = np.full(len(self.envs), next(iter(self.aims.values())))
        targets[list(self.aims)] = list(self.aims.values())
        return targets


class Walker:
    """Several environments, each with a navigator; actions are greedy in SFS with a share of random ones."""

    def __init__(
        self,
        config: AnySFLConfig,
        memory: LandmarkMemory,
        planner: Planner,
        rng: np.random.Generator,
        epsilon: float,
    ) -> None:
        self.memory, self.planner = memory, planner
        self._config, self._rng, self._epsilon = config, rng, epsilon
        self._goals: dict[int, Tensor] = {}
        self._navigators: dict[int, Navigator] = {}
        self._thoughts: dict[int, tuple[int | None, int | None]] = {}  # where it thinks it is, and where it goes
        self._choice: Choice | None = None
        self._draw = Replayed(self._drawn, memory.localizer.device)

    def begin_episode(self, env_index: int, source: PsiSource, goal: Observation | None) -> None:
        """A new episode, to a goal or to explore; the goal is joined to its most similar landmarks."""
        navigator = self._navigators.setdefault(env_index, Navigator(self._config.navigator))
        self.memory.localizer.reset(env_index)
        source.begin_episode(env_index)
        if goal is None:
            navigator.begin(None)
            return
        keys = source.keys(source.goal_state(goal))
        self._goals[env_index] = keys[0]
        localizer = self.memory.localizer
        similarity = localizer.sure(localizer.similarity(keys))[0].cpu().numpy()
        navigator.begin(np.argsort(-similarity, kind="stable")[: self._config.goal_links])

    def routes(self, env_indices: Array) -> Routes | None:
        """What these environments have ahead of them; None: nobody wants to know."""
        if self._config.navigator.reached != "similar":
            return None
        envs = env_indices.tolist()
        return Routes([self._navigators[env].ahead() for env in envs], self._goal_rows(envs))

    def _goal_rows(self, envs: list[int]) -> Tensor | None:
        """Keys [B, K] of the goals of environments, whatever for those without one; None: nobody has one."""
        goals = [self._goals.get(env) for env in envs]
        known = next((goal for goal in goals if goal is not None), None)
        return None if known is None else torch.stack([known if goal is None else goal for goal in goals])

    def choose(self, sight: Sight, env_indices: Array, step: int, action_count: int) -> tuple[Array, Array]:
        """Actions [B], and whether the random policy drew them [B] (a trip's random slips do not count)."""
        actions = self._rng.integers(action_count, size=len(env_indices))
        exploring = np.ones(len(env_indices), dtype=bool)
        aims: dict[int, int] = {}  # the targets of rows that go to one
        greedy: list[int] = []  # those of them that do not slip
        for row, env in enumerate(env_indices.tolist()):
            navigator = self._navigators[env]
            sighting = Sighting(sight.localized[row], sight.nearest[row], step, sight.ahead[row])
            target = navigator.step(sighting, self.planner, self.memory.set, self._rng)
            self._thoughts[env] = (sighting.localized, navigator.waypoint)
            exploring[row] = target is None
            if target is None:
                continue
            aims[row] = target
            if self._rng.random() >= self._epsilon:
                greedy.append(row)
        self._choice = Choice(sight, env_indices.tolist(), aims)
        if greedy:
            actions[greedy] = self._towards(self._choice)[greedy]
        return actions, exploring

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        if env_index not in self._thoughts:
            return Explanation()
        navigator, (localized, target) = self._navigators[env_index], self._thoughts[env_index]
        route = navigator.trip.route if navigator.trip is not None else ()
        return Explanation(localized, target, route, navigator.route_found, navigator.reached)

    @torch.no_grad()
    def weigh(self, env_index: int) -> Explanation:
        """The same, with the SFS of psi(s, a) to what the environment goes to, and whether it looks like the goal."""
        explained, choice = self.explain(env_index), self._choice
        row = choice.envs.index(env_index) if choice is not None and env_index in choice.envs else None
        if choice is None or row not in choice.aims:
            return explained
        psi, targets = choice.sight.psi, choice.targets
        wanted = self._wanted(to_device(targets, psi.device), targets, choice.envs)
        values = sfs_of_actions(psi, wanted[:, : psi.shape[2]])[row].tolist()
        goal, threshold = self._goals.get(env_index), self.memory.config.localize_threshold
        metric, here = self.memory.localizer.metric, choice.sight.here[row]
        near = goal is not None and threshold < EXACT and float(metric.each(here[None], goal[None])) > threshold
        return replace(explained, values=tuple(values), values_name="SFS of the target", arrived=near)

    def navigators(self) -> Iterable[Navigator]:
        """All of them, to read off what became of their trips."""
        return self._navigators.values()

    def _towards(self, choice: Choice) -> Array:
        """For each row of psi [B, A, F] the action [B] that is most similar to the row's target."""
        psi, targets = choice.sight.psi, choice.targets
        noise = self._rng.gumbel(size=psi.shape[:2]) if self._config.sharpness else np.empty((len(psi), 0))
        # All numbers in one copy.
        numbers = to_device(np.column_stack([targets, noise]).astype(np.float32), psi.device)
        wanted = self._wanted(numbers[:, 0].long(), targets, choice.envs)
        return np.asarray(Fetched(self._draw(psi, wanted, numbers[:, 1:])[0]).wait().numpy())

    def _wanted(self, places: Tensor, targets: Array, envs: list[int]) -> Tensor:
        """Keys [B, K] of targets [B], which are also on the device, as `places`."""
        goals = self._goal_rows(envs) if (targets == GOAL).any() else None
        if goals is not None and (targets == GOAL).all():
            return goals
        wanted = self.memory.localizer.rows.index_select(0, places.clamp_min(0))
        return wanted if goals is None else torch.where((places == GOAL).unsqueeze(1), goals, wanted)

    def _drawn(self, psi: Tensor, wanted: Tensor, noise: Tensor) -> tuple[Tensor]:
        """Actions [B] for psi [B, A, F] and targets [B, K]; the noise [B, A] is drawn where all chance is."""
        similarity = sfs_of_actions(psi, wanted[:, : psi.shape[2]])  # whatever the metric, actions go by SFS
        if self._config.sharpness:
            spread = similarity.std(1, keepdim=True).clamp_min(1e-9)
            # The best of log-odds with Gumbel noise is a draw with these odds.
            similarity = self._config.sharpness / spread * similarity + noise
        return (similarity.argmax(1),)

    def state(self) -> list[list[int]]:
        """Trips under way, for a checkpoint."""
        return [[env, *navigator.state()] for env, navigator in sorted(self._navigators.items())]

    def load_state(self, rows: list[list[int]]) -> None:
        """Take up trips under way."""
        for env, *numbers in rows:
            self._navigators[env] = Navigator(self._config.navigator)
            self._navigators[env].load_state(numbers)


class FrozenPolicy:
    """An agent as it was at one moment, with goals to go to and a generator of its own."""

    score, score_range = "SFS", (-1.0, 1.0)

    def __init__(self, walker: Walker, source: PsiSource, action_count: int) -> None:
        self._walker, self._source, self._action_count = walker, source, action_count

    @torch.no_grad()
    def begin_episode(self, env_index: int, goal: Observation | None) -> None:
        """A new episode to this goal."""
        self._walker.begin_episode(env_index, self._source, goal)

    @torch.no_grad()
    def act(self, observations: Array, env_indices: Array) -> Array:
        """Actions [B] along the shortest route to each environment's goal."""
        states = self._source.perceive(observations, env_indices)
        routes = self._walker.routes(env_indices)
        sight = self._walker.memory.see(self._source, states, env_indices, routes=routes)
        return self._walker.choose(sight, env_indices, 0, self._action_count)[0]

    def explain(self, env_index: int) -> Explanation:
        """What the last action of this environment was for."""
        return self._walker.explain(env_index)

    def weigh(self, env_index: int) -> Explanation:
        """`explain` with the values of the actions; good until the policy acts again."""
        return self._walker.weigh(env_index)

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
