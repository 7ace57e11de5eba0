"""SPTM: where it takes itself to be, what it walks to, and that it finds its way over what it remembers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfl.api import GOAL, Array, EnvSpec
from sfl.baselines.config import GuideConfig, LocomotionConfig, ShortcutConfig, SPTMConfig, WalksConfig
from sfl.baselines.random import RandomAgent, RandomConfig
from sfl.baselines.sptm import Guide, SPTMAgent, farthest_waypoint, median_node, unit_edges
from sfl.baselines.walks import RecordedWalks
from sfl.errors import UsageError
from sfl.method.config import RetrievalConfig
from sfl.method.planner import Planner
from sfl.worlds import Task

from ..contract.worlds import Run, Wanderer, Zigzag, evaluate, make_corridor, one_hot
from ..method.views import teach, walk

CHAIN = Planner(unit_edges(12, np.array([[node, node + 1] for node in range(11)])))
CONFIG = GuideConfig(neighbours=1, look_ahead=3)
ONE_WALK = np.zeros(12, int)


def near(**chances: float) -> Array:
    """R of the agent with 12 nodes: those that are named (n3=0.9), and else 0."""
    row = np.zeros(12)
    for name, chance in chances.items():
        row[int(name[1:])] = chance
    return row


def test_the_middle_one_of_the_nearest_is_a_node() -> None:
    walks = np.zeros(100, int)
    assert median_node(np.array([90, 7, 9, 8, 6]), walks) == 8
    assert median_node(np.array([5, 40]), walks) == 5


def test_the_middle_is_taken_within_the_walk_of_the_nearest() -> None:
    """Nodes of other walks have other numbers, wherever they are: the middle of all would be any of them."""
    walks = np.repeat(np.arange(10), 10)
    assert median_node(np.array([31, 7, 52, 33, 32]), walks) == 32
    assert median_node(np.array([90, 7, 12, 23, 34]), walks) == 90
    guide = Guide(GuideConfig(neighbours=3), CHAIN, np.repeat([0, 1, 2], 4), near(n10=0.9, n1=0.8, n5=0.7))
    guide.step(near(n2=1.0, n6=0.96, n11=0.96), 0.0)
    assert guide.place == 2
    assert guide.route[-2] == 10


def test_the_waypoint_is_the_farthest_that_is_near_enough_or_the_next() -> None:
    assert farthest_waypoint([4, 5, 6], [0.1, 0.96, 0.2], 0.95) == 5
    assert farthest_waypoint([4, 5, 6], [0.99, 0.96, 0.95], 0.95) == 6
    assert farthest_waypoint([4, 5, 6], [0.1, 0.2, 0.3], 0.95) == 4


def test_it_stays_on_its_route_while_that_looks_right_and_looks_everywhere_else_when_not() -> None:
    guide = Guide(CONFIG, CHAIN, ONE_WALK, near(n10=0.9))
    assert guide.step(near(n3=0.96), 0.0) == 4
    assert guide.route == (3, 4, 5, 6, 7, 8, 9, 10, GOAL)
    # 11 looks more like it, but 5 lies ahead on the route and looks right enough.
    assert guide.step(near(n5=0.7, n11=1.0), 0.0) == 6
    assert guide.place == 5
    assert guide.step(near(n5=0.69, n9=0.96, n10=0.96), 0.0) == 10
    assert guide.place == 9
    assert guide.explanation().localized == 9


def test_on_its_route_it_looks_for_itself_only_so_far_ahead() -> None:
    guide = Guide(CONFIG, CHAIN, ONE_WALK, near(n10=0.9))
    guide.step(near(n3=1.0), 0.0)
    guide.step(near(n5=0.7, n9=0.9), 0.0)  # 9 looks more like it, but lies six nodes on
    assert guide.place == 5


def test_lost_it_walks_at_random_for_some_steps_and_looks_again() -> None:
    guide = Guide(replace(CONFIG, lost_steps=3), CHAIN, ONE_WALK, near(n10=0.9))
    assert [guide.step(near(n3=0.94), 0.0) for _ in range(3)] == [None] * 3
    assert guide.place is None
    assert guide.step(near(n3=0.96), 0.0) == 4
    assert [guide.step(near(n8=1.0), 0.0) for _ in range(1)] == [9]  # off the route, but it is sure


def test_lost_it_does_not_look_before_its_random_steps_are_over() -> None:
    guide = Guide(replace(CONFIG, lost_steps=3), CHAIN, ONE_WALK, near(n10=0.9))
    assert guide.step(near(n3=0.94), 0.0) is None
    assert [guide.step(near(n3=1.0), 0.0) for _ in range(3)] == [None, None, 4]


def test_the_goal_itself_is_the_end_of_the_route() -> None:
    guide = Guide(CONFIG, CHAIN, ONE_WALK, near(n10=0.9))
    assert guide.step(near(n9=1.0), 0.99) == GOAL  # one node on, and it already looks near
    assert guide.step(near(n10=1.0), 0.0) == GOAL


def test_without_a_route_it_walks_to_the_goal_directly() -> None:
    two = Planner(unit_edges(12, np.array([[node, node + 1] for node in range(11) if node != 6])))
    guide = Guide(CONFIG, two, ONE_WALK, near(n10=0.9))
    assert guide.step(near(n3=1.0), 0.0) == GOAL
    assert not guide.explanation().route_found
    assert guide.step(near(n8=1.0), 0.0) == 9
    assert guide.explanation().route_found
    assert Guide(CONFIG, CHAIN, ONE_WALK, np.zeros(0)).step(np.zeros(0), 0.0) == GOAL


def test_of_places_that_look_right_it_takes_one_with_a_route_and_leaves_one_without() -> None:
    """Many walks may be in pieces, unlike the one of SPTM's own memory."""
    two = Planner(unit_edges(12, np.array([[node, node + 1] for node in range(11) if node != 6])))
    guide = Guide(replace(CONFIG, neighbours=2), two, np.arange(12), near(n10=0.9))
    guide.step(near(n3=1.0, n8=0.96), 0.0)
    assert (guide.place, guide.route_found) == (8, True)
    guide = Guide(CONFIG, two, ONE_WALK, near(n10=0.9))
    assert guide.step(near(n3=1.0), 0.0) == GOAL
    guide.step(near(n3=0.8, n8=0.96), 0.0)
    assert (guide.place, guide.route_found) == (8, True)
    guide = Guide(CONFIG, two, ONE_WALK, near(n10=0.9))
    assert [guide.step(near(n3=chance), 0.0) for chance in (1.0, 0.7, 0.69)] == [GOAL, GOAL, None]


