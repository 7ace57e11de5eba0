"""Named experiments in mazes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfl import experiments
from sfl.baselines.config import BonusConfig, ControllerConfig, ECConfig, SGMConfig, SPTMConfig
from sfl.errors import UsageError
from sfl.method.config import FrameSFLConfig, SFLConfig, recommended_for_frames
from sfl.registry import agent_name
from sfl.worlds.config import DoomConfig
from sfl.worlds.mazes.load import own_mazes


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


@pytest.mark.parametrize("rule", ["inverse-visits", "uniform"])
@pytest.mark.parametrize("family", ["sfl", "paper"])
def test_the_ablation_of_frontiers_changes_the_rule_and_the_steps_alone(family: str, rule: str) -> None:
    base = experiments.get(f"{family}-doom-test-1-fixed")
    ablated = experiments.get(f"{base.name}-{rule}-frontiers")
    assert isinstance(base.agent, FrameSFLConfig)
    agent = replace(base.agent, navigator=replace(base.agent.navigator, frontier=rule))
    train = replace(base.train, steps=500_000)
    assert ablated == replace(base, name=ablated.name, agent=agent, train=train)


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
        f"{family}-doom-MAZE-{spawn}"
        for family in ("sfl", "paper", "random", "controller", "sptm", "sgm")
        for spawn in ("random", "fixed")
    } | {"reachability-doom-MAZE-random"} | {
        f"{family}-doom-MAZE-fixed-{rule}-frontiers"
        for family in ("sfl", "paper")
        for rule in ("inverse-visits", "uniform")
    } | {
        f"{family}-doom-MAZE-fixed" for family in ("mss", "mss-oracle", "ec", "ec-sptm", "ec-sgm", "sptm-rs", "sgm-rs")
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


def test_the_methods_with_two_networks_are_there_for_the_mazes_of_the_paper() -> None:
    mazes = {"random": ("sgm", "test-2", "test-6"), "fixed": ("test-1", "test-4")}
    for method in ("controller", "sptm", "sgm"):
        there = {name for name in experiments.names() if name.startswith(f"{method}-doom-")}
        wanted = {f"{method}-doom-{maze}-{spawn}" for spawn, names in mazes.items() for maze in names}
        assert there - {"controller-doom-test-1-random"} == wanted
    for method, steps in (("controller", 4_000_000), ("sptm", 20_000), ("sgm", 114_000)):
        assert experiments.get(f"{method}-doom-test-1-fixed").train.steps == steps


def test_a_memory_starts_from_the_networks_of_the_controller_in_its_maze() -> None:
    agent = experiments.get("sptm-doom-test-2-random").agent
    assert isinstance(agent, SPTMConfig)
    run = "runs/controller-doom-test-2-random/seed-0000"
    assert agent.networks == f"{run}/checkpoints/last/networks.safetensors"
    tiny = experiments.tiny(experiments.get("sptm-doom-test-2-random"))
    assert isinstance(tiny.agent, SPTMConfig)
    assert tiny.agent.networks == ""
    assert tiny.agent.memory.steps < tiny.train.eval_every


@pytest.mark.parametrize("maze", ["test-1", "test-4"])
def test_episodic_curiosity_has_the_numbers_of_the_papers_table(maze: str) -> None:
    experiment = experiments.get(f"ec-doom-{maze}-fixed")
    agent = experiment.agent
    assert isinstance(agent, ECConfig)
    assert agent.bonus == BonusConfig(scale=0.03, shift=0.5, capacity=400, novelty_threshold=0.1, percentile=90)
    assert (agent.ppo.learning_rate, agent.ppo.entropy) == (2.5e-4, 0.01)
    assert experiment.train.steps == agent.ppo.decay_steps == 2_000_000
    assert agent.ppo.horizon * experiment.train.env_count == 12 * 256
    shorter = experiments.scaled(experiment, 0.1)
    assert isinstance(shorter.agent, ECConfig)
    assert shorter.train.steps == shorter.agent.ppo.decay_steps == 200_000


@pytest.mark.parametrize("name", ["sfl-fourroom", "mss-fourroom", "sfl-doom-sgm-random", "random-fourroom"])
def test_a_tenth_of_the_budget_has_as_many_evaluations_and_checkpoints_and_ten_times_the_budget_more(name: str) -> None:
    whole = experiments.get(name).train
    tenth, ten = (experiments.scaled(experiments.get(name), factor).train for factor in (0.1, 10))
    assert (tenth.steps * 10, ten.steps) == (whole.steps, whole.steps * 10)
    for every in ("eval_every", "checkpoint_every", "log_every"):
        assert getattr(tenth, every) * 10 == getattr(whole, every) == getattr(ten, every)


@pytest.mark.parametrize("name", ["sptm-doom-sgm-random", "sgm-doom-sgm-random", "ec-sgm-doom-test-1-fixed"])
def test_a_tenth_of_the_budget_fills_a_tenth_of_the_memory_and_leaves_the_rest_to_cleanup(name: str) -> None:
    whole, tenth = experiments.get(name), experiments.scaled(experiments.get(name), 0.1)
    assert isinstance(whole.agent, SPTMConfig | SGMConfig)
    assert isinstance(tenth.agent, SPTMConfig | SGMConfig)
    assert (whole.agent.memory.steps, tenth.agent.memory.steps) == (20_000, 2_000)
    assert tenth.train.steps * 10 == whole.train.steps
    assert tenth.agent.memory.steps <= tenth.train.steps
    assert replace(tenth.agent, memory=whole.agent.memory) == whole.agent


@pytest.mark.parametrize("method", ["sptm", "sgm"])
def test_walks_of_curiosity_are_all_that_differs_and_say_that_an_oracle_chose(method: str) -> None:
    plain, curious = (experiments.get(f"{name}-doom-test-1-fixed") for name in (method, f"ec-{method}"))
    assert isinstance(curious.agent, SPTMConfig | SGMConfig)
    memory = curious.agent.memory
    assert (memory.explorer, memory.explorer_checkpoint) == ("runs/ec-doom-test-1-fixed/seed-0000", "oracle")
    walked = replace(curious.agent, memory=replace(memory, explorer=""))
    assert replace(curious, name=plain.name, agent=walked) == plain
    assert agent_name(curious.agent) == f"ec-{method}"
    tiny = experiments.tiny(curious).agent
    assert isinstance(tiny, SPTMConfig | SGMConfig)
    assert tiny.memory.explorer == tiny.networks == ""


def test_graphs_of_random_spawn_are_asked_the_tasks_of_fixed_spawn() -> None:
    one, usual = experiments.get("sptm-rs-doom-test-1-fixed"), experiments.get("sptm-doom-test-1-fixed")
    assert (one.eval, one.train) == (usual.eval, usual.train)
    assert doom(one.name) == replace(doom(usual.name), spawn="random", pairs="fixed")
    assert isinstance(one.agent, SPTMConfig)
    assert "controller-doom-test-1-random/" in one.agent.networks


def test_the_ablation_of_the_metric_is_the_papers_column_with_r_and_thresholds_for_a_chance() -> None:
    paper, other = (experiments.get(f"{name}-doom-sgm-random") for name in ("paper", "reachability"))
    assert isinstance(paper.agent, FrameSFLConfig)
    assert isinstance(other.agent, FrameSFLConfig)
    landmarks, metric = other.agent.landmarks, other.agent.metric
    assert (landmarks.add_threshold, landmarks.localize_threshold) == (0.5, 0.7)
    run = "runs/controller-doom-sgm-random/seed-0000"
    assert (metric.measure, metric.networks) == ("reachability", f"{run}/checkpoints/last/networks.safetensors")
    as_paper = replace(
        other.agent,
        landmarks=replace(landmarks, add_threshold=0.8, localize_threshold=0.9),
        metric=paper.agent.metric,
    )
    assert replace(other, name=paper.name, agent=as_paper) == paper
    assert agent_name(other.agent) == "sfl"


def test_a_tiny_ablation_of_the_metric_reads_the_networks_of_a_tiny_controller() -> None:
    tiny, source = (
        experiments.tiny(experiments.get(f"{name}-doom-sgm-random")) for name in ("reachability", "controller")
    )
    assert isinstance(tiny.agent, FrameSFLConfig)
    assert isinstance(source.agent, ControllerConfig)
    assert tiny.agent.metric.networks == ""
    found, given = tiny.agent.metric.retrieval, source.agent.retrieval
    assert replace(found, batch_size=given.batch_size) == given


@pytest.mark.parametrize("base", ["sfl-fourroom", "sfl-multiroom-n3", "paper-fourroom", "paper-multiroom-n3"])
def test_clusters_are_formed_in_a_tenth_of_the_budget_too(base: str) -> None:
    plain, clustered = experiments.get(base), experiments.get(f"{base}-clustered")
    assert isinstance(plain.agent, SFLConfig)
    assert isinstance(clustered.agent, SFLConfig)
    assert clustered.agent.landmarks.formation == "clustered"
    assert replace(clustered, name=base, agent=replace(clustered.agent, landmarks=plain.agent.landmarks)) == plain
    tenth, tiny = (make(clustered) for make in (lambda one: experiments.scaled(one, 0.1), experiments.tiny))
    for shorter in (clustered, tenth, tiny):
        assert isinstance(shorter.agent, SFLConfig)
        assert shorter.agent.landmarks.add_every < shorter.train.steps
