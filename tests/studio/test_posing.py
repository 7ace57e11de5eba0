"""From what a page asks for to a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.registry import make_agent
from sfl.run.folder import LoadedRun
from sfl.run.settings import EvalConfig
from sfl.studio.live import record
from sfl.studio.posing import Request, task_of
from sfl.worlds import GymConfig

from .watching import of_kind


def foreign(run: LoadedRun, env: GymConfig) -> LoadedRun:
    """The random policy in a world that is not ours."""
    experiment = replace(run.experiment, env=env, agent=RandomConfig(), eval=EvalConfig(episodes=2, levels=("any",)))
    return replace(
        run,
        experiment=experiment,
        agent=make_agent(RandomConfig(), env.spec(), 0),
        landmark_poses=np.zeros((0, 3)),
    )


@pytest.mark.parametrize(
    ("env", "place"), [(GymConfig("FrozenLake-v1"), None), (GymConfig("MiniGrid-Empty-5x5-v0"), [1, 1, 0])]
)
def test_worlds_that_are_not_ours_are_played_too(loaded: LoadedRun, env: GymConfig, place: list[int] | None) -> None:
    stranger = foreign(loaded, env)
    task = task_of(stranger, Request((("r0", "last"),), level="any", budget=4))
    told = record([stranger], task)
    steps = of_kind(told, "step")
    assert of_kind(told, "begin")[0]["start"] == place
    assert all(step["picture"].startswith("data:image/png;base64,") for step in steps)
    assert of_kind(told, "end")[0]["steps"] == len(steps) - 1
    with pytest.raises(UsageError, match=r"Places of .* are not known; give one of the run's tasks"):
        task_of(stranger, Request((("r0", "last"),), goal=(1.0, 1.0, 0.0)))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_subnormal=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["run", "picture", "x"]), inner),
    max_leaves=8,
)
names = st.sampled_from(["players", "start", "goal", "level", "pair", "budget", "seed"])


@given(st.dictionaries(names, anything))
def test_whatever_is_asked_is_understood_or_refused_in_one_line(body: dict[str, Any]) -> None:
    for asked in (body, {"players": [{"run": "r0"}], **body}):
        said = ""
        try:
            assert 1 <= len(Request.read(asked).players) <= 4
        except UsageError as error:
            said = str(error)
        assert "\n" not in said
