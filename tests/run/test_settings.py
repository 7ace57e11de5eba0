from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sfl import experiments
from sfl.config import from_json, to_json
from sfl.errors import UsageError
from sfl.run.settings import EvalConfig, Experiment, TrainConfig

from .worlds import random_experiment


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"steps": -1}, r"train\.steps must be 0 or more, got -1"),
        ({"env_count": 0}, r"train\.env-count must be 1 to 4,096, got 0"),
        ({"eval_every": -5}, r"train\.eval-every .* got -5"),
        ({"checkpoint_every": 0}, r"train\.checkpoint-every .* got 0"),
        ({"log_every": 0}, r"train\.log-every .* got 0"),
    ],
)
def test_training_values_out_of_range(values: dict[str, int], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        TrainConfig(**{"steps": 10, **values})


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"episodes": 0}, r"eval\.episodes must be 1 to 100,000, got 0"),
        ({"levels": ()}, r"eval\.levels must name one level"),
        ({"levels": ("any", "any")}, r"eval\.levels repeats a level: any any"),
        ({"parallel": 0}, r"eval\.parallel must be 1 to 4,096, got 0"),
    ],
)
def test_evaluation_values_out_of_range(values: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        EvalConfig(**values)


def test_names_must_be_good_for_a_folder() -> None:
    with pytest.raises(UsageError, match="letters, digits"):
        replace(random_experiment(), name="../elsewhere")


def test_json_and_back() -> None:
    experiment = random_experiment()
    assert from_json(Experiment, to_json(experiment)) == experiment


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("name", 3, r"config\.name must be a text, got 3"),
        ("name", "a\0b", r"config\.name must be a text, got 'a\\x00b'"),
        ("env", None, r"config\.env is of unknown kind None"),
        ("env", {"kind": ["MiniGridConfig"]}, r"config\.env is of unknown kind \['MiniGridConfig'\]"),
        ("env.spawn", "nowhere", r"config\.env\.spawn must be one of 'fixed', 'random', got 'nowhere'"),
        ("env.spawn", ["fixed"], r"config\.env\.spawn must be one of .*, got \['fixed'\]"),
        ("env.max_steps", 2.0, r"config\.env\.max_steps must be a whole number below 9e\+18, got 2\.0"),
        ("train", [], r"config\.train must be a JSON object, got \[\]"),
        ("train.steps", True, r"config\.train\.steps must be a whole number .*, got True"),
        ("train.steps", 2**63, r"config\.train\.steps must be a whole number below"),
        ("train.steps", None, r"config\.train\.steps must be a whole number .*, got None"),
        ("eval.levels", "any", r"config\.eval\.levels must be a list, got 'any'"),
        ("eval.levels", ["any", 1], r"config\.eval\.levels\[1\] must be a text, got 1"),
        ("agent.successor.gamma", "0.9", r"config\.agent\.successor\.gamma must be a finite number, got '0\.9'"),
        ("agent.successor.gamma", float("nan"), r"config\.agent\.successor\.gamma must be a finite number, got nan"),
    ],
)
def test_values_of_other_types_are_refused_where_they_are_read(path: str, value: object, line: str) -> None:
    body = to_json(experiments.get("fourroom-sfl"))
    *outer, last = path.split(".")
    at = body
    for part in outer:
        at = at[part]
    assert last in at
    at[last] = value
    with pytest.raises(UsageError, match=line):
        from_json(Experiment, body)


def test_a_whole_number_will_do_for_a_float() -> None:
    body = to_json(experiments.get("fourroom-sfl"))
    body["agent"]["landmarks"]["add_threshold"] = 1
    found = from_json(Experiment, body).agent.landmarks.add_threshold
    assert isinstance(found, float)


@pytest.mark.parametrize("name", sorted(experiments.EXPERIMENTS))
def test_every_experiment_comes_back(name: str) -> None:
    experiment = experiments.get(name)
    assert from_json(Experiment, json.loads(json.dumps(to_json(experiment)))) == experiment
