"""Episodic Curiosity: what its bonus is good for, and whom it pays for what."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from sfl.api import Array, EnvSpec, Episode, Policy, Transitions
from sfl.baselines.config import BonusConfig, ECConfig, LocomotionConfig, PPOConfig, SGMConfig, SPTMConfig, WalksConfig
from sfl.baselines.ec import EpisodicCuriosityAgent
from sfl.baselines.random import RandomAgent, RandomConfig
from sfl.baselines.sgm import SGMAgent
from sfl.baselines.sptm import SPTMAgent
from sfl.errors import UsageError
from sfl.method.config import RetrievalConfig
from sfl.run.rollout import rollout
from sfl.worlds.session import EnvSession

from ..contract.worlds import Run, make_corridor, one_hot

LENGTH, TIME, ENVS = 40, 50, 8
CORRIDOR = EnvSpec((LENGTH,), "float32", 3, ENVS)
CURIOUS = ECConfig(
    retrieval=RetrievalConfig(near=2, far=15, hidden=32, layers=1, dim=16, learning_rate=3e-3),
    locomotion=LocomotionConfig(batch_size=8, dim=8),
    updates_per_step=0.05,
    replay_size=4_000,
    train_every=800,
    bonus=BonusConfig(scale=1.0, capacity=40),
    ppo=PPOConfig(horizon=25, dim=32, learning_rate=2e-3, clip=0.2, gamma=0.95, minibatches=2, entropy=0.05),
)


def covered(policy: Policy, episodes: int = 10) -> float:
    """Mean share of the corridor that an episode of the frozen policy sees."""
    waiting = [Episode(number, number, {"goal": None}) for number in range(episodes)]
    seen: dict[int, set[int]] = {number: set() for number in range(episodes)}
    envs = [make_corridor(LENGTH, TIME) for _ in range(5)]
    for step in rollout(policy, EnvSession(envs, lambda: waiting.pop(0) if waiting else None)):
        for episode, view in zip(step.episodes, step.transitions.next_observations, strict=True):
            seen[episode.number].add(int(view.argmax()))
    return float(np.mean([len(cells) for cells in seen.values()])) / LENGTH


def explorer(config: ECConfig, decisions: int, seed: int = 0) -> EpisodicCuriosityAgent:
    agent = EpisodicCuriosityAgent(config, CORRIDOR, seed, "cpu")
    Run(agent, [make_corridor(LENGTH, TIME) for _ in range(ENVS)]).go(decisions)
    return agent


@pytest.fixture(scope="module")
def curious() -> EpisodicCuriosityAgent:
    """One that has learned."""
    return explorer(CURIOUS, 400)


def test_for_the_bonus_it_walks_down_a_corridor_that_it_does_not_walk_down_without(
    curious: EpisodicCuriosityAgent,
) -> None:
    without = covered(explorer(replace(CURIOUS, bonus=replace(CURIOUS.bonus, scale=0.0)), 400).policy(0))
    assert covered(curious.policy(0)) > 0.85
    assert without < 0.5


@pytest.mark.parametrize(("kind", "config"), [(SPTMAgent, SPTMConfig), (SGMAgent, SGMConfig)])
def test_it_fills_a_memory_with_the_whole_corridor_where_random_walks_fill_it_with_its_beginning(
    kind: type[SPTMAgent] | type[SGMAgent], config: type[SPTMConfig] | type[SGMConfig], curious: EpisodicCuriosityAgent
) -> None:
    both = {"retrieval": CURIOUS.retrieval, "locomotion": CURIOUS.locomotion}
    settings = config(**both, memory=WalksConfig(steps=ENVS * TIME + 1, every=1))  # type: ignore[arg-type]
    farthest = []
    for walks in (curious.policy(0), RandomAgent(RandomConfig(), CORRIDOR, 0)):
        agent = kind(settings, CORRIDOR, 0, "cpu")  # type: ignore[arg-type]
        agent.filling.explore_with(walks)
        Run(agent, [make_corridor(LENGTH, TIME) for _ in range(ENVS)]).go(TIME)
        farthest.append(int(agent.filling.recorded.sorted().observations.argmax(1).max()))
    assert farthest[0] > 0.85 * LENGTH
    assert farthest[1] < 0.6 * LENGTH


def weights(agent: EpisodicCuriosityAgent) -> Array:
    networks = agent.state_dict().networks
    return np.concatenate([networks[name].ravel() for name in sorted(networks) if name.startswith("ppo")])


def test_nothing_is_earned_or_learned_before_the_retrieval_network_knows_anything() -> None:
    agent = EpisodicCuriosityAgent(CURIOUS, CORRIDOR, 0, "cpu")
    before = weights(agent)
    run = Run(agent, [make_corridor(LENGTH, TIME) for _ in range(ENVS)])
    run.go(99)
    np.testing.assert_array_equal(weights(agent), before)
    assert agent.update()["explore/memory_size"] == 0
    run.go(31)
    assert agent.update()["explore/memory_size"] >= 1
    assert (weights(agent) != before).any()


def test_a_policy_whose_learning_rate_has_fallen_to_nothing_stays() -> None:
    agent = EpisodicCuriosityAgent(replace(CURIOUS, ppo=replace(CURIOUS.ppo, decay_steps=900)), CORRIDOR, 0, "cpu")
    before = weights(agent)
    Run(agent, [make_corridor(LENGTH, TIME) for _ in range(ENVS)]).go(130)  # it is improved from 1,000 steps on
    assert agent.state_dict().counters["ppo_gradient_steps"] > 0
    np.testing.assert_array_equal(weights(agent), before)


class Walked:
    """Two environments by hand, in halves that take turns, and a simple account of what each step should earn."""

    def __init__(self) -> None:
        # A network that has learned nothing calls all views half alike; the threshold lies amid what it says.
        bonus = BonusConfig(scale=2.0, percentile=70, novelty_threshold=0.0, capacity=4)
        config = replace(CURIOUS, bonus=bonus, ppo=PPOConfig(horizon=50, dim=8), train_every=10_000)
        self.agent = EpisodicCuriosityAgent(config, EnvSpec((6,), "float32", 3, 2), 0, "cpu")
        self.agent.networks.retrieval.gradient_steps = 1  # it holds itself to be taught
        self.memory: list[list[int]] = [[], []]
        self.rewards: list[list[float]] = [[], []]

    def begin(self, env: int, number: int) -> None:
        self.agent.begin_episode(env, None)
        self.memory[env] = []
        self._visit(env, number)
        self._act(env, number)

    def go_on(self, env: int, number: int, over: bool = False) -> None:
        none, one, view = np.zeros(1, bool), np.array([env]), one_hot(number)[None]
        self.agent.observe(Transitions(one, view, one, np.zeros(1), none, none | over, view))
        self.agent.update()
        if over:
            self.rewards[env].append(0.0)
        else:
            self.rewards[env].append(2.0 * self._visit(env, number))
            self._act(env, number)

    def _act(self, env: int, number: int) -> None:
        self.agent.act(one_hot(number)[None], np.array([env]))

    def _visit(self, env: int, number: int) -> float:
        retrieval, known = self.agent.networks.retrieval, self.memory[env]
        features = retrieval.features(np.eye(6, dtype=np.float32))
        chances = retrieval.reachable(features[[number]], features[known])[0].numpy()
        earned = 0.5 - (float(np.percentile(chances, 70)) if known else 0.0)
        if earned > 0.0:
            self.memory[env] = [*known, number][-4:]
        return earned


def test_a_step_is_paid_for_what_it_led_to_in_halves_that_take_turns() -> None:
    world, rng = Walked(), np.random.default_rng(0)
    for env in (0, 1):
        world.begin(env, 0)
    for step in range(1, 25):
        for env in (0, 1):
            over = env == 1 and step == 12
            world.go_on(env, int(rng.integers(6)), over)
            if over:
                world.begin(env, 3)
    taken = world.agent._rollouts.take_known()
    assert taken.counts.tolist() == [24, 24]
    for env in (0, 1):
        np.testing.assert_allclose(taken.rewards[:, env], world.rewards[env], atol=1e-5)
        assert np.flatnonzero(taken.ended[:, env].numpy()).tolist() == [11] * env
    added = [len(memory) for memory in world.memory]
    assert world.agent._memory.sizes.tolist() == added
    assert len({round(reward, 4) for reward in world.rewards[0]}) > 5


def test_the_last_decision_of_an_episode_is_settled_when_that_ends_and_not_at_the_next_one() -> None:
    world = Walked()
    world.begin(0, 0)
    world.go_on(0, 1, over=True)
    taken = world.agent._rollouts.take_known()
    assert (taken.counts.tolist(), taken.ended[0, 0].item(), taken.rewards[0, 0].item()) == ([1, 0], True, 0.0)


def test_an_episode_that_is_broken_off_ends_with_its_last_decision() -> None:
    world = Walked()
    for _ in range(2):
        world.begin(0, 0)
        world.go_on(0, 1)
    taken = world.agent._rollouts.take_known()
    assert taken.ended[:3, 0].tolist() == [False, True, False]
    assert taken.rewards[1, 0] == 0
    assert taken.rewards[0, 0] == taken.rewards[2, 0] != 0  # the memory of the first is gone


def test_goals_make_no_difference() -> None:
    agent = explorer(CURIOUS, 5)
    plain, aimed = agent.policy(3), agent.policy(3)
    plain.begin_episode(0, None)
    aimed.begin_episode(0, one_hot(7, LENGTH))
    view = one_hot(0, LENGTH)[None]
    for _ in range(20):
        assert plain.act(view, np.array([0])) == aimed.act(view, np.array([0]))


def test_it_looks_at_frames() -> None:
    spec = EnvSpec((120, 160, 3), "uint8", 7, 2)
    config = replace(
        CURIOUS,
        ppo=PPOConfig(horizon=5, dim=16, epochs=1, minibatches=1),
        retrieval=RetrievalConfig(near=1, far=3, hidden=16, layers=1, encoder="compact", batch_size=4),
        locomotion=LocomotionConfig(encoder="compact", batch_size=4),
        replay_size=100,
        train_every=12,
        updates_per_step=0.2,
    )
    agent, rng, metrics = EpisodicCuriosityAgent(config, spec, 0, "cpu"), np.random.default_rng(0), {}
    for env in (0, 1):
        agent.begin_episode(env, None)
    views, envs, never = rng.integers(256, size=(13, 2, 120, 160, 3), dtype=np.uint8), np.arange(2), np.zeros(2, bool)
    for now, after in pairwise(views):
        actions = agent.act(now, envs)
        agent.observe(Transitions(envs, now, actions, np.zeros(2), never, never, after))
        metrics |= agent.update()
    assert {"train/value_loss", "train/retrieval_loss", "explore/bonus"} <= set(metrics)
    assert metrics["explore/memory_size"] >= 1
    retrieval = agent.networks.retrieval  # frames are known by R as it is now
    np.testing.assert_allclose(agent._codes(views[0]), retrieval.features(views[0]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("replay_size", 0, "replay-size must be at least 1, got 0"),
        ("train_every", 0, "train-every must be at least 1, got 0"),
        ("updates_per_step", 0.0, "ec needs a retrieval network: name one as networks, or let one learn"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        ECConfig(**{name: value})  # type: ignore[arg-type]
