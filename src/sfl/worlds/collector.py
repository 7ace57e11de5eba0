"""The collector: finds out what a world has to ask, every state that can be reached or as many as a budget allows.

It knows no agent and no seed of a run, so that the exam of a world is the same for all methods and seeds. Sources, in
this order: the table of a world of toy text; breadth-first search over copies; long random walks that go on from where
few have been. What one leaves of the budget the next one has.

From above: `collect`, which of the worlds that vary are looked at, goals that the user gives, `_Explorer` with the
table and the search, `DistinctObservations`, and the walks.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from sfl.api import Array, Observation
from sfl.config import require
from sfl.errors import SflError
from sfl.seeding import draw_seed, spawn
from sfl.worlds.exam import EXAM_GOALS, EXAM_STEPS, GIVEN, NEVER_TWICE, NO_SEED, SEARCH, WALKS, Exam
from sfl.worlds.gym import GoalWrapper, env_name
from sfl.worlds.simulators import ResetSimulator, Simulator, View, is_plain, simulator_of

Tell = Callable[[str], None]

WORLDS = 10
"""Where worlds vary, so many of them are examined."""
START_RESETS = 8
"""Resets that show whether the start varies in a world that is reset with one seed."""
SEARCH_SHARE = 0.8
"""Of the budget; what a search does not finish, walks go on with."""
DRAWS = 5
"""Where chance decides, each action is tried so often."""
SPOT_CHECK, CHECKED_FIRST = 20, 200
"""One in so many actions, and each of the first, is tried again, to see whether chance or something unseen decides."""
MORE_WALKS = 20
"""Walks of so many times the steps of a search that finds nothing more look on: chance may decide, or what is seen may
not be the whole state."""
STRIDE = 50
"""Steps of a random walk before another begins elsewhere."""
TURNS = 10
"""Of straight ways and random walks, where no observation comes again."""
RESTARTS = 2_000
"""Places to go on from that walks remember."""
SAVED_BYTES = 2 * 10**9
"""Memory for saved states, after which a search stops."""
MOST_CELLS = 4_000
"""Where no observation comes again, the places that walks tell apart."""
RECUR_STEPS = 500
"""Of random walks that show whether float observations ever come again."""
TWICE_WALKS, TWICE_STEPS = 5, 20
"""Walks that show whether chance changes all that is seen, and their length."""
CANDIDATES = 4
"""So many times the goals that are kept are compared with one another."""
TELL_EVERY = 1_000
MOST_FAR = 10**9
"""Steps; what a sampler of goals gives beyond it is no distance."""


def collect(env: GoalWrapper, steps: int = EXAM_STEPS, most: int = EXAM_GOALS, tell: Tell | None = None) -> Exam:
    """The exam of a world, from at most about `steps` environment steps and with at most `most` goals.

    `env` is stepped: reset it before using it for anything else. `tell` hears from time to time how far it is.
    """
    with _chance_of_its_own():
        return _collected(env, steps, most, tell or (lambda line: None))


@contextmanager
def _chance_of_its_own() -> Iterator[None]:
    """Worlds that draw from Python's or NumPy's global generators show the collector the same in every run, too."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def _collected(env: GoalWrapper, steps: int, most: int, tell: Tell) -> Exam:
    rngs = spawn(0, ["exam", "exam/worlds", "exam/given"])
    if env.goals is not None:
        return _given(env, most, rngs["exam/given"])
    move = _usual_move_of_floats(env)
    seeds = _worlds(env, rngs["exam/worlds"])
    parts = []
    for seed in seeds:
        world = _Explorer(env, seed, rngs["exam"], move, tell)
        parts.append(world.explore(steps // len(seeds), max(1, most // len(seeds))))
    kept = [part for part in parts if part.views]
    if not kept:
        raise SflError(
            f"{sum(part.steps for part in parts):,} steps in {env_name(env)} met no observation but those that count "
            f"as the start: no goal to choose."
        )
    whole = sum(part.complete for part in parts)
    varying = f"in {len(seeds)} worlds ({whole} of them whole), in the first " if len(seeds) > 1 else ""
    return Exam(
        goals=np.array([view.observation for part in kept for view in part.views]),
        distances=np.array([distance for part in kept for distance in part.distances], np.int64),
        found=np.array([WALKS if walked else SEARCH for part in kept for walked in part.walked]),
        reset_seeds=np.concatenate(
            [np.full(len(p.views), seed if len(seeds) > 1 else NO_SEED) for p, seed in zip(parts, seeds, strict=True)]
        ).astype(np.int64),
        budget=env.max_steps,
        steps=sum(part.steps for part in parts),
        complete=all(part.complete for part in parts),
        note=f"{varying}{parts[0].note}{_warning(env)}",
    )


def _worlds(env: GoalWrapper, rng: np.random.Generator) -> list[int]:
    """Seeds of resets that show different worlds; one where the world is always the same."""
    if env.reset_seed is not None:
        return [0]
    seeds = [draw_seed(rng) for _ in range(WORLDS)]
    actions = rng.integers(env.action_space.n, size=STRIDE).tolist()  # type: ignore[attr-defined]
    return seeds if len({_look_of(env, seed, actions) for seed in seeds}) > 1 else seeds[:1]


def _look_of(env: GoalWrapper, seed: int, actions: list[int]) -> bytes:
    world = ResetSimulator(env)
    world.begin(seed)
    seen = [world.look().observation.tobytes()]
    for action in actions:
        ended = world.step(action)
        seen.append(world.look().observation.tobytes())
        if ended:
            break
    return b"".join(seen)


def usual_move(env: GoalWrapper) -> float | None:
    """None where two ways lead to the very same observation, or all that is seen are whole numbers, such as one-hot
    vectors, which no noise has touched; else the usual distance of two successive ones."""
    rng = spawn(0, ["exam/recurs"])["exam/recurs"]
    world, ways = ResetSimulator(env), dict[bytes, tuple[int, ...]]()
    moved, way, ended, episode, whole = list[float](), tuple[int, ...](), True, 0, True
    while world.steps < RECUR_STEPS:
        if ended:
            world.begin(episode)
            way, episode = (), episode + 1
        seen = world.look().observation
        whole = whole and bool((seen == np.round(seen)).all())
        if ways.setdefault(seen.tobytes(), way) != way:
            return None
        action = int(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        ended, way = world.step(action), (*way, action)
        moved.append(float(np.linalg.norm(np.subtract(world.look().observation, seen, dtype=float))))
        if not moved[-1]:  # standing still is no return
            way = way[:-1]
    few = len(ways) < RECUR_STEPS // 4  # so many steps show no more: their ways are repeated ones
    return None if few or whole else float(np.median([distance for distance in moved if distance]))


def _warning(env: GoalWrapper) -> str:
    """Where nothing is ever seen again, though it is no float: pictures with noise, or dozens of things that stray."""
    if env.goal_test != "equal" or not _never_twice(env):
        return ""
    return f"; {NEVER_TWICE}: give --env.goal-test distance with a radius, or --env.goal-test my_module:my_function"


def _never_twice(env: GoalWrapper) -> bool:
    """Whether the same actions from the same start, with other chance, show nothing that was seen before."""
    rng = spawn(0, ["exam/twice"])["exam/twice"]
    actions = rng.integers(env.action_space.n, size=TWICE_STEPS).tolist()  # type: ignore[attr-defined]
    world, seen = ResetSimulator(env), set[bytes]()
    for _ in range(TWICE_WALKS):
        world.begin(0)
        world.reseed(rng)
        for action in actions:
            ended = world.step(action)
            look = world.look().observation.tobytes()
            if look in seen:
                return False
            seen.add(look)
            if ended:
                break
    return len(seen) >= TWICE_STEPS


def _usual_move_of_floats(env: GoalWrapper) -> float | None:
    """The same, where observations are floats; `equal` is refused where it could never come true."""
    space: Any = env.observation_space
    if not np.issubdtype(space["observation"].dtype, np.floating):
        return None
    move = usual_move(env)
    require(
        move is None or env.goal_test != "equal",
        f"In {RECUR_STEPS} random steps {env_name(env)} never showed the same numbers again, so that no goal would "
        f"ever equal what is seen; give --env.goal-test distance with a radius, e.g. --env.radius {move or 0.0:.2g} "
        f"(the usual distance of two successive observations), or --env.goal-test my_module:my_function.",
    )
    return move


def _given(env: GoalWrapper, most: int, rng: np.random.Generator) -> Exam:
    assert env.goals is not None
    env.reset(seed=0, options={"goal": None})
    answer = env.goals(env, rng, most)
    goals, distances = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    name = getattr(env.goals, "__name__", "goals")
    some = (isinstance(goals, list) or (isinstance(goals, np.ndarray) and goals.ndim > 0)) and len(goals) > 0
    require(some, f"The sampler of goals {name} must give an array or a list of observations, got {answer!r:.60}.")
    goals = [env.checked_goal(goal) for goal in goals[:most]]
    require(
        all(bool(np.isfinite(goal).all()) for goal in goals),
        f"The sampler of goals {name} gave a goal with numbers that are not finite; leave it out.",
    )
    shown = " ".join(str(distances).split())
    far = np.zeros(len(goals), np.int64) if distances is None else _as_distances(distances)[:most]
    require(
        len(far) == len(goals),
        f"The sampler of goals {name} gave {len(goals)} goals and the distances {shown:.60}; "
        f"each goal needs its own, in steps, above 0.",
    )
    start = ResetSimulator(env)
    start.begin(0)
    open_goals = [not _reached(env, start.look(), goal) for goal in goals]
    require(any(open_goals), f"All goals of the sampler {name} are reached at the start.")
    return Exam(
        goals=np.array(goals)[open_goals],
        distances=np.ceil(far).astype(np.int64)[open_goals],
        found=np.full(sum(open_goals), GIVEN),
        reset_seeds=np.full(sum(open_goals), NO_SEED, np.int64),
        budget=env.max_steps,
        steps=0,
        complete=False,
        note=f"as {name} gave them",
    )


def _as_distances(given: Any) -> Array:
    """Those of a sampler; none where they make no sense as numbers of steps."""
    try:
        far = np.asarray(given).ravel()
    except ValueError:  # rows of several lengths
        return np.zeros(0)
    return far if np.issubdtype(far.dtype, np.number) and bool(((far > 0) & (far < MOST_FAR)).all()) else np.zeros(0)


def _reached(env: GoalWrapper, view: View, goal: Observation) -> bool:
    return bool(env.reached(view.observation, goal, view.info))


@dataclass
class _Explored:
    """What one world gave."""

    views: list[View]
    distances: list[int]
    walked: list[bool]
    steps: int
    complete: bool
    note: str


@dataclass
class _States:
    """States as numbers in the order in which they were found, and what each shows."""

    keeps_info: bool
    numbers: dict[Hashable, int] = field(default_factory=dict)
    distances: list[int] = field(default_factory=list)
    """Fewest steps from a start so far."""
    walked: list[bool] = field(default_factory=list)
    """Found by walks, not by search."""
    looks: list[int] = field(default_factory=list)
    """Number of the state -> number of what it shows: states that look the same are one goal."""
    _packed: list[bytes] = field(default_factory=list)
    _infos: list[dict[str, Any]] = field(default_factory=list)
    _look_numbers: dict[bytes, int] = field(default_factory=dict)

    def add(self, key: Hashable, view: View, distance: int, walked: bool = False) -> int:
        """A state that is new."""
        number = self.numbers[key] = len(self.distances)
        self.distances.append(distance)
        self.walked.append(walked)
        packed = zlib.compress(view.observation.tobytes(), 1)
        look = self._look_numbers.setdefault(packed, len(self._packed))
        if look == len(self._packed):
            self._packed.append(packed)
            self._infos.append(view.info if self.keeps_info else {})
            self.shape, self.dtype = view.observation.shape, view.observation.dtype
        self.looks.append(look)
        return number

    def by_distance(self) -> Iterator[tuple[int, bool, int]]:
        """Distance, whether by walks, and number of each look, nearest first."""
        best: dict[int, int] = {}
        for state, look in enumerate(self.looks):
            if look not in best or self.distances[state] < self.distances[best[look]]:
                best[look] = state
        for look, state in sorted(best.items(), key=lambda pair: (self.distances[pair[1]], pair[0])):
            yield self.distances[state], self.walked[state], look

    def view(self, look: int) -> View:
        """What was seen, with the info of that moment where a goal test may ask for it."""
        raw = np.frombuffer(zlib.decompress(self._packed[look]), self.dtype)
        return View(raw.reshape(self.shape), self._infos[look])


class _Explorer:
    """One world that is searched, then walked."""

    def __init__(self, env: GoalWrapper, seed: int, rng: np.random.Generator, move: float | None, tell: Tell) -> None:
        self.env, self.rng, self.move = env, rng, move
        self._seed, self._tell = seed, tell
        self.actions = int(env.action_space.n)  # type: ignore[attr-defined]
        self._reset()

    def _reset(self) -> None:
        self.found = _States(callable(self.env.goal_test))
        self.hidden = False
        """What is seen is not the whole state."""
        self._led: dict[tuple[int, int], int] = {}
        self.starts: list[View] = []

    def explore(self, budget: int, most: int) -> _Explored:
        """Find states, and choose goals among them."""
        if (part := self._from_table(budget)) is None:
            part = self._from_steps(budget)
        part.views, part.distances, part.walked = self._chosen(most)
        return part

    def _from_table(self, budget: int) -> _Explored | None:
        """The world's own table of transitions, if it has one that is true: every entry that is used is tried once."""
        core: Any = self.env.unwrapped
        table = getattr(core, "P", None)
        numbered = isinstance(core.observation_space, spaces.Discrete) and hasattr(core, "s")
        if not (isinstance(table, Mapping) and numbered and is_plain(self.env)) or callable(self.env.goal_test):
            return None
        self._reset()
        tried = 0
        waiting = deque(self._table_starts())
        while waiting and tried < budget:
            state, distance = waiting.popleft()
            for action in range(self.actions) if distance < self.env.max_steps else ():
                tried += 1
                outcomes = {(int(to), bool(end)) for chance, to, _, end in table[state][action] if chance > 0}
                if not self._is_true(core, state, action, outcomes):
                    return None
                for to, ended in sorted(outcomes):
                    if to not in self.found.numbers:
                        self.found.add(to, View(self.env.read(to), {}), distance + 1)
                        waiting.extend([] if ended else [(to, distance + 1)])
        done = not waiting
        how = "all that can be reached" if done else f"those of {budget:,} transitions"
        return _Explored([], [], [], tried, done, f"{how}, by search in the world's own table")

    def _table_starts(self) -> list[tuple[int, int]]:
        core: Any = self.env.unwrapped
        starts = []
        for view in self.start_views(ResetSimulator(self.env)):
            self.starts.append(view)
            starts.append((int(core.s), 0))
            if int(core.s) not in self.found.numbers:
                self.found.add(int(core.s), view, 0)
        return list(dict.fromkeys(starts))

    def _is_true(self, core: Any, state: int, action: int, outcomes: set[tuple[int, bool]]) -> bool:
        core.s = state
        seen, _, terminated, _, _ = core.step(action + int(core.action_space.start))
        return (int(seen), bool(terminated)) in outcomes and int(core.s) == int(seen)

    def _from_steps(self, budget: int) -> _Explored:
        """Search where it can, walks where that does not finish."""
        self._reset()
        world, chance = simulator_of(self.env, self._seed, self.rng)
        world.steps = 0
        if self.move is not None:
            _RegionWalks(self, world, chance).walk(budget)
            note = f"those that random walks of {world.steps:,} steps met"
            return _Explored([], [], [], world.steps, False, note)
        share, searched, done = int(SEARCH_SHARE * budget), 0, False
        waiting: deque[tuple[int, Any, int]] = deque(self._begin(world))
        if world.can_search:
            starts = list(waiting)
            waiting, chance, done = self._search(world, waiting, chance, share)
            searched = world.steps
        if done:
            self._check_by_walks(world, chance, deque(starts), budget)
        else:
            _RandomWalks(self, world, chance, waiting).walk(budget)
        complete = done and not chance and not self.hidden and len(self.starts) == 1
        return _Explored([], [], [], world.steps, complete, self._note(world, searched, done, chance))

    def _check_by_walks(self, world: Simulator, chance: bool, starts: deque[tuple[int, Any, int]], budget: int) -> None:
        """After a search that finds no more: whether chance, or what is not seen, leads anywhere else."""
        if world.shows_state and not chance:
            return
        known, walks = len(self.found.distances), _RandomWalks(self, world, chance, starts)
        walks.walk(min(budget, MORE_WALKS * world.steps))
        self.hidden = self.hidden or (len(self.found.distances) > known and not chance)
        if self.hidden:
            walks.walk(budget)

    def expect(self, source: int, action: int, to: int, chance: bool) -> None:
        """The same action in what looks like the same state must lead to the same, unless chance decides."""
        if not chance:
            self.hidden = self.hidden or self._led.setdefault((source, action), to) != to

    def _note(self, world: Simulator, searched: int, done: bool, chance: bool) -> str:
        drawn = f" with {DRAWS} draws of chance" if chance else ""
        unseen = ", distances may be too long: what is seen is not the whole state" if self.hidden else ""
        begun = f", from {len(self.starts)} starts, of which there may be more" if len(self.starts) > 1 else ""
        walked = f"random walks of {world.steps - searched:,} steps"
        if done and self.hidden:
            return f"those that search of {searched:,} steps and {walked} met{begun}{unseen}"
        if done:
            walks = f" and {walked}" if world.steps > searched else ""
            return f"all that can be reached, by search of {searched:,} steps{drawn}{walks}{begun}"
        if not searched:
            return f"those that {walked} met{begun}{unseen}"
        nearest = max(
            (d for d, walked in zip(self.found.distances, self.found.walked, strict=True) if not walked), default=0
        )
        return (
            f"search{drawn} did not finish in {searched:,} steps and came {nearest} steps far; {walked} went on"
            f"{begun}{unseen}"
        )

    def start_views(self, world: Simulator) -> Iterator[View]:
        """Distinct ones; the seed that a fixed world is reset with may leave the start open."""
        seen = set()
        for extra in range(START_RESETS if self.env.reset_seed is not None else 1):
            world.begin(self._seed + extra)
            view = world.look()
            if view.observation.tobytes() not in seen:
                seen.add(view.observation.tobytes())
                yield view

    def _begin(self, world: Simulator) -> Iterator[tuple[int, Any, int]]:
        for view in self.start_views(world):
            self.starts.append(view)
            if (key := world.key()) not in self.found.numbers:
                yield self.found.add(key, view, 0), world.snapshot(), 0

    def _search(
        self, world: Simulator, waiting: deque[tuple[int, Any, int]], chance: bool, budget: int
    ) -> tuple[deque[tuple[int, Any, int]], bool, bool]:
        """Breadth first, each action in each state; what is left waiting, whether there is chance, whether all is done.

        Chance that is only met on the way begins it again, with several draws for each action.
        """
        first, led, tried = list(waiting), dict[tuple[int, int], int](), 0
        opened = {number for number, _, _ in waiting}
        while waiting and world.steps < budget and len(waiting) * world.bytes_saved < SAVED_BYTES:
            number, state, distance = waiting.popleft()
            for action in range(self.actions) if distance < self.env.max_steps else ():
                for _ in range(DRAWS if chance else 1):
                    ended, to = self._arrive(world, state, action, distance, chance)
                    if not ended and to not in opened:
                        opened.add(to)
                        waiting.append((to, world.snapshot(), distance + 1))
                tried += 1
                if not world.shows_state:
                    led[number, action] = to
                if not chance and (tried <= CHECKED_FIRST or tried % SPOT_CHECK == 0):
                    self._check_unseen(world, to, ended, led)
                    if self._arrive(world, state, action, distance, True)[1] != to:
                        return self._search(world, deque(first), True, budget)
        self._led = {} if chance else led
        return waiting, chance, not waiting

    def _arrive(self, world: Simulator, state: Any, action: int, distance: int, chance: bool) -> tuple[bool, int]:
        """Take an action somewhere; whether the episode is over, and the number of the state it leads to."""
        world.go_back(state)
        if chance:
            world.reseed(self.rng)
        ended = world.step(action)
        self.report(world)
        return ended, self.number(world, distance + 1)

    def _check_unseen(self, world: Simulator, to: int, ended: bool, led: dict[tuple[int, int], int]) -> None:
        """The same action in what looks like the same state must lead to the same."""
        action = int(self.rng.integers(self.actions))
        if not ended and (to, action) in led and not self.hidden:
            world.go_back(world.snapshot())
            world.step(action)
            self.hidden = self.found.numbers.get(world.key()) != led[to, action]

    def number(self, world: Simulator, distance: int, walked: bool = False) -> int:
        key = world.key()
        known = self.found.numbers.get(key)
        return self.found.add(key, world.look(), distance, walked) if known is None else known

    def report(self, world: Simulator) -> None:
        if world.steps % TELL_EVERY == 0:
            self._tell(f"{len(self.found.distances):,} states in {world.steps:,} steps")

    def _chosen(self, most: int) -> tuple[list[View], list[int], list[bool]]:
        """At most so many, no two the same by the goal test, kept evenly over the order of distance."""
        found, env = self.found, self.env
        states = [
            state
            for state in found.by_distance()
            if state[0] > 0 and not any(_reached(env, start, found.view(state[2]).observation) for start in self.starts)
        ]
        if env.goal_test != "equal":
            states = self._distinct([states[place] for place in evenly(len(states), CANDIDATES * most)])
        kept = [states[place] for place in evenly(len(states), most)]
        views = [found.view(look) for _, _, look in kept]
        return views, [distance for distance, _, _ in kept], [walked for _, walked, _ in kept]

    def _distinct(self, states: list[tuple[int, bool, int]]) -> list[tuple[int, bool, int]]:
        env = self.env
        if env.goal_test == "distance":
            distinct = DistinctObservations(env.radius)
            return [state for state in states if distinct.add(self.found.view(state[2]).observation) is None]
        kept: list[tuple[tuple[int, bool, int], View]] = []
        for state in states:
            view = self.found.view(state[2])
            if not any(
                _reached(env, other, view.observation) and _reached(env, view, other.observation) for _, other in kept
            ):
                kept.append((state, view))
        return [state for state, _ in kept]


def evenly(count: int, most: int) -> list[int]:
    """Up to `most` of `count` places, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [int(place) for place in np.unique(np.linspace(0, count - 1, most).round())]


class DistinctObservations:
    """Observations that are farther apart than a radius; long ones are first compared by their projections."""

    dimensions = 16

    def __init__(self, radius: float) -> None:
        self.radius = radius
        self._kept: list[Observation] = []
        self._projected: Array = np.zeros((64, 0))
        self._projection: Array | None = None

    def add(self, observation: Observation) -> int | None:
        """Keep it if none is near; else the number of one that is."""
        flat = np.asarray(observation, float).ravel()
        if not self._kept:
            self._projection = self._directions(flat.size)
            self._projected = np.zeros((64, min(flat.size, self.dimensions)))
        projected = flat if self._projection is None else flat @ self._projection
        near = np.linalg.norm(self._projected[: len(self._kept)] - projected, axis=1) <= self.radius * (1 + 1e-9)
        for number in np.flatnonzero(near).tolist():
            if np.linalg.norm(np.subtract(self._kept[number], observation, dtype=float)) <= self.radius:
                return int(number)
        if len(self._kept) == len(self._projected):
            self._projected = np.concatenate([self._projected, np.zeros_like(self._projected)])
        self._projected[len(self._kept)] = projected
        self._kept.append(observation)
        return None

    def widen(self, factor: float) -> list[int]:
        """A larger radius; the numbers of those that are kept."""
        old, self._kept, self.radius = self._kept, [], factor * self.radius
        return [number for number, observation in enumerate(old) if self.add(observation) is None]

    def _directions(self, size: int) -> Array | None:
        """Orthonormal directions: a projection is never longer than what is projected."""
        if size <= self.dimensions:
            return None
        rng = spawn(0, ["exam/shadow"])["exam/shadow"]
        return np.linalg.qr(rng.normal(size=(size, self.dimensions)))[0]


@dataclass
class _RestartPoint:
    place: int
    state: Any
    elapsed: int


class _RandomWalks:
    """Random walks that go on from states that few walks have passed; distances by search over all that was seen."""

    def __init__(
        self, explorer: _Explorer, world: Simulator, chance: bool, waiting: deque[tuple[int, Any, int]]
    ) -> None:
        self._explorer, self._world, self._chance = explorer, world, chance
        self.rng = explorer.rng
        self._limit = explorer.env.max_steps
        self._restarts = [_RestartPoint(*one) for one in waiting if one[2] < self._limit]
        self._known = {one.place: one for one in self._restarts}
        self._visits: dict[int, int] = {}
        self._edges: dict[int, set[int]] = {}

    def walk(self, budget: int) -> None:
        """Until the budget is spent."""
        while self._world.steps < budget and self._restarts:
            begun = self._world.steps
            self._once(self._rarest(), budget)
            if self._world.steps == begun:
                break
        self._measure()

    def _rarest(self) -> _RestartPoint:
        """Of a few places the one that fewest walks have passed, the nearer of two."""
        drawn = [self._restarts[number] for number in map(int, self.rng.integers(len(self._restarts), size=16))]
        return min(drawn, key=lambda one: (self._visits.get(one.place, 0), one.elapsed))

    def _once(self, restart: _RestartPoint, budget: int) -> None:
        world = self._world
        world.go_back(restart.state)
        if self._chance:
            world.reseed(self.rng)
        place, elapsed, ended = restart.place, restart.elapsed, False
        if restart.state is None:
            place = self._begun()
        stride = self._limit if restart.state is None else STRIDE
        self._visits[place] = self._visits.get(place, 0) + 1
        for _ in range(stride):
            if ended or elapsed >= self._limit or world.steps >= budget:
                return
            action = int(self.rng.integers(self._explorer.actions))
            ended, elapsed, before = world.step(action), elapsed + 1, place
            place = self._arrive(before, elapsed, ended)
            self._explorer.expect(before, action, place, self._chance)
            self._visits[place] = self._visits.get(place, 0) + 1
            self._explorer.report(world)

    def _begun(self) -> int:
        """The place where an episode has begun, which may be another each time."""
        known = len(self._explorer.found.distances)
        place = self._explorer.number(self._world, 0)
        if place == known:
            self._explorer.starts.append(self._world.look())
        return place

    def _arrive(self, source: int, elapsed: int, ended: bool) -> int:
        place = self._explorer.number(self._world, elapsed, walked=True)
        distances = self._explorer.found.distances
        distances[place] = min(distances[place], elapsed)
        self._edges.setdefault(source, set()).add(place)
        self._remember(place, elapsed, ended)
        return place

    def _remember(self, place: int, elapsed: int, ended: bool) -> None:
        """A way back to a place that is new, or reached sooner than before."""
        known = self._known.get(place)
        if ended or elapsed >= self._limit or (known is not None and known.elapsed <= elapsed):
            return
        state = self._world.snapshot()
        if state is None:  # there is no way back but to the start
            return
        if self._world.can_search:
            self._world.go_back(state)
        if known is not None:
            known.state, known.elapsed = state, elapsed
            return
        restart = self._known[place] = _RestartPoint(place, state, elapsed)
        if len(self._restarts) < min(RESTARTS, 1 + SAVED_BYTES // self._world.bytes_saved):
            self._restarts.append(restart)
            return
        forgotten = int(self.rng.integers(len(self._restarts)))
        del self._known[self._restarts[forgotten].place]
        self._restarts[forgotten] = restart

    def _measure(self) -> None:
        """Shortest ways over the steps that were seen, search's distances given.

        Where what is seen is not the whole state, steps of two walks make no way: each walk's own length is all there
        is.
        """
        if self._explorer.hidden:
            return
        distances = self._explorer.found.distances
        rings: dict[int, list[int]] = {}
        for place, distance in enumerate(distances):
            rings.setdefault(distance, []).append(place)
        for ring in range(max(distances) + 1):
            for place in rings.get(ring, ()):
                for to in self._edges.get(place, ()) if distances[place] == ring else ():
                    if distances[to] > ring + 1:
                        distances[to] = ring + 1
                        rings.setdefault(ring + 1, []).append(to)


class _RegionWalks(_RandomWalks):
    """The same where no observation comes again: places are as far apart as the goal test's radius, or a few steps.

    The distance of a place is the least number of steps after which a walk was there. When there are too many places,
    they are made larger.
    """

    def __init__(self, explorer: _Explorer, world: Simulator, chance: bool) -> None:
        super().__init__(explorer, world, chance, deque())
        env = explorer.env
        self._distinct = DistinctObservations(env.radius if env.goal_test == "distance" else 2 * (explorer.move or 1.0))
        self._cells: list[int] = []  # number in `_apart` -> number of the place
        self._gone: dict[int, int] = {}  # place -> how far away it was when straight ways were gone from it
        for view in explorer.start_views(world):
            explorer.starts.append(view)
            if (place := self._place(view, 0)) not in self._known:
                self._known[place] = _RestartPoint(place, world.snapshot(), 0)
                self._restarts.append(self._known[place])

    def walk(self, budget: int) -> None:
        """Straight ways and walks by turns: walks alone wander, so that what is near would seem far away."""
        for turn in range(TURNS):
            if self._world.can_search:
                self._go_straight(int((turn + SEARCH_SHARE) / TURNS * budget))
            super().walk((turn + 1) * budget // TURNS)

    def _go_straight(self, budget: int) -> None:
        """From the nearest place on, every action until it leads to another place; again where a shorter way was found.

        What has been found is a way that was really walked, though seldom quite the shortest.
        """
        gone = self._gone
        waiting = [(one.elapsed, place) for place, one in self._known.items()]
        heapq.heapify(waiting)
        while waiting and self._world.steps < budget:
            elapsed, place = heapq.heappop(waiting)
            one = self._known.get(place)
            if one is None or elapsed > one.elapsed or gone.get(place, elapsed + 1) <= elapsed:
                continue
            gone[place] = elapsed
            for action in range(self._explorer.actions):
                for to in self._straight(one, action):
                    if (new := self._known.get(to)) is not None and gone.get(to, new.elapsed + 1) > new.elapsed:
                        heapq.heappush(waiting, (new.elapsed, to))

    def _straight(self, one: _RestartPoint, action: int) -> Iterator[int]:
        """One action again and again; the place that it leads to, if any."""
        world, elapsed, place, ended = self._world, one.elapsed, one.place, False
        world.go_back(one.state)
        if self._chance:
            world.reseed(self.rng)
        while place == one.place and not ended and elapsed < min(self._limit, one.elapsed + STRIDE):
            ended, elapsed = world.step(action), elapsed + 1
            place = self._arrive(one.place, elapsed, ended)
            self._explorer.report(world)
        if place != one.place:
            yield place

    def _arrive(self, source: int, elapsed: int, ended: bool) -> int:
        place = self._place(self._world.look(), elapsed)
        self._remember(place, elapsed, ended)
        return place

    def _place(self, view: View, elapsed: int) -> int:
        found = self._explorer.found
        near = self._distinct.add(view.observation)
        if near is None:
            self._cells.append(found.add(len(found.distances), view, elapsed, walked=True))
            near = -1
        place = self._cells[near]
        found.distances[place] = min(found.distances[place], elapsed)
        if len(self._cells) > MOST_CELLS:
            self._cells = [self._cells[number] for number in self._distinct.widen(1.5)]
        return place

    def _begun(self) -> int:
        return self._place(self._world.look(), 0)

    def _measure(self) -> None:
        """Nothing to add."""
