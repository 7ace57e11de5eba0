"""Settings of SFL: the paper's, the released code's and ours."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sfl import experiments
from sfl.errors import UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import (
    FrameSFLConfig,
    SFLConfig,
    TabularConfig,
    as_released,
    frames_as_released,
    in_force,
    recommended,
)

from ..contract.worlds import FOURROOM


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting by its full name."""
    found = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        name = f"{prefix}{field.name}"
        found.update(flat(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value})
    return found


def test_as_released_changes_exactly_what_differs_from_the_paper() -> None:
    paper, released = flat(SFLConfig()), flat(as_released(SFLConfig()))
    assert {name: released[name] for name in paper if released[name] != paper[name]} == {
        "features.squared": False,
        "features.stop_step": 0,
        "successor.batch_norm": False,
        "edges.inclusive": True,
        "edges.count_traverse": False,
        "edges.inherit_transition": True,
        "edges.weight": "log-frequency",
        "navigator.frontier_among": "component",
        "navigator.reached": "localized",
        "navigator.one_trip": True,
        "navigator.route_choices": 5,
        "navigator.replan_off_route": False,
    }
    agent = SFLAgent(SFLConfig(as_released=True), FOURROOM, 0, "cpu")
    assert agent.config == dataclasses.replace(as_released(SFLConfig()), as_released=True)


def test_as_released_over_frames_changes_what_settings_can_express() -> None:
    paper, released = flat(FrameSFLConfig()), flat(frames_as_released(FrameSFLConfig()))
    assert {name: released[name] for name in paper if released[name] != paper[name]} == {
        "edges.inclusive": True,
        "edges.count_traverse": False,
        "edges.directed": False,
        "edges.temporal_floor": 10,
        "edges.failure_limit": 2,
        "edges.forget_after": 0,
        "navigator.frontier_among": "component",
        "navigator.reached": "similar",
        "navigator.one_trip": True,
        "navigator.replan_off_route": False,
    }
    assert (released["navigator.reach_threshold"], released["navigator.look_ahead"]) == (0.9, 1)


def test_the_released_codes_side_is_taken_where_it_is_asked_for() -> None:
    asked = FrameSFLConfig(as_released=True)
    assert in_force(asked) == frames_as_released(asked)
    for config in (SFLConfig(), FrameSFLConfig(), TabularConfig()):
        assert in_force(config) == config


def test_our_own_settings_keep_to_the_limits_of_the_paper_and_learn_phi_and_psi() -> None:
    ours = {name: experiments.get(name).agent for name in experiments.names() if name.endswith("-sfl")}
    for name, agent in ours.items():
        if "maze" in name or "spawn" in name:
            continue
        assert isinstance(agent, SFLConfig)
        assert agent.features.updates_per_step > 0
        assert agent.successor.updates_per_step > 0
        if name != "world-sfl":
            assert agent.landmarks.limit == (10 if name.startswith("fourroom-sfl") else 30)
    chosen = recommended(limit=7, add_threshold=0.3)
    assert (chosen.landmarks.limit, chosen.landmarks.add_threshold) == (7, 0.3)


def test_the_defaults_are_the_papers() -> None:
    settings = flat(SFLConfig())
    paper = {
        "features.dim": 64,
        "features.norm": 10.0,
        "features.margin": 2.0,
        "features.positive_window": 2,
        "features.negative_min": 10,
        "features.negative_max": 15,
        "successor.hidden": (512,),
        "successor.gamma": 0.99,
        "successor.huber_delta": 1.0,
        "successor.target_every": 250,
        "landmarks.add_threshold": 0.99,
        "landmarks.localize_threshold": 1.0,
        "landmarks.add_every": 3_000,
        "edges.threshold": 1.0,
        "edges.weight": "exp",
        "edges.forget_after": 80_000,
        "navigator.frontier_steps": 40,
        "navigator.explore_steps": 40,
        "navigator.steps_per_landmark": 8,
        "replay_size": 20_000,
        "train_epsilon": 0.1,
        "eval_epsilon": 0.05,
    }
    assert {name: settings[name] for name in paper} == paper


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"train_epsilon": 1.5}, r"train-epsilon must lie in \[0, 1\], got 1.5"),
        ({"eval_epsilon": -0.1}, r"eval-epsilon must lie in \[0, 1\]"),
        ({"goal_links": 0}, "goal-links must be at least 1, got 0"),
        ({"replay_size": 10}, "replay-size must be at least 100, got 10"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SFLConfig(**settings)
