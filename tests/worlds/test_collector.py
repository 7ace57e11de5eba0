"""What a world has to ask: distances worked out on paper, and goals that no agent has a say in."""

from __future__ import annotations

import random
import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from sfl.errors import SflError, UsageError
from sfl.worlds import GoalWrapper, GymConfig, make_env
from sfl.worlds.collector import DistinctObservations, collect, evenly
from sfl.worlds.exam import GIVEN, LEVELS, NEVER_TWICE, SEARCH, WALKS, Exam
from sfl.worlds.simulators import CopySimulator, MiniGridSimulator, ReplaySimulator, ResetSimulator, simulator_of


class Corridor(gym.Env[Any, Any]):
    """Cells 0, 1, 2, ... of which the last ends an episode; actions: left, right, and in cell `hop` a jump to `to`."""

    def __init__(self, length: int = 10, hop: int = -1, to: int = 0, slip: float = 0.0, stuck: bool = False) -> None:
        self.observation_space = spaces.Box(0, length, (1,), np.int64)
        self.action_space = spaces.Discrete(3)
        self.length, self.hop, self.to, self.slip = length, hop, to, slip
        self.first, self.cell = 0, 0
        self.lock = threading.Lock() if stuck else None  # which no copy of this world gets past

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = self.first
        return self.seen(), {"secret": self.cell}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.slip == 0.0 or self.np_random.random() >= self.slip:
            self.cell = self.moved(action)
        return self.seen(), 0.0, self.cell == self.length - 1, False, {"secret": self.cell}

    def moved(self, action: int) -> int:
        if action == 2:
            return self.to if self.cell == self.hop else self.cell
        return min(max(self.cell + (1 if action == 1 else -1), 0), self.length - 1)

    def seen(self) -> Any:
        return np.array([self.cell])


def far(exam: Exam) -> dict[int, int]:
    """Goal of a corridor -> its distance."""
    return {int(goal.flat[0]): int(distance) for goal, distance in zip(exam.goals, exam.distances, strict=True)}


def wrapped(env: gym.Env[Any, Any], **settings: Any) -> GoalWrapper:
    return GoalWrapper(env, reset_seed=0, **settings)


def test_distances_are_the_fewest_steps_and_the_start_is_no_goal() -> None:
    exam = collect(wrapped(Corridor()))
    assert far(exam) == {cell: cell for cell in range(1, 10)}
    assert exam.complete
    assert set(exam.found) == {SEARCH}
    assert far(collect(wrapped(Corridor(hop=2, to=7)))) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 4, 7: 3, 8: 4, 9: 5}


def test_an_end_is_a_goal_but_nothing_lies_beyond_it() -> None:
    class Pit(Corridor):
        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            seen, reward, _, truncated, info = super().step(action)
            return seen, reward, self.cell == 3, truncated, info

    assert far(collect(wrapped(Pit()))) == {1: 1, 2: 2, 3: 3}


def test_an_action_that_ends_an_episode_where_it_stands_does_not_hide_what_lies_beyond() -> None:
    class GivesUp(Corridor):
        def moved(self, action: int) -> int:
            return self.cell + (action != 2)

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            seen, reward, ended, truncated, info = super().step(action)
            return seen, reward, ended or action == 0, truncated, info  # 0 goes on too, but ends

    assert far(collect(wrapped(GivesUp()))) == {cell: cell for cell in range(1, 10)}


def test_what_lies_beyond_the_time_limit_is_no_goal() -> None:
    assert far(collect(wrapped(Corridor(), max_steps=4))) == {1: 1, 2: 2, 3: 3, 4: 4}


