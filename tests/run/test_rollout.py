from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from sfl.api import AgentState, Array, Episode, Metrics, Policy, Transitions
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.seeding import generator_state, restore_generator, spawn
from sfl.worlds.session import EnvSession

from .worlds import Corridor, Walk


def session(envs: list[Corridor], seed: int = 0) -> EnvSession:
    return EnvSession(envs, FreeEpisodes(spawn(seed, ["env"])["env"]))


def test_policy_is_told_of_an_episode_only_after_the_reader_had_its_last_step() -> None:
    walk, seen = Walk(), []
    for step in islice(rollout(walk, session([Corridor(limit=2)])), 3):
        walk.calls.append(("read", step.lengths.tolist(), list(step.ended)))
        seen.append((step.transitions.observations[0, 0], step.transitions.next_observations[0, 0]))
    assert walk.calls == [
        ("begin", 0, None),
        ("act", [0], [0]),
        ("read", [1], []),
        ("act", [0], [1]),
        ("read", [2], [0]),
        ("begin", 0, None),
        ("act", [0], [0]),
        ("read", [1], []),
    ]
    assert seen == [(0, 1), (1, 2), (0, 1)]  # the last observation of an episode is its own, not the next one's first


class Learner(Walk):
    """Writes down what it is to learn from."""

    def observe_poses(self, poses: Array, next_poses: Array) -> None:
        self.calls.append(("poses", poses[:, 0].tolist(), next_poses[:, 0].tolist()))

    def observe(self, transitions: Transitions) -> None:
        self.calls.append(("observe", transitions.next_observations[:, 0].tolist()))

    def update(self) -> Metrics:
        self.calls.append(("update",))
        return {"train/gradient_steps": float(len(self.calls))}

    def policy(self, seed: int) -> Policy:
        raise NotImplementedError

    def state_dict(self) -> AgentState:
        raise NotImplementedError

    def load_state_dict(self, state: AgentState) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("told", [False, True])
def test_a_learner_observes_and_updates_before_the_reader_has_the_step(told: bool) -> None:
    learner = Learner()
    for step in islice(rollout(learner, session([Corridor(limit=2)]), learner, tell_poses=told), 2):
        assert step.metrics == {"train/gradient_steps": len(learner.calls)}
        learner.calls.append(("read",))
    poses = [[("poses", [0.0], [1.0])], [("poses", [1.0], [2.0])]] if told else [[], []]
    assert learner.calls == [
        ("begin", 0, None),
        *[("act", [0], [0]), *poses[0], ("observe", [1]), ("update",), ("read",)],
        *[("act", [0], [1]), *poses[1], ("observe", [2]), ("update",), ("read",)],
    ]


def test_training_episodes_have_no_goal_and_fresh_seeds() -> None:
    env = Corridor(limit=1)
    list(islice(rollout(Walk(), session([env])), 4))
    assert all(options == {"goal": None} for _, options in env.resets)
    assert len({seed for seed, _ in env.resets}) == 4


def test_poses_are_those_of_the_observations_and_missing_ones_are_nan() -> None:
    step = next(iter(rollout(Walk(), session([Corridor(), Corridor()]))))
    np.testing.assert_array_equal(step.poses[:, 0], [0, 0])
    np.testing.assert_array_equal(step.next_poses[:, 0], [1, 1])

    class Blind(Corridor):
        def reset(self, **options):  # type: ignore[no-untyped-def]
            return super().reset(**options)[0], {}

    step = next(iter(rollout(Walk(), session([Blind()]))))
    assert np.isnan(step.poses).all()
    np.testing.assert_array_equal(step.next_poses[0], [1, 0, 0])


def test_episodes_run_dry_one_environment_after_the_other() -> None:
    episodes = iter([Episode(n, n, {"goal": goal}, budget=3) for n, goal in enumerate((1, 2, 9))])
    walk = Walk()
    steps = list(rollout(walk, EnvSession([Corridor(), Corridor()], lambda: next(episodes, None))))
    assert [step.transitions.env_indices.tolist() for step in steps] == [[0, 1], [0, 1], [0], [0]]
    ended = [(step.episodes[row].number, bool(step.succeeded[row])) for step in steps for row in step.ended]
    assert ended == [(0, True), (1, True), (2, False)]
    assert bool(steps[-1].transitions.truncated[0])  # the budget of 3, not the corridor's own 4
    assert ("begin", 0, 9) in walk.calls


def saved_after(steps: int) -> tuple[list[Corridor], str, dict[str, object]]:
    envs = [Corridor(limit=4), Corridor(limit=3)]
    rng = spawn(5, ["env"])["env"]
    running = EnvSession(envs, FreeEpisodes(rng))
    list(islice(rollout(Walk(), running), steps))
    return envs, json.dumps(running.state()), generator_state(rng)


def test_restored_session_goes_on_where_it_was() -> None:
    _, text, state = saved_after(6)  # in the middle of one episode, at the end of the other
    assert json.loads(text)[1] is None
    rng = spawn(99, ["env"])["env"]
    restore_generator(rng, state)
    envs = [Corridor(limit=4), Corridor(limit=3)]
    again = EnvSession(envs, FreeEpisodes(rng))
    assert again.restore(json.loads(text)) == []
    walk = Walk()
    list(islice(rollout(walk, again), 1))
    assert walk.calls == [("begin", 1, None), ("act", [0, 1], [2, 0])]

    reference, _, _ = saved_after(7)
    assert [env.resets[-1] for env in envs] == [env.resets[-1] for env in reference]


def test_an_environment_that_does_not_repeat_starts_a_new_episode() -> None:
    _, text, _ = saved_after(1)
    again = session([Corridor(), Corridor(noise=True)])
    assert again.restore(json.loads(text)) == [1]
    walk = Walk()
    next(iter(rollout(walk, again)))
    assert walk.calls[0] == ("begin", 1, None)


def test_an_environment_whose_replay_ends_early_starts_a_new_episode() -> None:
    _, text, _ = saved_after(2)
    assert session([Corridor(limit=1), Corridor()]).restore(json.loads(text)) == [0]
