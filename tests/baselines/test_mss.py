"""Mapping State Space in small worlds: it learns by hindsight, walks by its map, and an oracle needs poses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sfl.api import GOAL, Array, EnvSpec, Transitions
from sfl.baselines.mss.agent import MSSAgent
from sfl.baselines.mss.config import MapConfig, MSSConfig, UVFAConfig, over_frames
from sfl.errors import UsageError
from sfl.registry import agent_name, make_agent, wants_poses
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.worlds import Task
from sfl.worlds.session import EnvSession

from ..contract.worlds import TINY, Run, evaluate, fourrooms, make_corridor, one_hot

LENGTH = 12
SPEC = EnvSpec((LENGTH,), "float32", 3, 4)
CONFIG = MSSConfig(
    uvfa=UVFAConfig(
        hidden=(64,),
        gamma=0.9,
        learning_rate=3e-3,
        batch_size=128,
        target_every=10,
        future=8,
        start_step=200,
        updates_per_step=0.4,
    ),
    map=MapConfig(landmarks=6, candidates=100, clip=-3.0, redraw_every=200),
    dim=16,
    replay_size=2_000,
    eval_epsilon=0.0,
)
TASKS = [Task("any", pair, None, one_hot(goal, LENGTH), 20) for pair, goal in enumerate([11, 10, 8, 6] * 3)]


@pytest.fixture(scope="module")
def walker() -> MSSAgent:
    """One that has learned."""
    return trained(CONFIG)


def trained(config: MSSConfig, decisions: int = 800) -> MSSAgent:
    agent = make_agent(config, SPEC, seed=0)
    Run(agent, [make_corridor(LENGTH, 40) for _ in range(4)]).go(decisions)
    assert isinstance(agent, MSSAgent)
    return agent


def success(agent: MSSAgent) -> float:
    return evaluate(agent.policy(seed=0), [make_corridor(LENGTH, 20) for _ in range(4)], TASKS)[0]


def test_it_learns_to_walk_a_corridor(walker: MSSAgent) -> None:
    assert success(walker) >= 0.9


def test_without_hindsight_it_does_not_learn() -> None:
    """Neither later states as goals nor, by the anchor, the next one, which alone would do in a world this small."""
    blind = replace(CONFIG, uvfa=replace(CONFIG.uvfa, relabel=0.0, anchor=0.0))
    assert success(trained(blind)) <= 0.5


def share_reached(config: MSSConfig, views: Array, positions: Array, future: int = 1) -> float:
    """How many of the steps that an agent learns from arrive at their goals, after one walk past all views [T, V].

    Goals in hindsight are those of the next step, unless told otherwise: each of them is reached. `positions` [T] are
    for the oracle.
    """
    uvfa = replace(config.uvfa, future=future, batch_size=500, start_step=len(views) - 2, updates_per_step=10.0)
    agent = MSSAgent(replace(config, uvfa=uvfa), EnvSpec(views.shape[1:], "float32", 3, 1), 0, "cpu")
    poses, env, never = np.stack([positions, 0 * positions, 0 * positions], axis=1), np.zeros(1, int), np.zeros(1, bool)
    agent.begin_episode(0, None)
    for time in range(len(views) - 1):
        now, after = views[[time]], views[[time + 1]]
        action = agent.act(now, env)
        agent.observe_poses(poses[[time]], poses[[time + 1]])
        agent.observe(Transitions(env, now, action, np.zeros(1), never, never, after))
        metrics = agent.update()
    assert agent.learner.gradient_steps == 10  # on 5000 steps, drawn from 199
    return metrics["train/uvfa_reached"]


MOMENTS = np.arange(200.0)
CLOCK = np.eye(200, dtype=np.float32)
"""Views of which each is seen once, as by a clock."""


@pytest.mark.parametrize("relabel", [0.3, UVFAConfig().relabel])
def test_so_many_of_the_goals_that_it_learns_from_are_given_in_hindsight(relabel: float) -> None:
    """By chance a goal is the next view once in 199 times."""
    config = replace(CONFIG, uvfa=replace(CONFIG.uvfa, relabel=relabel))
    assert share_reached(config, CLOCK, MOMENTS) == pytest.approx(relabel + (1 - relabel) / 199, abs=0.04)


def test_goals_in_hindsight_lie_anywhere_up_to_the_future_limit() -> None:
    """Of four moments ahead, each as likely, one is where the step arrives."""
    config = replace(CONFIG, uvfa=replace(CONFIG.uvfa, relabel=1.0))
    assert share_reached(config, CLOCK, MOMENTS, future=4) == pytest.approx(1 / 4, abs=0.03)


def test_landmarks_are_spread_and_the_way_to_a_far_goal_leads_over_them(walker: MSSAgent) -> None:
    assert walker.drawn_map is not None
    cells = walker.drawn_map.landmarks.argmax(1).numpy()
    assert len(set(cells.tolist())) == len(cells) == 6
    assert cells.max() - cells.min() >= 9
    policy = walker.policy(seed=0)
    policy.begin_episode(0, one_hot(11, LENGTH))
    targets = []
    for _ in range(20):
        policy.act(one_hot(1, LENGTH)[None], np.array([0]))
        seen = policy.explain(0)
        assert seen.target is not None
        targets.append(int(cells[seen.target]))
        assert seen.route == (seen.target, GOAL)
        assert seen.route_found
        assert seen.localized is not None
        assert cells[seen.localized] <= 5
    assert GOAL not in targets
    assert np.mean(np.array(targets) > 1) > 0.6
    assert max(targets) <= 6  # within the clip threshold
    policy.act(one_hot(10, LENGTH)[None], np.array([0]))
    assert policy.explain(0).target == GOAL


def test_a_landmark_that_is_reached_is_no_target(walker: MSSAgent) -> None:
    assert walker.drawn_map is not None
    policy = walker.policy(seed=0)
    policy.begin_episode(0, one_hot(11, LENGTH))
    nearest_to_start = int(walker.drawn_map.landmarks.argmax(1).argmin())
    for _ in range(20):
        policy.act(walker.drawn_map.landmarks[[nearest_to_start]].numpy(), np.array([0]))
        assert policy.explain(0).target != nearest_to_start


def test_a_given_goal_is_walked_to_in_training_until_the_episode_ends() -> None:
    agent = trained(CONFIG, decisions=80)
    agent.begin_episode(2, one_hot(11, LENGTH))
    for _ in range(30):
        agent.act(one_hot(10, LENGTH)[None], np.array([2]))
        assert agent.explain(2).target is not None  # by the map at every step, not with a share of 0.75
    agent.begin_episode(2, None)
    targets = set()
    for _ in range(60):
        agent.act(one_hot(0, LENGTH)[None], np.array([2]))
        targets.add(agent.explain(2).target)
    assert None in targets  # the bare policy has its turns again
    assert len(targets) > 1


ONE_MAP = replace(CONFIG, map=replace(CONFIG.map, redraw_every=10**6))


def test_in_training_the_planner_leads_to_landmarks_and_the_bare_policy_to_any_state() -> None:
    agent = make_agent(ONE_MAP, SPEC, seed=0)
    run = Run(agent, [make_corridor(LENGTH, 40) for _ in range(4)])
    run.go(60)
    drawn: tuple[set[int], set[int]] = set(), set()
    for _ in range(60):
        run.go(1)
        for cells, goals in zip(drawn, agent.state_dict().graph["errand_goals"], strict=True):
            cells.update(goals.argmax(1).tolist())
    landmarks = set(agent.state_dict().graph["landmarks"].argmax(1).tolist())
    assert drawn[0] <= landmarks
    assert drawn[1] - landmarks


def test_a_policy_has_the_landmarks_of_the_map_and_the_values_of_now() -> None:
    agent = trained(ONE_MAP, decisions=150)
    policy = agent.policy(seed=0)
    assert agent.drawn_map is not None
    assert policy._drawn_map is not None
    landmarks = policy.embed(agent.drawn_map.landmarks.numpy())
    now = policy.compare(landmarks, landmarks)
    np.testing.assert_allclose(policy._drawn_map.straight, now, atol=1e-4)
    assert np.abs(agent.drawn_map.straight - now).max() > 0.1  # as they were when the map was drawn


@pytest.mark.parametrize("epsilon", [0.0, 0.6])
@pytest.mark.parametrize("when", ["train", "eval"])
def test_epsilon_is_the_share_of_random_actions(walker: MSSAgent, when: str, epsilon: float) -> None:
    agent = MSSAgent(replace(CONFIG, **{f"{when}_epsilon": epsilon}), SPEC, 0, "cpu")  # type: ignore[arg-type]
    agent.load_state_dict(walker.state_dict())
    walking = agent if when == "train" else agent.policy(seed=0)
    walking.begin_episode(0, one_hot(11, LENGTH))
    taken = [int(walking.act(one_hot(10, LENGTH)[None], np.array([0]))[0]) for _ in range(600)]
    assert np.mean(np.array(taken) != 1) == pytest.approx(epsilon * 2 / 3, abs=0.06)  # of three one leads there


def test_gradient_steps_are_those_of_the_configuration() -> None:
    agent = trained(CONFIG, decisions=150)
    assert agent.learner.gradient_steps == 160  # 0.4 for each of 600 less 200 decisions


def test_origins_are_the_steps_that_saw_the_landmarks() -> None:
    agent = make_agent(CONFIG, SPEC, seed=0)
    seen: list[int] = []
    run = Run(agent, [make_corridor(LENGTH, 40) for _ in range(4)])
    run.go(150, after=lambda step: seen.extend(step.transitions.observations.argmax(1).tolist()))
    graph = agent.state_dict().graph
    assert len(graph["origin"]) == 6
    assert [seen[origin] for origin in graph["origin"]] == graph["landmarks"].argmax(1).tolist()


@pytest.mark.parametrize("config", [CONFIG, over_frames()])
def test_an_oracle_is_called_one(config: MSSConfig) -> None:
    oracle = replace(config, oracle=True)
    assert (agent_name(config), agent_name(oracle)) == ("mss", "mss-oracle")
    assert not wants_poses(config)
    assert wants_poses(oracle)


def test_an_oracle_that_is_told_nothing_says_so() -> None:
    agent = make_agent(replace(CONFIG, oracle=True), SPEC, seed=0)
    with pytest.raises(UsageError, match=r"oracle is on, but nobody tells this agent true positions.*--agent\.oracle"):
        Run(agent, [make_corridor(LENGTH, 40)]).go(1)


def test_the_oracle_rewards_positions_where_others_reward_what_is_seen() -> None:
    """In FourRoom a turn keeps the position and changes what is seen."""
    agent = make_agent(replace(TINY["mss"], oracle=True), EnvSpec((9, 9, 3), "uint8", 4, 1), seed=0)  # type: ignore[type-var]
    assert isinstance(agent, MSSAgent)
    for step in itertools.islice(rollout(agent, EnvSession(fourrooms(1), FreeEpisodes(np.random.default_rng(0)))), 80):
        agent.observe_poses(step.poses, step.next_poses)
        agent.observe(step.transitions)
    drawn = agent.experience._sample(500)
    assert drawn is not None
    near, same = agent.experience._near(drawn), drawn.slots[:, 1] == drawn.slots[:, 2]
    seen = [agent.experience.states(drawn.slots[:, column]).numpy() for column in (1, 2)]
    for row in range(500):
        # The agent is the one object of kind 10 in the picture.
        cells = [np.argwhere(picture[row][:, :, 0] == 10)[0].tolist() for picture in seen]
        assert near[row] == (cells[0] == cells[1])
    assert near[same].all()
    assert near[~same].any()


def test_an_oracle_learns_from_where_it_was_and_not_from_what_it_saw() -> None:
    """All at one place in other views, and in one view at other places."""
    half = replace(CONFIG, uvfa=replace(CONFIG.uvfa, relabel=0.5))
    oracle, alike = replace(half, oracle=True), np.ones((200, 4), np.float32)
    assert share_reached(oracle, CLOCK, 0 * MOMENTS) == 1
    assert share_reached(half, CLOCK, 0 * MOMENTS) == pytest.approx(0.5, abs=0.05)
    assert share_reached(oracle, alike, MOMENTS) == pytest.approx(0.5, abs=0.05)
    assert share_reached(half, alike, MOMENTS) == 1


@pytest.mark.parametrize(("radius", "share"), [(0.5, 1 / 4), (1.0, 2 / 4), (2.0, 3 / 4)])
def test_an_oracle_calls_all_that_lies_within_its_radius_reached(radius: float, share: float) -> None:
    """On a straight way, goals are 0, 1, 2 or 3 cells from where the step arrives."""
    oracle = replace(CONFIG, oracle=True, oracle_radius=radius, uvfa=replace(CONFIG.uvfa, relabel=1.0))
    assert share_reached(oracle, CLOCK, MOMENTS, future=4) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"plan_share": 1.5}, r"plan-share must lie in \[0, 1\], got 1.5"),
        ({"dim": 0}, "dim must be positive, got 0"),
        ({"replay_size": 10}, "replay-size must be at least 100, got 10"),
        ({"oracle_radius": -1.0}, r"oracle-radius must not be negative, got -1\.0"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        MSSConfig(**wrong)  # type: ignore[arg-type]
