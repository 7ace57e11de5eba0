"""The visual controller walks to what it can see from afar, and needs inverse dynamics for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from sfl.api import GOAL, EnvSpec
from sfl.baselines.config import ControllerConfig, LocomotionConfig
from sfl.baselines.controller import ControllerAgent
from sfl.config import from_json, to_json
from sfl.errors import CheckpointError, UsageError
from sfl.method.config import RetrievalConfig
from sfl.old_names import new_option
from sfl.registry import AgentConfig, make_agent
from sfl.worlds import Task

from ..contract.worlds import Run, evaluate, make_corridor, one_hot

LENGTH = 12
SPEC = EnvSpec((LENGTH,), "float32", 3, 4)
CONFIG = ControllerConfig(
    retrieval=RetrievalConfig(near=2, far=6, hidden=16, layers=1, dim=16, batch_size=16),
    locomotion=LocomotionConfig(ahead=5, batch_size=64, dim=32, learning_rate=5e-3),
    updates_per_step=0.1,
    replay_size=4_000,
)


def taught(config: ControllerConfig, decisions: int = 500) -> ControllerAgent:
    agent = ControllerAgent(config, SPEC, 0, "cpu")
    Run(agent, [make_corridor(LENGTH, 60) for _ in range(4)]).go(decisions)
    return agent


def success(agent: ControllerAgent) -> float:
    tasks = [Task("any", pair, None, one_hot(goal, LENGTH), 10) for pair, goal in enumerate([5, 4, 3] * 10)]
    return evaluate(agent.policy(seed=0), [make_corridor(LENGTH, 10) for _ in range(6)], tasks)[0]


@pytest.fixture(scope="module")
def walker() -> ControllerAgent:
    """One that has learned."""
    return taught(CONFIG)


def test_it_walks_to_goals_a_few_decisions_ahead_and_cannot_without_inverse_dynamics(walker: ControllerAgent) -> None:
    assert success(walker) >= 0.8
    assert success(taught(replace(CONFIG, updates_per_step=0.0), decisions=1)) < 0.5


def test_from_one_place_it_walks_either_way_as_each_goal_asks(walker: ControllerAgent) -> None:
    """Whoever takes no notice of the goal, or takes one for all, walks the same way to both."""
    policy = walker.policy(seed=0)
    for env, goal in enumerate([8, 2]):
        policy.begin_episode(env, one_hot(goal, LENGTH))
    policy.act(np.stack([one_hot(5, LENGTH)] * 2), np.arange(2))
    to_the_end, to_the_start = (policy.action_values(env).values for env in (0, 1))
    assert to_the_end[1] > 2 * to_the_end[0]
    assert to_the_start[0] > 2 * to_the_start[1]


def test_it_says_that_it_walks_to_the_goal() -> None:
    policy = ControllerAgent(CONFIG, SPEC, 0, "cpu").policy(0)
    policy.begin_episode(0, one_hot(3, LENGTH))
    policy.begin_episode(1, None)
    assert policy.act(np.stack([one_hot(0, LENGTH)] * 2), np.array([0, 1])).shape == (2,)
    assert policy.explain(0).target == GOAL
    assert policy.explain(1).target is None


def test_networks_of_a_checkpoint_are_a_start(tmp_path: Path) -> None:
    first = taught(CONFIG, decisions=60)
    file = tmp_path / "networks.safetensors"
    save_file(first.state_dict().networks, file)
    second = ControllerAgent(replace(CONFIG, networks=str(file)), SPEC, 7, "cpu")
    assert second.networks.retrieval.gradient_steps == 0
    for name, value in second.state_dict().networks.items():
        np.testing.assert_array_equal(value, first.state_dict().networks[name])
    views = torch.zeros(3, 1, LENGTH)
    assert torch.equal(first.networks.locomotion.scores(views), second.networks.locomotion.scores(views))


def test_extra_negatives_are_for_r_to_learn_from_and_nothing_to_l() -> None:
    plain, strange = (
        taught(replace(CONFIG, extra_negatives=count), decisions=60).state_dict().networks for count in (0, 3)
    )
    other = {name.split(".")[0] for name in plain if not np.array_equal(plain[name], strange[name])}
    assert other == {"retrieval"}


def test_networks_that_do_not_learn_keep_no_replay() -> None:
    agent = taught(replace(CONFIG, updates_per_step=0.0), decisions=30)
    state = agent.state_dict()
    assert state.replay == {}
    assert agent.networks.retrieval.gradient_steps == 0


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ("nothing", r"Cannot read networks from .*: No such file.*make one: sfl network train both --out FILE"),
        ("text", r"is no whole \.safetensors file"),
        ("retrieval", "holds no locomotion network; make one"),
        ("other", "holds another retrieval network than the settings describe"),
    ],
)
def test_a_file_without_these_networks_is_refused(keep: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    arrays = ControllerAgent(CONFIG, SPEC, 0, "cpu").state_dict().networks
    if keep == "text":
        file.write_text("not a network, but long enough to be one")
    elif keep == "retrieval":
        save_file({name: value for name, value in arrays.items() if name.startswith("retrieval.")}, file)
    elif keep == "other":
        save_file(arrays, file)
        assert load_file(file).keys() == arrays.keys()
    config = replace(CONFIG, networks=str(file))
    if keep == "other":
        config = replace(config, retrieval=replace(CONFIG.retrieval, dim=8))
    with pytest.raises((UsageError, CheckpointError), match=words) as caught:
        make_agent(config, SPEC, 0)
    assert "\n" not in str(caught.value)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="updates-per-step must be 0 or more, got -1"):
        ControllerConfig(updates_per_step=-1)
    with pytest.raises(UsageError, match="replay-size must be at least 1, got 0"):
        ControllerConfig(replay_size=0)
    with pytest.raises(UsageError, match=r"extra-negatives must lie in \[0, 31\] \(half of R's batch.*, got 32"):
        ControllerConfig(extra_negatives=32)


def test_settings_of_older_runs_are_read() -> None:
    """They called the extra negatives strangers."""
    body = to_json(ControllerConfig(extra_negatives=3))
    body["strangers"] = body.pop("extra_negatives")
    assert from_json(AgentConfig, body) == ControllerConfig(extra_negatives=3)
    assert new_option("--agent.strangers=3") == "--agent.extra-negatives=3"
