"""SFL as a whole: what is counted (Algorithm 2), what trains psi, what happens when, by bookkeeping of our own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sfl.api import EnvSpec, Step, Transitions
from sfl.method.agent import SFLAgent
from sfl.method.config import (
    EdgeConfig,
    ExactConfig,
    FeatureConfig,
    LandmarkConfig,
    NavigatorConfig,
    SFLConfig,
    SuccessorConfig,
)
from sfl.method.presets import tabular
from sfl.method.schedule import LearnedRepresentation
from sfl.method.successor_features import StepBatch

from ..contract.worlds import FOURROOM, TINY, Run, fourrooms, one_hot

NO, YES = np.array([False]), np.array([True])
ZERO = np.array([0])


def sfl_agent(name: str, **changes: Any) -> SFLAgent:
    config = TINY[name]
    assert isinstance(config, SFLConfig)
    return SFLAgent(replace(config, **changes), FOURROOM, 0, "cpu")


class Puppet:
    """A tabular agent shown one place after another; psi is never solved, so two places are never alike."""

    def __init__(self, landmarks: LandmarkConfig, edges: EdgeConfig) -> None:
        config = tabular(landmarks=landmarks, edges=edges, exact=ExactConfig(capacity=6, solve_every=10**9))
        self.agent = SFLAgent(config, EnvSpec((6,), "float32", 2), 0, "cpu")
        self.agent.begin_episode(0, None)

    def show(self, places: str) -> Puppet:
        """a is place 0, b is 1, ...; each is one decision and one update."""
        for letter in places:
            row = one_hot("abcdef".index(letter))[None]
            action = self.agent.act(row, ZERO)
            self.agent.observe(Transitions(ZERO, row, action, np.zeros(1), NO, NO, row))
            self.agent.update()
        return self

    @property
    def landmarks(self) -> str:
        return "".join("abcdef"[int(row.argmax())] for row in self.agent.landmarks.observations)


def eager(**settings: Any) -> LandmarkConfig:
    """Collect from the first step, add one landmark every other step."""
    return LandmarkConfig(**({"start_step": 0, "add_every": 2, "update_every": 1} | settings))


# ---- landmarks


def test_nothing_is_collected_before_its_time_and_the_policy_is_random() -> None:
    agent = sfl_agent("tabular", landmarks=LandmarkConfig(start_step=300, add_every=20))
    run = Run(agent, fourrooms(2))
    actions = np.array(run.go(149))
    assert agent.env_steps == 298
    assert (agent.landmarks.set.count, agent.candidates.waiting) == (0, {})
    assert np.bincount(actions.ravel(), minlength=4).min() > 50  # 298 draws, 74.5 of each
    run.go(20)
    assert agent.landmarks.set.count > 0


def test_one_landmark_every_n_add_steps_and_the_first_state_is_the_first() -> None:
    puppet = Puppet(eager(), EdgeConfig())
    assert puppet.show("a").landmarks == ""
    assert puppet.show("b").landmarks == "a"  # a and b were candidates, a came first; the buffer is emptied
    assert puppet.show("aa").landmarks == "a"  # a is no candidate any more
    assert puppet.show("cb").landmarks == "ac"
    assert puppet.agent.landmarks.set.origin.tolist() == [0, 4]
    assert puppet.agent.landmarks.set.added_at.tolist() == [2, 6]


def test_a_full_set_stays_as_it_is() -> None:
    puppet = Puppet(eager(limit=2), EdgeConfig()).show("abcdef" * 5)
    assert len(puppet.landmarks) == 2
    assert puppet.agent.candidates.waiting == {}


def test_visits_count_the_decisions_at_a_landmark() -> None:
    puppet = Puppet(eager(limit=1), EdgeConfig()).show("ab" + "abbaab")
    assert puppet.agent.landmarks.set.visits.tolist() == [3]


# ---- transitions


def test_transitions_are_counted_between_different_landmarks_with_their_steps() -> None:
    puppet = Puppet(eager(limit=2), EdgeConfig()).show("abbb")
    assert puppet.landmarks == "ab"
    puppet.agent.begin_episode(0, None)
    puppet.show("aacdbba")
    # Localized at decisions 0, 1 (a), 4, 5 (b), 6 (a): a -> b took 3 decisions, b -> a one.
    assert puppet.agent.statistics.counts(True) == {(0, 1): 1, (1, 0): 1}
    assert puppet.agent.statistics.steps == {(0, 1): 3, (1, 0): 1}


def test_the_end_of_an_episode_joins_nothing() -> None:
    puppet = Puppet(eager(limit=2), EdgeConfig()).show("abbb")
    puppet.agent.begin_episode(0, None)
    puppet.show("a")
    puppet.agent.begin_episode(0, None)
    puppet.show("b")
    assert puppet.agent.statistics.counts(True) == {}


def test_counts_visits_and_phases_agree_with_our_own_books() -> None:
    agent = sfl_agent("tabular")
    run = Run(agent, fourrooms(2))
    books: dict[str, Counter[Any]] = {
        "random": Counter(),
        "traverse": Counter(),
        "steps": Counter(),
        "visits": Counter(),
    }
    last: list[tuple[int, int, bool] | None] = [None, None]  # landmark, decisions since, any of them random

    def book(step: Step) -> None:
        """At this moment the landmarks are still those that `act` knew."""
        active = agent.env_steps >= agent.config.landmarks.start_step
        known = {row.tobytes(): index for index, row in enumerate(agent.landmarks.observations)}
        for env in range(2):
            here = known.get(step.transitions.observations[env].tobytes()) if active else None
            before = last[env]
            if here is not None:
                books["visits"][here] += 1
                if before is not None and before[0] != here:
                    books["random" if before[2] else "traverse"][before[0], here] += 1
                    books["steps"][before[0], here] += before[1]
                before = (here, 0, False)
            exploring = agent.explain(env).target is None
            last[env] = None if before is None else (before[0], before[1] + 1, before[2] or exploring)
            if step.transitions.ended[env]:
                last[env] = None

    run.go(1_500, book)
    assert agent.landmarks.set.count == 10
    assert books["random"].total() > 50
    assert books["traverse"].total() > 50
    assert agent.statistics.random == books["random"]
    assert agent.statistics.traverse == books["traverse"]
    assert agent.statistics.steps == books["steps"]
    assert agent.landmarks.set.visits.tolist() == [books["visits"][index] for index in range(10)]


def test_a_new_landmark_inherits_one_transition_if_told_to() -> None:
    for inherit, expected in ((True, {(0, 1): 1}), (False, {})):
        puppet = Puppet(eager(limit=2, add_every=4), EdgeConfig(inherit_transition=inherit))
        puppet.show("abbb").show("aafb")  # f is the least like a that came first, one decision after a
        assert puppet.landmarks == "af"
        assert puppet.agent.statistics.counts(True) == expected
        assert puppet.agent.statistics.steps == expected


def test_a_replaced_landmark_leaves_no_counts() -> None:
    puppet = Puppet(eager(limit=3, replace="least-visited", add_every=6), EdgeConfig(threshold=0, form_every=1))
    puppet.show("abcdef" * 3)
    assert puppet.agent.landmarks.set.is_full
    for _ in range(40):
        before = puppet.landmarks
        puppet.show("abcdef")
        replaced = [index for index in range(3) if before[index] != puppet.landmarks[index]]
        pairs = set(puppet.agent.statistics.counts(True))
        if replaced:
            assert not any(set(pair) & set(replaced) for pair in pairs)
            return
    pytest.fail("no landmark was ever replaced")


def test_a_landmark_replaced_under_the_agent_is_not_where_it_was() -> None:
    puppet = Puppet(eager(limit=2, replace="least-visited"), EdgeConfig(threshold=0, form_every=1))
    puppet.show("abba")
    assert puppet.landmarks == "ab"
    puppet.show("aaaa").show("cb")  # at b, the least visited, when c takes its place
    assert puppet.landmarks == "ac"
    puppet.show("a")
    assert puppet.agent.statistics.counts(True)[1, 0] == 0  # the agent came from b, never from c


def test_clustering_keeps_no_counts_and_no_trips() -> None:
    agent = sfl_agent("sfl-clustered")
    run = Run(agent, fourrooms(2))
    run.go(194)
    assert agent.env_steps == 388
    assert agent.statistics.counts(True) or agent.statistics.counts(False)
    run.go(1)  # landmarks are made anew at 390
    assert agent.landmarks.set.added_at.tolist() == [390] * agent.landmarks.set.count
    assert not agent.statistics.counts(True)
    assert not agent.statistics.counts(False)
    assert all(navigator.trip is None for navigator in agent.local_policy.navigators.values())


def test_clustering_does_not_lead_from_a_landmark_that_is_no_more() -> None:
    puppet = Puppet(eager(limit=6, formation="clustered", add_every=6), EdgeConfig()).show("abcdef" * 2)
    assert puppet.landmarks == "abcdef"  # made anew just now, with the agent at the last of those before
    assert puppet.show("a").agent.statistics.counts(True) == {}
    assert puppet.show("b").agent.statistics.counts(True) == {(0, 1): 1}


def test_a_failed_leg_is_booked_with_the_step_it_failed_at() -> None:
    agent = sfl_agent("tabular", navigator=NavigatorConfig(replan_after=1, explore_steps=1))
    run = Run(agent, fourrooms(2))
    run.go(400)
    assert agent.statistics.failures
    times = [at for times in agent.statistics.failures.values() for at in times]
    assert all(200 <= at <= agent.env_steps for at in times)
    assert all(source != target for source, target in agent.statistics.failures)


def test_a_leg_that_was_walked_is_booked_as_walked() -> None:
    agent = sfl_agent("tabular", navigator=NavigatorConfig(explore_steps=1))
    Run(agent, fourrooms(2)).go(400)
    assert agent.update()["explore/waypoint_reached"] > 0
    _, _, _, _, walked, _ = agent.statistics.table(directed=True)
    assert walked.sum() > 10


@pytest.mark.parametrize(("forget_after", "remembered"), [(0, [1, 5, 9]), (5, [5, 9]), (80_000, [1, 5, 9])])
def test_failures_are_forgotten_at_their_age_and_with_none_given_never(
    forget_after: int, remembered: list[int]
) -> None:
    puppet = Puppet(eager(), EdgeConfig(form_every=1, forget_after=forget_after))
    for step in (1, 5, 9):
        puppet.agent.statistics.record_failure(0, 1, step)
    puppet.show("a" * 10)
    assert puppet.agent.statistics.failures == {(0, 1): remembered}


# ---- what trains psi


@pytest.mark.parametrize("name", ["sfl", "sfl-as-released"])
def test_only_what_the_random_policy_did_is_flagged(name: str) -> None:
    agent = sfl_agent(name, replay_size=4_000)
    run = Run(agent, fourrooms(2))
    flags: list[list[bool]] = [[], []]

    def note(step: Step) -> None:
        for env in range(2):
            flags[env].append(agent.explain(env).target is None)
            if step.transitions.ended[env]:
                flags[env].append(False)  # the episode's last observation, which no action follows

    run.go(400, note)
    replay = agent.representation._replay  # type: ignore[attr-defined]
    for env in range(2):
        stored = replay._random.reshape(len(flags), -1)[env, : len(flags[env])].tolist()
        assert stored == flags[env]
        assert all(stored[:99])  # 100 decisions are 200 steps, when landmarks begin
        assert 20 < sum(not flag for flag in stored) < 300


def test_psi_is_trained_by_random_transitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SFLConfig(
        features=FeatureConfig(dim=8, start_step=10**9),
        successor=SuccessorConfig((8,), batch_norm=False, batch_size=64, start_step=0),
        replay_size=200,
    )
    representation = LearnedRepresentation(config, EnvSpec((6,), "float32", 2), 0, torch.device("cpu"))
    rng = np.random.default_rng(0)
    for _ in range(60):  # random: 0 -> 1 by action 0; on trips: 0 -> 2 by action 1
        random = bool(rng.random() < 0.3)
        rows = one_hot(0)[None], one_hot(1 if random else 2)[None]
        action = np.array([0 if random else 1])
        representation.observe(Transitions(ZERO, rows[0], action, np.zeros(1), NO, YES, rows[1]), np.array([random]))
    seen: list[StepBatch] = []
    learn = representation.successor.step

    def spy(batch: StepBatch) -> dict[str, torch.Tensor]:
        seen.append(batch)
        return learn(batch)

    monkeypatch.setattr(representation.successor, "step", spy)
    metrics = representation.update(env_steps=5, new_steps=5)
    assert len(seen) == 5
    assert metrics["train/gradient_steps"] == 5
    start, expected = representation.features.encode(np.stack([one_hot(0), one_hot(1)]))
    for batch in seen:
        assert batch.multiplicity is not None
        assert batch.multiplicity.tolist() == [64]  # 64 equal rows drawn into one
        assert batch.actions.tolist() == [0]
        torch.testing.assert_close(batch.phi[0, 0], start)
        torch.testing.assert_close(batch.last.values[batch.last.rows], expected[None])
        assert float(batch.last_weights[0]) == pytest.approx(config.successor.gamma)


def test_psi_trains_no_encoder() -> None:
    agent = sfl_agent("sfl", features=FeatureConfig(dim=16, start_step=10**9))
    run = Run(agent, fourrooms(2))
    representation = agent.representation
    assert isinstance(representation, LearnedRepresentation)
    before = [parameter.clone() for parameter in representation.features.encoder.parameters()]
    run.go(100)
    assert representation.successor.gradient_steps > 0
    assert all(torch.equal(a, b) for a, b in zip(before, representation.features.encoder.parameters(), strict=True))


def test_updates_are_counted_per_environment_step() -> None:
    features = FeatureConfig(dim=8, batch_size=4, start_step=40, stop_step=120, updates_per_step=0.25)
    successor = SuccessorConfig((8,), batch_norm=False, batch_size=4, start_step=100, updates_per_step=0.3)
    config = SFLConfig(
        features=features, successor=successor, landmarks=LandmarkConfig(start_step=10**9), replay_size=400
    )
    agent = SFLAgent(config, FOURROOM, 0, "cpu")
    Run(agent, fourrooms(2)).go(100)
    representation = agent.representation
    assert isinstance(representation, LearnedRepresentation)
    # psi: 100 steps after step 100, times 0.3. phi: 80 steps from 40 to 120, times 0.25.
    assert representation.successor.gradient_steps == 30
    assert representation._gradient_steps == 30 + 20


# ---- acting


def test_epsilon_is_the_share_of_random_actions() -> None:
    agent = sfl_agent("tabular", eval_epsilon=0.0)
    Run(agent, fourrooms(2)).go(500)
    (observation, _), goal = fourrooms(1)[0].reset(options={"goal": None}), agent.landmarks.observations[-1]
    rows = observation["observation"][None]

    def first_actions(epsilon: float, draws: int) -> list[int]:
        agent.config = replace(agent.config, eval_epsilon=epsilon)
        found = []
        for seed in range(draws):
            policy = agent.policy(seed)
            policy.begin_episode(0, goal)
            found += policy.act(rows, ZERO).tolist()
        return found

    (greedy,) = set(first_actions(0.0, 20))
    mixed = Counter(first_actions(0.4, 500))
    # Random with probability 0.4, and then the greedy one in a quarter of cases: 0.7 in all.
    assert mixed[greedy] / 500 == pytest.approx(0.7, abs=0.07)
    assert set(mixed) == {0, 1, 2, 3}


def test_a_policy_says_where_it_is_and_where_it_goes() -> None:
    agent = sfl_agent("tabular")
    Run(agent, fourrooms(2)).go(1_000)
    policy = agent.policy(seed=0)
    landmark = agent.landmarks.observations[0]
    goal = agent.landmarks.observations[-1]
    policy.begin_episode(0, goal)
    policy.act(landmark[None], ZERO)
    explanation = policy.explain(0)
    assert explanation.localized == 0
    assert explanation.route_found
    assert (explanation.route[0], explanation.route[-1]) == (0, -1)  # from landmark 0 to the goal
    assert explanation.route[-2] == len(agent.landmarks.observations) - 1
    assert explanation.target == explanation.route[1]
    similarity = policy.sfs(np.stack([goal, landmark]), goal[None])
    assert similarity.shape == (2, 1)
    assert similarity[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert similarity[1, 0] < 0.99
