from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfl.core.config import from_json, to_json
from sfl.core.errors import UsageError
from sfl.run.config import EvalConfig, Experiment, TrainConfig

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