@pytest.mark.parametrize("kwargs", [("is_slippery=false",), ()])
def test_a_table_is_searched_and_a_slippery_lake_counts_as_it_may_go_at_best(kwargs: tuple[str, ...]) -> None:
    exam = collect(make_env(GymConfig("FrozenLake-v1", kwargs=kwargs)))  # type: ignore[arg-type]
    assert "the world's own table" in exam.note
    cells = exam.goals.argmax(1)
    lake, steps = "SFFFFHFHFFFHHFFG", dict(zip(cells.tolist(), exam.distances.tolist(), strict=True))
    assert steps == {cell: cell // 4 + cell % 4 for cell in range(1, 16)}  # every way round a hole is as short
    assert all(lake[cell] in "FHG" for cell in steps)


def test_a_table_that_does_not_tell_the_truth_is_not_believed() -> None:
    class Liar(Corridor):
        def __init__(self) -> None:
            super().__init__(4)
            self.observation_space = spaces.Discrete(4)  # type: ignore[assignment]
            self.P = {s: {a: [(1.0, max(s - 1, 0), 0.0, False)] for a in range(3)} for s in range(4)}

        def seen(self) -> Any:
            return self.cell

        s = property(lambda self: self.cell, lambda self, cell: setattr(self, "cell", cell))

    exam = collect(wrapped(Liar()))
    assert exam.goals.argmax(1).tolist() == exam.distances.tolist() == [1, 2, 3]
    assert "table" not in exam.note


def test_what_is_carried_counts_though_the_picture_does_not_show_who_has_it() -> None:
    env = make_env(GymConfig("MiniGrid-DoorKey-5x5-v0"))
    exam = collect(env, most=10_000)  # type: ignore[arg-type]
    assert isinstance(simulator_of(env, 0, np.random.default_rng(0))[0], MiniGridSimulator)  # type: ignore[arg-type]
    assert exam.complete
    grids = exam.goals[..., 0]
    agents = np.array([np.argwhere(grid == 10)[0] for grid in grids])
    opened = np.array([not (goal[..., 0] == 4).any() or (goal[goal[..., 0] == 4][0, 2] == 0) for goal in exam.goals])
    has_key = ~(grids == 5).any((1, 2))
    door = np.argwhere(env.unwrapped.grid.encode()[..., 0] == 4)[0]  # type: ignore[attr-defined]
    beyond = agents[:, 0] > door[0]
    assert beyond.any()
    first_open = exam.distances[opened].min()
    assert exam.distances[has_key].min() < first_open < exam.distances[beyond].min()
    slow = CopySimulator(env)  # type: ignore[arg-type]  # the same by whole copies of the world
    reached, waiting = {}, []
    slow.begin(0)
    reached[slow.key()] = 0
    waiting.append((slow.snapshot(), 0))
    while waiting and reached[slow.key()] < 5:
        state, steps = waiting.pop(0)
        for action in range(7):
            slow.go_back(state)
            ended = slow.step(action)
            if slow.key() not in reached:
                reached[slow.key()] = steps + 1
                if steps < 4 and not ended:
                    waiting.append((slow.snapshot(), steps + 1))
    near = sum(distance <= 4 for distance in reached.values()) - 1
    assert near == int((exam.distances <= 4).sum())


def test_a_world_that_cannot_be_copied_is_walked_by_repeating_what_led_there() -> None:
    env = wrapped(Corridor(6, stuck=True), max_steps=50)
    assert isinstance(simulator_of(env, 0, np.random.default_rng(0))[0], ReplaySimulator)
    exam = collect(env, 3_000)
    assert set(exam.found) == {WALKS}
    assert far(exam) == {cell: cell for cell in range(1, 6)}
    assert exam.steps <= 3_100
    assert not exam.complete


@pytest.mark.parametrize("stuck", [True, False])
def test_a_start_that_varies_is_no_goal_wherever_it_is(stuck: bool) -> None:
    starts = iter(range(10**6))

    class Anywhere(Corridor):
        def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
            super().reset(**given)
            self.cell = next(starts) % 2
            return self.seen(), {}

    env = wrapped(Anywhere(6, stuck=stuck), max_steps=20)
    assert type(simulator_of(env, 0, np.random.default_rng(0))[0]) is (ResetSimulator if stuck else CopySimulator)
    assert far(collect(env, 2_000)) == {cell: cell - 1 for cell in range(2, 6)}  # none of both starts is a goal


def test_chance_is_noticed_and_drawn_several_times() -> None:
    env = wrapped(Corridor(slip=0.5))
    assert simulator_of(env, 0, np.random.default_rng(0))[1]
    exam = collect(env)
    assert far(exam) == {cell: cell for cell in range(1, 10)}
    assert "draws of chance" in exam.note
    assert not exam.complete


class OwnDie:
    """Something inside of a world that has a generator of its own."""

    def __init__(self, kind: str) -> None:
        made = {"numpy": np.random.default_rng, "old numpy": np.random.RandomState, "python": random.Random}
        self.made: Any = made[kind]()

    def slips(self) -> bool:
        return float(self.made.random()) < 0.4


@pytest.mark.parametrize("kind", ["numpy", "old numpy", "python"])
def test_chance_from_a_generator_of_the_worlds_own_is_noticed_and_the_same_in_every_run(kind: str) -> None:
    """A copy repeats it, too: without drawing it anew, what it happened to give would count as the world itself."""

    class Dice(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.die = OwnDie(kind)

        def moved(self, action: int) -> int:
            return self.cell if self.die.slips() else super().moved(action)

    exams = [collect(wrapped(Dice()), 5_000) for _ in range(2)]
    for exam in exams:
        assert far(exam) == {cell: cell for cell in range(1, 10)}
        assert "draws of chance" in exam.note
        assert not exam.complete
    assert exams[0].note == exams[1].note


def test_a_search_that_does_not_finish_says_so_and_walks_go_on() -> None:
    exam = collect(wrapped(Corridor(2_000), max_steps=1_000), 1_000)
    assert not exam.complete
    assert "did not finish" in exam.note
    assert set(exam.found) == {SEARCH, WALKS}
    assert all(cell == steps for cell, steps in far(exam).items())
    assert exam.steps <= 1_010


def test_unseen_state_is_noticed() -> None:
    class Memory(Corridor):
        def moved(self, action: int) -> int:
            self.turns = (getattr(self, "turns", 0) + (action == 2)) % 2
            return (self.cell + (2 if self.turns else 1)) % 50 if action == 1 else self.cell

    exam = collect(wrapped(Memory(60), max_steps=100))
    assert "not the whole state" in exam.note
    assert not exam.complete


def test_chance_is_repeated_where_a_way_back_is_to_repeat() -> None:
    """Else a walk goes on from a place where it is not, and goals seem nearer than any way can be."""

    class Slides(Corridor):
        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return super().step(0 if self.np_random.random() < 0.4 else action)

    env = wrapped(Slides(40, stuck=True), max_steps=200)
    made, chance = simulator_of(env, 0, np.random.default_rng(0))
    assert isinstance(made, ReplaySimulator)
    assert chance
    made.begin(0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        made.reseed(rng)
        made.step(1)
    there, state = made.look().observation.tolist(), made.snapshot()
    made.begin(0)
    made.go_back(state)
    assert made.look().observation.tolist() == there
    found = far(collect(env, 50_000))
    assert len(found) > 15
    assert all(steps >= cell for cell, steps in found.items())


def test_what_lies_behind_something_unseen_is_found_too() -> None:
    """Nobody sees that a key is carried, without which the door stays shut: the world looks as if it ended there."""

    class HiddenKey(Corridor):
        key = False

        def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
            self.key = False
            return super().reset(**given)

        def moved(self, action: int) -> int:
            self.key = self.key or self.cell == 0
            to = super().moved(action)
            return to if to < 8 or self.key else self.cell

    world = HiddenKey(14)
    world.first = 4
    exam = collect(wrapped(world, max_steps=100))
    assert set(far(exam)) == set(range(14)) - {4}
    assert not exam.complete
    assert "all that can be reached" not in exam.note
    assert "not the whole state" in exam.note
    assert all(far(exam)[cell] >= 4 + cell for cell in range(8, 14))  # to the key first


def test_walks_through_what_is_not_seen_make_no_way_that_nobody_can_go() -> None:
    """A door that opens late, in a world that cannot be copied: steps before and after it do not add up to a way."""

    class LateDoor(Corridor):
        waited = 0

        def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
            self.waited = 0
            return super().reset(**given)

        def moved(self, action: int) -> int:
            self.waited += 1
            to = super().moved(action)
            return to if to < 5 or self.waited > 20 else min(self.cell, 4)

    exam = collect(wrapped(LateDoor(9, stuck=True), max_steps=60), 20_000)
    found = far(exam)
    assert {cell: found[cell] for cell in range(1, 5)} == {cell: cell for cell in range(1, 5)}
    assert all(found[cell] >= 16 + cell for cell in range(5, 9))
    assert "not the whole state" in exam.note


def test_numbered_states_that_never_come_again_may_be_equal() -> None:
    class Tree(gym.Env[Any, Any]):
        """Every way leads elsewhere."""

        observation_space, action_space = spaces.Discrete(2**11), spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
            super().reset(seed=seed)
            self.at = 1
            return self.at, {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self.at = 2 * self.at + int(action)
            return self.at, 0.0, self.at >= 2**10, False, {}

    exam = collect(wrapped(Tree()), 3_000, 100)
    assert len(exam.goals) == 100
    assert exam.ranges()["far"][1] > 5


def test_goals_are_farther_apart_than_the_radius_and_from_the_start() -> None:
    exam = collect(wrapped(Corridor(20), goal_test="distance", radius=2.5))
    assert sorted(far(exam)) == [3, 6, 9, 12, 15, 18]
    assert far(exam) == {cell: cell for cell in far(exam)}


def test_goals_differ_by_a_function_of_the_users() -> None:
    def same_pair(achieved: Any, desired: Any, info: dict[str, Any]) -> bool:
        assert info["secret"] == achieved[0]
        return int(achieved[0]) // 2 == int(desired[0]) // 2

    assert sorted(far(collect(wrapped(Corridor(9), goal_test=same_pair)))) == [2, 4, 6, 8]


def test_few_of_many_are_kept_evenly() -> None:
    assert evenly(100, 5) == [0, 25, 50, 74, 99]
    assert evenly(3, 5) == [0, 1, 2]
    exam = collect(wrapped(Corridor(101)), most=5)
    assert exam.distances.tolist() == [1, 26, 51, 75, 100]
    assert exam.complete


def test_shadows_decide_nothing() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 40)) * rng.uniform(0.1, 1.0, size=(60, 1))
    distinct, kept = DistinctObservations(5.0), list[int]()
    for number, point in enumerate(points):
        near = [one for one in kept if np.linalg.norm(points[one] - point) <= 5.0]
        found = distinct.add(point)
        assert (found is None) == (not near)
        assert found is None or kept[found] in near
        kept += [number] if not near else []
    assert len(distinct.widen(1.5)) < len(kept)


def test_floats_that_never_recur_are_walked() -> None:
    env = make_env(GymConfig("CartPole-v1", goal_test="distance", radius=0.5))
    exam = collect(env, 3_000)  # type: ignore[arg-type]
    start = env.reset()[0]["observation"]
    assert np.linalg.norm(exam.goals - start, axis=1).min() > 0.5
    gaps = np.linalg.norm(exam.goals[:, None] - exam.goals, axis=2) + 9 * np.eye(len(exam.goals))
    assert gaps.min() > 0.5
    assert exam.distances.min() >= 1
    assert exam.distances.max() <= 500


def test_floats_are_about_as_far_away_as_the_shortest_ways_to_them() -> None:
    class Plane(gym.Env[Any, Any]):
        """Half a unit in each direction, with a little noise, so that no place comes again."""

        observation_space, action_space = spaces.Box(-5.0, 5.0, (2,), np.float32), spaces.Discrete(4)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
            super().reset(seed=seed)
            self.at = np.zeros(2)
            return self.at.astype(np.float32), {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            step = 0.5 * np.array([(0, 1), (1, 0), (0, -1), (-1, 0)][action])
            self.at = np.clip(self.at + step + self.np_random.normal(scale=0.05, size=2), -5, 5)
            return self.at.astype(np.float32), 0.0, False, False, {}

    exam = collect(wrapped(Plane(), goal_test="distance", radius=1.0, max_steps=200), 20_000)
    shortest = np.abs(exam.goals).sum(1) / 0.5
    assert len(exam.goals) > 50
    assert np.median(exam.distances / shortest) < 1.5  # of random walks alone it is above 3


def test_floats_that_never_recur_cannot_be_equal_to_a_goal() -> None:
    with pytest.raises(
        UsageError, match=r"CartPole-v1 never .* --env.goal-test distance .* --env.radius 0\.\d+"
    ) as caught:
        collect(make_env(GymConfig("CartPole-v1")))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("goal_test", ["equal", "distance"])
@pytest.mark.parametrize("noise", [0, 5])
def test_whole_numbers_that_chance_always_changes_are_warned_of(noise: int, goal_test: str) -> None:
    """A picture with noise never equals a goal; it may be walked to all the same by another goal test."""

    class Noisy(Corridor):
        def __init__(self) -> None:
            super().__init__(6)
            self.observation_space = spaces.Box(0, 255, (8, 8), np.uint8)

        def seen(self) -> Any:
            picture = np.full((8, 8), 40 * self.cell + 10, np.uint8)
            return picture + self.np_random.integers(0, noise + 1, (8, 8), np.uint8)

    radius = {"radius": 100.0} if goal_test == "distance" else {}
    exam = collect(wrapped(Noisy(), goal_test=goal_test, **radius), 2_000)
    assert (NEVER_TWICE in exam.note) == (noise > 0 and goal_test == "equal")


def test_slips_and_other_starts_do_not_change_all_that_is_seen() -> None:
    for env in (Corridor(slip=0.5), Corridor(2_000, slip=0.5), gym.make("CliffWalking-v1", is_slippery=True)):
        assert NEVER_TWICE not in collect(wrapped(env), 500).note
    assert NEVER_TWICE not in collect(GoalWrapper(gym.make("MiniGrid-Empty-Random-5x5-v0")), 2_000).note


def test_floats_that_recur_may_be_equal_also_where_nothing_leads_back() -> None:
    class OneWay(Corridor):
        def __init__(self) -> None:
            super().__init__(30)
            self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)

        def moved(self, action: int) -> int:
            return self.cell + (action == 1)

        def seen(self) -> Any:
            return np.array([self.cell / 7], np.float32)

    assert len(collect(wrapped(OneWay())).goals) == 29


def test_varying_worlds_are_each_examined() -> None:
    exam = collect(make_env(GymConfig("MiniGrid-DoorKey-5x5-v0", reset_seed=None)), 8_000, 200)  # type: ignore[arg-type]
    assert len(set(exam.reset_seeds.tolist())) == 10
    env = make_env(GymConfig("MiniGrid-DoorKey-5x5-v0", reset_seed=None))
    for task in exam.tasks("near", 5):
        seen = env.reset(seed=task.reset_seed, options=task.options())[0]["observation"]
        assert ((seen[..., 0] == 2) == (task.goal[..., 0] == 2)).all()  # type: ignore[call-overload,index]
    same = collect(GoalWrapper(Corridor()))
    assert set(same.reset_seeds.tolist()) == {-1}
    assert far(same) == {cell: cell for cell in range(1, 10)}


def test_a_world_with_one_observation_offers_no_goal() -> None:
    with pytest.raises(SflError, match="met no observation but those that count as the start"):
        collect(wrapped(Corridor(1)))


def test_levels_are_thirds_and_each_goal_comes_once_before_any_comes_again() -> None:
    exam = collect(wrapped(Corridor()))
    assert exam.ranges() == {"near": (1, 3), "middle": (4, 6), "far": (7, 9)}
    goals = [int(task.goal[0]) for task in exam.tasks("far", 7)]  # type: ignore[index,arg-type]
    assert sorted(goals[:3]) == [7, 8, 9]
    assert goals[3:] == [*goals[:3], goals[0]]
    assert [task.pair for task in exam.tasks("far", 7)] == list(range(7))
    assert sorted(int(task.goal[0]) for task in exam.tasks("any", 9)) == list(range(1, 10))  # type: ignore[index,arg-type]
    tiny = collect(wrapped(Corridor(2)))
    assert tiny.ranges() == {"far": (1, 1)}
    assert tiny.tasks("near", 4) == []
    assert "no goals, left out: near, middle" in tiny.summary()


def own(env: gym.Env[Any, Any], rng: np.random.Generator, count: int) -> Any:
    """Three cells and their distances."""
    assert isinstance(rng, np.random.Generator)
    assert env.unwrapped.cell == 0  # type: ignore[attr-defined]  # it is reset
    return np.array([[2], [5], [9]])[:count], [2, 5, 9]


def test_goals_of_the_users_with_and_without_distances() -> None:
    exam = collect(wrapped(Corridor(), goals=own))
    assert far(exam) == {2: 2, 5: 5, 9: 9}
    assert set(exam.found) == {GIVEN}
    assert [int(task.goal[0]) for level in LEVELS for task in exam.tasks(level, 1)] == [2, 5, 9]  # type: ignore[index,arg-type]
    assert sorted(far(collect(wrapped(Corridor(), goals=own), most=2))) == [2, 5]
    bare = collect(wrapped(Corridor(), goals=lambda env, rng, count: [np.array([0]), np.array([4])]))
    assert [int(task.goal[0]) for task in bare.tasks("any", 2)] == [4, 4]  # type: ignore[index,arg-type]
    with pytest.raises(UsageError, match=r"without distances.*--eval\.levels any"):
        bare.tasks("near", 1)


@pytest.mark.parametrize(
    ("goals", "text"),
    [
        (lambda env, rng, count: [], "must give an array or a list of observations, got"),
        (lambda env, rng, count: None, "must give an array or a list of observations, got None"),
        (lambda env, rng, count: [np.zeros(3, int)], r"observation of shape \(1,\), got int64 of shape \(3,\)"),
        (lambda env, rng, count: ([np.array([2])], [1, 2]), "gave 1 goals and the distances"),
        (lambda env, rng, count: ([np.array([2])], [0]), "in steps, above 0"),
        (lambda env, rng, count: ([np.array([2])], [np.inf]), r"the distances \[inf\]"),
        (lambda env, rng, count: ([np.array([2])], np.array([[1e30], [2]])), "in steps, above 0"),
        (lambda env, rng, count: ([np.array([2]), np.array([3])], [[1], [1, 2]]), "in steps, above 0"),
        (lambda env, rng, count: np.array(3), "must give an array or a list of observations, got array"),
        (lambda env, rng, count: [np.array([0])], "are reached at the start"),
    ],
)
def test_goals_of_the_users_that_cannot_be_asked_for_are_refused_in_one_line(goals: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        collect(wrapped(Corridor(), goals=goals))
    assert "\n" not in str(caught.value)


def test_a_goal_of_numbers_that_are_none_is_refused() -> None:
    class Floats(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)

        def seen(self) -> Any:
            return np.array([self.cell], np.float32)

    with pytest.raises(UsageError, match="not finite"):
        collect(wrapped(Floats(), goals=lambda env, rng, count: np.array([[1.0], [np.nan]], np.float32)))


def test_collecting_again_gives_the_same() -> None:
    config = GymConfig("MiniGrid-Dynamic-Obstacles-5x5-v0")
    first, again = (collect(make_env(config), 600) for _ in range(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(first.goals, again.goals)
    np.testing.assert_array_equal(first.distances, again.distances)


class Shared(Corridor):
    """Chance from NumPy's global generator, as careless environments draw it."""

    def moved(self, action: int) -> int:
        return super().moved(action) if np.random.random() < 0.8 else self.cell  # noqa: NPY002


def test_worlds_with_global_chance_are_the_same_in_every_run_and_leave_that_chance_alone() -> None:
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    exams = []
    for seed in (5, 6):
        np.random.seed(seed)  # noqa: NPY002
        exams.append(collect(wrapped(Shared(60)), 4_000))
        if seed == 5:
            assert np.random.random() == expected  # noqa: NPY002
    first, second = exams
    assert (first.goals == second.goals).all()
    assert (first.distances == second.distances).all()


class Heavy(Corridor):
    """What makes it large lies deep inside."""

    def __init__(self) -> None:
        super().__init__(30)
        self.world = {"layers": [np.zeros(1_000_000, np.uint8) for _ in range(8)]}


def test_copies_are_weighed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = simulator_of(wrapped(Heavy()), 0, np.random.default_rng(0))
    assert isinstance(made, CopySimulator)
    assert 8_000_000 < made.bytes_saved < 9_000_000
    monkeypatch.setattr("sfl.worlds.collector.SAVED_BYTES", 2 * made.bytes_saved)  # room for a few copies: walks go on
    assert set(far(collect(wrapped(Heavy()), 3_000))) == set(range(1, 30))
