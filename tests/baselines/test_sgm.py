"""SGM finds its way over few nodes, and attempts to walk an edge tell whether it is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfl.api import GOAL, AgentState, EnvSpec, Step
from sfl.baselines.config import ATTEMPTS, LocomotionConfig, SGMConfig, SparseConfig, WalksConfig
from sfl.baselines.random import RandomAgent, RandomConfig
from sfl.baselines.sgm import SGMAgent, SparseMemory
from sfl.errors import UsageError
from sfl.method.config import RetrievalConfig
from sfl.method.edges import Edges
from sfl.method.planner import Planner
from sfl.worlds import Task

from ..contract.worlds import Run, Wanderer, Zigzag, evaluate, make_corridor, one_hot, zigzag
from ..method.views import teach, walk

LENGTH = 14
SPEC = EnvSpec((LENGTH,), "float32", 3, 4)
CONFIG = SGMConfig(
    retrieval=RetrievalConfig(near=2, far=8, hidden=32, layers=1, dim=32, batch_size=64, learning_rate=3e-3),
    locomotion=LocomotionConfig(ahead=4, batch_size=64, dim=32, learning_rate=3e-3),
    updates_per_step=0.08,
    replay_size=8_000,
    memory=WalksConfig(steps=2_000, every=4),
    sparse=SparseConfig(merge_cutoff=0.6, edge_cutoff=0.7),
    navigator=replace(ATTEMPTS, reach_threshold=0.5, replan_after=8),
    localize_threshold=0.5,
)
TASKS = [Task("any", pair, None, one_hot(goal, LENGTH), 45) for pair, goal in enumerate([13, 12, 10] * 4)]


def learned(config: SGMConfig) -> AgentState:
    """The state of an agent that has just made its graph."""
    agent = SGMAgent(config, SPEC, 0, "cpu")
    agent.filling.explore_with(Wanderer(RandomConfig(), SPEC, 0))
    Run(agent, [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)]).go(500)
    return agent.state_dict()


@pytest.fixture(scope="module")
def taught() -> AgentState:
    return learned(CONFIG)


def agent_of(state: AgentState) -> SGMAgent:
    agent = SGMAgent(CONFIG, SPEC, 0, "cpu")
    agent.load_state_dict(state)
    return agent


def success(agent: SGMAgent | RandomAgent) -> float:
    return evaluate(agent.policy(seed=0), [make_corridor(LENGTH, 45, Zigzag) for _ in range(6)], TASKS)[0]


def test_it_walks_a_zigzag_over_fewer_nodes_and_worse_without_edges() -> None:
    # The last bits of the arithmetic decide how few nodes there are, and over very few it walks badly: more are kept.
    taught = learned(replace(CONFIG, sparse=SparseConfig(merge_cutoff=0.3, edge_cutoff=0.6)))
    assert taught.counters["full"]
    assert 5 <= len(taught.graph["origin"]) <= 300  # of 500 that were offered
    found = success(agent_of(taught))
    assert found >= 0.6
    assert success(RandomAgent(RandomConfig(), SPEC, 0)) < 0.3
    empty = {name: column[:0] for name, column in taught.graph.items() if name.startswith("edge_")}
    assert success(agent_of(replace(taught, graph=taught.graph | empty))) < found


def test_an_edge_that_cannot_be_walked_is_removed_by_trying(taught: AgentState) -> None:
    places = taught.graph["observations"].argmax(1)
    first, last = int(places.argmin()), int(places.argmax())
    memory = SparseMemory.from_state(taught.graph, torch.device("cpu"))
    edges = memory.planner.edges
    sources, targets = np.append(edges.sources, [first, last]), np.append(edges.targets, [last, first])
    order = np.lexsort((targets, sources))
    false = Edges(edges.size, sources[order], targets[order], np.ones(len(order)), np.ones(len(order)))
    columns = {"sources": false.sources, "targets": false.targets, "counts": false.counts, "weights": false.weights}
    graph = taught.graph | {f"edge_{name}": column for name, column in columns.items()}
    agent = agent_of(replace(taught, graph=graph))
    assert {(first, last), (last, first)} <= pairs(agent)
    Run(agent, [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)]).go(200)
    assert (first, last) not in pairs(agent)  # episodes start at the first
    metrics = agent.update()
    assert metrics["graph/edges_removed"] >= 1
    assert metrics["graph/edge_count"] == len(pairs(agent))
    assert metrics["explore/frontier_trips"] > 10


def pairs(agent: SGMAgent) -> set[tuple[int, int]]:
    graph = agent.state_dict().graph
    return set(zip(graph["edge_sources"].tolist(), graph["edge_targets"].tolist(), strict=True))


def test_each_node_has_edges_to_its_nearest_and_no_more() -> None:
    sparse = SparseConfig(merge_cutoff=0.0, edge_cutoff=1.0, k_nearest=3)  # all are nodes, and near each other
    config = replace(CONFIG, updates_per_step=0.0, memory=WalksConfig(steps=8, every=1), sparse=sparse)
    agent = SGMAgent(config, EnvSpec((8,), "float32", 3, 1), 0, "cpu")
    walk(agent, [range(8)], 8)
    assert np.bincount(agent.state_dict().graph["edge_sources"]).tolist() == [3] * 8


def test_cleanup_tries_all_nodes_alike_however_often_it_was_there(taught: AgentState) -> None:
    visits = np.where(np.arange(len(taught.graph["visits"])) == 0, 0, 10**6)
    agent, ends = agent_of(replace(taught, graph=taught.graph | {"visits": visits})), set[int]()
    run = Run(agent, [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)])
    run.go(200, lambda step: ends.update(node for env in range(4) for node in agent.explain(env).route[-1:]))
    assert len(ends) > 3


def test_in_cleanup_it_walks_to_where_it_says_that_it_goes(taught: AgentState) -> None:
    agent, places, right = agent_of(taught), taught.graph["observations"].argmax(1), list[bool]()

    def judge(step: Step) -> None:
        cells = step.transitions.observations.argmax(1).tolist()
        for env, (cell, action) in enumerate(zip(cells, step.transitions.actions.tolist(), strict=True)):
            target = agent.explain(env).target
            if target is not None and places[target] != cell:
                right.append(zigzag(action, cell) == int(places[target] > cell))

    Run(agent, [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)]).go(100, judge)
    assert np.mean(right) > 0.5  # by chance a third


@pytest.mark.parametrize(("threshold", "known"), [(0.0, True), (1.0, False)])
def test_it_is_at_a_node_only_if_r_is_sure_enough(taught: AgentState, threshold: float, known: bool) -> None:
    agent = SGMAgent(replace(CONFIG, localize_threshold=threshold), SPEC, 0, "cpu")
    agent.load_state_dict(taught)
    policy = agent.policy(seed=0)
    policy.begin_episode(0, one_hot(LENGTH - 1, LENGTH))
    policy.act(one_hot(0, LENGTH)[None], np.array([0]))
    assert (policy.explain(0).localized is not None) == known


def test_it_says_where_it_is_and_goes(taught: AgentState) -> None:
    policy = agent_of(taught).policy(seed=0)
    assert policy.explain(0).route == ()
    policy.begin_episode(0, one_hot(LENGTH - 1, LENGTH))
    policy.act(one_hot(0, LENGTH)[None], np.array([0]))
    seen = policy.explain(0)
    assert seen.route_found
    assert seen.route[-1] == GOAL
    assert seen.target in seen.route
    assert seen.localized is None or taught.graph["observations"][seen.localized].argmax() <= 2


def test_a_node_without_a_route_does_not_take_a_route_away(taught: AgentState) -> None:
    """At a replan a node of another piece may look a little nearer than those on the way."""
    policy = agent_of(taught).policy(seed=0)
    policy.begin_episode(0, one_hot(LENGTH - 1, LENGTH))
    policy.act(one_hot(0, LENGTH)[None], np.array([0]))
    start, *_ = policy.explain(0).route
    graph = policy.memory.planner.edges
    alone = next(node for node in range(graph.size) if node not in policy.explain(0).route)
    kept = (graph.sources != alone) & (graph.targets != alone)
    edges = Edges(graph.size, *(part[kept] for part in (graph.sources, graph.targets, graph.counts, graph.weights)))
    policy.memory = replace(policy.memory, planner=Planner(edges))
    near = np.zeros(graph.size)
    near[alone], near[start] = 0.94, 0.93
    assert policy._nearest(policy._navigators[0], near) == start


def test_what_is_offered_is_as_close_in_time_as_the_network_calls_near() -> None:
    """Neighbours in time that R was not taught to call near would be joined by chance only."""
    assert SGMConfig().memory.every <= SGMConfig().retrieval.near


def test_views_that_look_alike_become_one_node_only_if_their_neighbours_do_too() -> None:
    """R calls 1 near to 2 and to 3; 2 lies beside 0 as 1 does, and 3 is elsewhere, beside 4."""
    near = np.eye(5, dtype=bool)
    for some, other in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4)]:
        near[some, other] = near[other, some] = True
    config = replace(
        CONFIG,
        retrieval=replace(CONFIG.retrieval, hidden=64, learning_rate=1e-2),
        updates_per_step=0.0,
        memory=WalksConfig(steps=5, every=1),
        sparse=SparseConfig(),
    )
    agent = SGMAgent(config, EnvSpec((5,), "float32", 3, 1), 0, "cpu")
    teach(agent.filling.networks.retrieval, near)
    walk(agent, [range(5)], 5)
    state = agent.state_dict()
    assert state.counters["full"]
    assert state.graph["observations"].argmax(1).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"localize_threshold": 2.0}, r"localize-threshold must lie in \[0, 1\] \(R is a chance\), got 2"),
        ({"links": 0}, "links must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SGMConfig(**wrong)  # type: ignore[arg-type]