LENGTH = 14
SPEC = EnvSpec((LENGTH,), "float32", 3, 4)
LEARNER = SPTMConfig(
    retrieval=RetrievalConfig(near=2, far=8, hidden=32, layers=1, dim=32, batch_size=64, learning_rate=3e-3),
    locomotion=LocomotionConfig(ahead=4, batch_size=64, dim=32, learning_rate=3e-3),
    updates_per_step=0.08,
    replay_size=8_000,
    memory=WalksConfig(steps=2_000, every=4),
    shortcuts=ShortcutConfig(count=300, window=1, distance=3),
    guide=GuideConfig(local_threshold=0.4, global_threshold=0.5, waypoint_threshold=0.3),
)


def test_it_walks_a_zigzag_from_end_to_end_and_cannot_without_its_graph() -> None:
    agent = SPTMAgent(LEARNER, SPEC, 0, "cpu")
    agent.filling.explore_with(Wanderer(RandomConfig(), SPEC, 0))
    Run(agent, [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)]).go(500)
    tasks = [Task("any", pair, None, one_hot(goal, LENGTH), 45) for pair, goal in enumerate([13, 12, 10] * 8)]
    envs = [make_corridor(LENGTH, 45, Zigzag) for _ in range(8)]
    policy = agent.policy(seed=0)
    success = evaluate(policy, envs, tasks)[0]
    assert success >= 0.75
    assert policy.explain(0).route[-1] == GOAL
    chance = RandomAgent(RandomConfig(), SPEC, 0)
    assert evaluate(chance, envs, tasks)[0] < 0.3
    state = agent.state_dict()  # without its edges it walks to the goal directly, as the visual controller does
    state.graph |= {name: column[:0] for name, column in state.graph.items() if name.startswith("edge_")}
    agent.load_state_dict(state)
    assert evaluate(agent.policy(seed=0), envs, tasks)[0] < 0.6


def test_the_memory_has_every_so_many_decisions_of_each_walk() -> None:
    config = replace(LEARNER, updates_per_step=0.0, shortcuts=replace(LEARNER.shortcuts, merge_starts=False))
    agent = SPTMAgent(replace(config, memory=WalksConfig(steps=40, every=3)), SPEC, 0, "cpu")
    seen: list[int] = []
    Run(agent, [make_corridor(LENGTH, 7) for _ in range(4)]).go(
        12, lambda step: seen.extend(step.transitions.observations.argmax(1).tolist())
    )
    graph = agent.state_dict().graph
    # 7 decisions of four walks, then 3 of four more: 0, 3 and 6 of the first, 0 of the others.
    assert graph["origin"].tolist() == [0, 12, 24, 1, 13, 25, 2, 14, 26, 3, 15, 27, 28, 29, 30, 31]
    assert graph["observations"].argmax(1).tolist() == [seen[step] for step in graph["origin"]]


