"""Settings of SFL: the paper's, the released code's and ours."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sfl import experiments
from sfl.config import from_json, to_json
from sfl.errors import UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import ExactConfig, FeatureConfig, FrameConfig, SFLConfig
from sfl.method.presets import as_released, ours_grid, paper_frames, resolve, tabular

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
    paper, released = flat(paper_frames()), flat(as_released(paper_frames()))
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
    asked = paper_frames(as_released=True)
    assert resolve(asked) == as_released(asked)
    for config in (SFLConfig(), paper_frames(), tabular()):
        assert resolve(config) == config


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
    chosen = ours_grid(limit=7, add_threshold=0.3)
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
        ({"frames": FrameConfig("compact")}, "frames does nothing where states are grid; leave it as it is"),
        ({"states": "frames", "features": FeatureConfig(dim=8)}, "features does nothing where states are frames"),
        ({"states": "frames", "exact": ExactConfig(gamma=0.5)}, "exact does nothing where states are frames"),
        ({"states": "one-hot", "as_released": True}, "as-released does nothing where states are one-hot"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SFLConfig(**settings)


def test_settings_of_older_runs_are_read_as_what_they_were() -> None:
    """Runs named a class for frames and one for exact psi, which had only the settings that they use."""
    body = to_json(paper_frames("compact", goal_links=3, as_released=True))
    unknown = ("states", "features", "exact")
    former = {"kind": "FrameSFLConfig"} | {name: body[name] for name in body if name not in (*unknown, "kind")}
    assert from_json(SFLConfig, former) == paper_frames("compact", goal_links=3, as_released=True)
    body = to_json(tabular(train_epsilon=0.3))
    kept = ("landmarks", "edges", "navigator", "train_epsilon", "eval_epsilon", "sharpness", "goal_links", "metric")
    former = {"kind": "TabularConfig", "gamma": 0.5, "states": 77, "solve_every": 9} | {
        name: body[name] for name in kept
    }
    exact = ExactConfig(gamma=0.5, capacity=77, solve_every=9)
    assert from_json(SFLConfig, former) == tabular(train_epsilon=0.3, exact=exact)
    body = to_json(ours_grid())
    former = {name: body[name] for name in body if name not in ("states", "frames", "exact")}
    assert from_json(SFLConfig, former) == ours_grid()
