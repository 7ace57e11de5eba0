"""Named experiments in mazes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfl import experiments
from sfl.agents.sfl.config import FrameSFLConfig, recommended_for_frames
from sfl.core.errors import UsageError
from sfl.envs.config import DoomConfig
from sfl.envs.mazes import own_mazes


def doom(name: str) -> DoomConfig:
    env = experiments.get(name).env
    assert isinstance(env, DoomConfig)
    return env


@pytest.mark.parametrize("spawn", ["random", "fixed"])
def test_ours_and_the_random_policy_play_in_the_same_mazes_by_the_same_rules(spawn: str) -> None:
    ends = f"-{spawn}"
    ours = {name for name in experiments.names() if name.startswith("sfl-doom-") and name.endswith(ends)}
    theirs = {name for name in experiments.names() if name.startswith("random-doom-") and name.endswith(ends)}
    assert {name.replace("sfl-", "random-") for name in ours} == theirs
    assert {f"sfl-doom-{maze}{ends}" for maze in own_mazes()} | {f"sfl-doom{ends}"} <= ours
    for name in ours:
        other = name.replace("sfl-", "random-")
        assert experiments.get(name).eval == experiments.get(other).eval
        assert (doom(name).maze, doom(name).spawn) == (doom(other).maze, spawn)


def test_in_mazes_only_the_maze_and_the_spawn_differ() -> None:
    one = experiments.get("sfl-doom-random")
    for maze in ("office", "sgm"):
        other = experiments.get(f"sfl-doom-{maze}-random")
        assert other == replace(one, name=other.name, env=replace(doom(one.name), maze=maze))


def test_the_small_maze_has_the_small_encoder_and_network() -> None:
    experiment = experiments.get("sfl-doom-small")
    assert isinstance(experiment.agent, FrameSFLConfig)
    ours = recommended_for_frames()
    successor = replace(ours.successor, hidden=(256, 256), updates_per_step=1 / 24)
    assert experiment.agent == replace(ours, successor=successor, frames=replace(ours.frames, encoder="compact"))
    assert (doom("sfl-doom-small").maze, doom("sfl-doom-small").spawn) == ("small", "random")


def test_any_maze_is_said_of_experiments_without_one() -> None:
    lines = dict(experiments.overview())
    families = {name: line for name, line in lines.items() if "doom" in name}
    assert {name for name, line in families.items() if "in any maze: --env.maze NAME|FILE" in line} == {
        *("sfl-doom-random", "sfl-doom-fixed", "random-doom-random", "random-doom-fixed")
    }
    assert {name for name, line in families.items() if "MAZE: " in line} == {
        *(f"{family}-doom-MAZE-{spawn}" for family in ("sfl", "paper", "random") for spawn in ("random", "fixed")),
        *("mss-doom-MAZE-fixed", "mss-oracle-doom-MAZE-fixed"),
    }
    assert "sfl-doom-small" in families


def test_a_maze_without_experiments_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'sfl-doom-small'"):
        experiments.get("sfl-doom-smal")


def test_tiny_reaches_every_part_in_a_maze() -> None:
    tiny = experiments.tiny(experiments.get("sfl-doom-random"))
    assert isinstance(tiny.agent, FrameSFLConfig)
    landmarks, edges = tiny.agent.landmarks, tiny.agent.edges
    due = [tiny.agent.successor.start_step, landmarks.start_step + landmarks.add_every]
    due += [landmarks.start_step + landmarks.update_every, landmarks.start_step + edges.form_every]
    assert max(due) < tiny.train.eval_every <= tiny.train.steps
    assert landmarks.trust > 0