def test_a_trail_is_remembered_walk_by_walk() -> None:
    recorded = RecordedWalks(WalksConfig(steps=5, every=1), EnvSpec((LENGTH,), "float32", 3, 2))
    agent_like = Run(RandomAgent(RandomConfig(), SPEC, 0), [make_corridor(LENGTH, 2) for _ in range(2)])
    agent_like.go(4, lambda step: recorded.observe(step.transitions))
    assert recorded.is_full
    assert recorded.sorted().walks.tolist() == [0, 0, 1, 1, 2]


def test_another_explorer_fills_the_memory() -> None:
    class Ahead(RandomAgent):
        def act(self, observations: Array, env_indices: Array) -> Array:
            return np.ones(len(env_indices), dtype=np.int64)

    agent = SPTMAgent(replace(LEARNER, updates_per_step=0.0, memory=WalksConfig(steps=40, every=1)), SPEC, 0, "cpu")
    agent.filling.explore_with(Ahead(RandomConfig(), SPEC, 0))
    Run(agent, [make_corridor(LENGTH, 30) for _ in range(4)]).go(12)
    assert agent.state_dict().graph["observations"].argmax(1).tolist() == [0, *list(range(1, 10)) * 4]


def test_walks_that_begin_with_one_view_share_their_first_node() -> None:
    """They part at once, and no median joins them: without this no way would lead from one to the other."""

    def graph_of(walks: list[list[int]], merge_starts: bool) -> tuple[list[int], set[tuple[int, int]]]:
        shortcuts = ShortcutConfig(count=0, merge_starts=merge_starts)
        config = replace(LEARNER, updates_per_step=0.0, memory=WalksConfig(steps=8, every=1), shortcuts=shortcuts)
        agent = SPTMAgent(config, EnvSpec((7,), "float32", 3, 2), 0, "cpu")
        walk(agent, walks, 7)
        graph = agent.state_dict().graph
        edges = zip(graph["edge_sources"].tolist(), graph["edge_targets"].tolist(), strict=True)
        return graph["observations"].argmax(1).tolist(), {pair for pair in edges if pair[0] < pair[1]}

    parted = [[0, 1, 2, 3], [0, 4, 5, 6]]
    assert graph_of(parted, True) == ([0, 1, 2, 3, 4, 5, 6], {(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6)})
    chains = {(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)}
    assert graph_of(parted, False) == ([0, 1, 2, 3, 0, 4, 5, 6], chains)
    # On the way a view may be that of another place: there the median is needed.
    assert graph_of([[0, 1, 2, 3], [4, 0, 5, 6]], True) == ([0, 1, 2, 3, 4, 0, 5, 6], chains)


def test_a_stretch_that_two_walks_share_becomes_shortcuts_and_single_views_that_they_share_do_not() -> None:
    """R says of both that they are the same: only the median along the walks tells them apart."""
    first = [*range(8), *range(8, 16)]
    second = [16, 6, 17, 18, 3, 19, 0, 20, *range(8, 16)]  # 6, 3 and 0 look as they do elsewhere
    config = replace(
        LEARNER,
        retrieval=replace(LEARNER.retrieval, hidden=64, learning_rate=1e-2),
        updates_per_step=0.0,
        memory=WalksConfig(steps=32, every=1),
        shortcuts=ShortcutConfig(count=8, window=2, distance=3),
    )
    agent = SPTMAgent(config, EnvSpec((21,), "float32", 3, 2), 0, "cpu")
    teach(agent.filling.networks.retrieval, np.eye(21, dtype=bool))
    walk(agent, [first, second], 21)
    graph = agent.state_dict().graph
    edges = set(zip(graph["edge_sources"].tolist(), graph["edge_targets"].tolist(), strict=True))
    assert {pair for pair in edges if pair[1] - pair[0] > 1} == {(node, 16 + node) for node in range(8, 16)}


def test_nodes_of_one_walk_are_joined_across_the_distance_that_is_set_and_not_below() -> None:
    shortcuts = ShortcutConfig(count=100, window=0, distance=5)  # as many as there can be
    config = replace(LEARNER, updates_per_step=0.0, memory=WalksConfig(steps=8, every=1), shortcuts=shortcuts)
    agent = SPTMAgent(config, EnvSpec((8,), "float32", 3, 1), 0, "cpu")
    walk(agent, [range(8)], 8)
    graph = agent.state_dict().graph
    assert set(np.abs(graph["edge_targets"] - graph["edge_sources"]).tolist()) == {1, 5, 6, 7}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GuideConfig(look_ahead=0), "guide.look-ahead must be at least 1, got 0"),
        (lambda: GuideConfig(local_threshold=1.5), r"guide.local-threshold must lie in \[0, 1\]"),
        (lambda: ShortcutConfig(window=-1), "shortcuts.window must be at least 0, got -1"),
        (lambda: WalksConfig(every=0), "memory.every must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(make: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()  # type: ignore[operator]
