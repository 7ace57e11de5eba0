"""Named experiments in mazes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sfl import experiments
from sfl.baselines.config import BonusConfig, ControllerConfig, ECConfig, SGMConfig, SPTMConfig
from sfl.cli.commands import configure
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
    ends = f"-{spawn}-spawn"
    places = [place for place in experiments.PLACES if place.endswith(ends) and place != "test-1-random-spawn"]
    assert {f"{maze}-{spawn}-spawn" for maze in (*own_mazes(), "maze")} <= set(places)
    for place in places:
        ours, other = experiments.get(place), experiments.get(place, "random")
        assert ours.eval == other.eval
        assert (doom(ours.name).maze, doom(ours.name).spawn) == (doom(other.name).maze, spawn)


def test_in_mazes_only_the_maze_and_the_spawn_differ() -> None:
    one = experiments.get("maze-random-spawn")
    for maze in ("office", "sgm"):
        other = experiments.get(f"{maze}-random-spawn")
        assert other == replace(one, name=other.name, env=replace(doom(one.name), maze=maze))


@pytest.mark.parametrize("rule", ["inverse-visits", "uniform"])
@pytest.mark.parametrize("family", ["sfl", "paper"])
def test_the_ablation_of_frontiers_changes_the_rule_and_the_steps_alone(family: str, rule: str) -> None:
    base = experiments.get(f"test-1-fixed-spawn-{family}")
    ablated = experiments.get(f"{base.name}-{rule}-frontiers")
    assert isinstance(base.agent, FrameSFLConfig)
    agent = replace(base.agent, navigator=replace(base.agent.navigator, frontier=rule))
    train = replace(base.train, steps=500_000)
    assert ablated == replace(base, name=ablated.name, agent=agent, train=train)


def test_the_small_maze_has_the_small_encoder_and_network() -> None:
    experiment = experiments.get("laptop-maze-sfl")
    assert isinstance(experiment.agent, FrameSFLConfig)
    ours = recommended_for_frames()
    successor = replace(ours.successor, hidden=(256, 256), updates_per_step=1 / 24)
    assert experiment.agent == replace(ours, successor=successor, frames=replace(ours.frames, encoder="compact"))
    assert (doom("laptop-maze-sfl").maze, doom("laptop-maze-sfl").spawn) == ("small", "random")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("laptop-maz",), "No place 'laptop-maz'. Did you mean 'laptop-maze'?"),
        (("fourroom", "papr"), "No agent 'papr'. Did you mean 'paper'?"),
        (("world", "paper"), "There is no agent 'paper' in world; --agent can be sfl, random."),
        (("test-1-random-spawn",), "There is no agent 'sfl' in test-1-random-spawn; --agent can be controller."),
    ],
)
def test_words_that_make_no_experiment_are_answered_with_those_that_do(words: tuple[str, ...], line: str) -> None:
    with pytest.raises(UsageError, match=re.escape(line)):
        experiments.get(*words)


def test_a_place_and_an_agent_a_name_and_an_old_name_are_the_same_experiment() -> None:
    for place, agent, name, old in (
        ("fourroom", None, "fourroom-sfl", "fourroom-sfl"),
        ("multiroom-n3", "paper", "multiroom-n3-paper", "multiroom-n3-paper"),
        ("world", "random", "world-random", "world-random"),
        ("laptop-maze", "sfl", "laptop-maze-sfl", "laptop-maze-sfl"),
        ("small-random-spawn", "random", "small-random-spawn-random", "small-random-spawn-random"),
        ("maze-fixed-spawn", None, "maze-fixed-spawn-sfl", "maze-fixed-spawn-sfl"),
        ("test-1-fixed-spawn", "ec-sgm", "test-1-fixed-spawn-ec-sgm", "test-1-fixed-spawn-ec-sgm"),
    ):
        assert experiments.get(place, agent) is experiments.get(name) is experiments.get(old)
        assert experiments.get(place, agent).name == experiments.new_name(old) == experiments.new_name(name) == name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sgm-random-spawn-sfl-add-0.70", "sgm-random-spawn-sfl-add-0.70"),
        ("multiroom-n3-mss-120-landmarks", "multiroom-n3-mss-120-landmarks"),
        ("test-1-fixed-spawn-controller-rs-networks", "test-1-fixed-spawn-controller-rs-networks"),
        ("sgm-random-spawn-paper-reachability", "sgm-random-spawn-paper-reachability"),
        ("test-1-fixed-spawn-mss-oracle", "test-1-fixed-spawn-mss-oracle"),
        ("test-1-fixed-spawn-sgm-random-spawn-walks", "test-1-fixed-spawn-sgm-random-spawn-walks"),
        ("trial-sgm-all", "trial-sgm-all"),
        ("all", "all"),
    ],
)
def test_old_names_of_runs_are_translated_with_what_follows_them(old: str, new: str) -> None:
    assert experiments.new_name(old) == new


@pytest.mark.parametrize("name", experiments.names())
def test_the_words_of_an_experiment_make_it(name: str) -> None:
    made, options = configure(experiments.words(name))
    assert made == experiments.get(name)
    assert (options.name == name) is ("--name" in experiments.words(name))


def test_tiny_reaches_every_part_in_a_maze() -> None:
    tiny = experiments.tiny(experiments.get("maze-random-spawn-sfl"))
    assert isinstance(tiny.agent, FrameSFLConfig)
    landmarks, edges = tiny.agent.landmarks, tiny.agent.edges
    due = [tiny.agent.successor.start_step, landmarks.start_step + landmarks.add_every]
    due += [landmarks.start_step + landmarks.update_every, landmarks.start_step + edges.form_every]
    assert max(due) < tiny.train.eval_every <= tiny.train.steps
    assert landmarks.trust > 0


def test_the_methods_with_two_networks_are_there_for_the_mazes_of_the_paper() -> None:
    mazes = {"random": ("sgm", "test-2", "test-6"), "fixed": ("test-1", "test-4")}
    for method in ("controller", "sptm", "sgm"):
        there = {name for name in experiments.names() if name.endswith(f"-spawn-{method}")}
        wanted = {f"{maze}-{spawn}-spawn-{method}" for spawn, names in mazes.items() for maze in names}
        assert there - {"test-1-random-spawn-controller"} == wanted
    for method, steps in (("controller", 4_000_000), ("sptm", 20_000), ("sgm", 114_000)):
        assert experiments.get(f"test-1-fixed-spawn-{method}").train.steps == steps


def test_a_memory_starts_from_the_networks_of_the_controller_in_its_maze() -> None:
    agent = experiments.get("test-2-random-spawn-sptm").agent
    assert isinstance(agent, SPTMConfig)
    run = "runs/test-2-random-spawn-controller/seed-0000"
    assert agent.networks == f"{run}/checkpoints/last/networks.safetensors"
    tiny = experiments.tiny(experiments.get("test-2-random-spawn-sptm"))
    assert isinstance(tiny.agent, SPTMConfig)
    assert tiny.agent.networks == ""
    assert tiny.agent.memory.steps < tiny.train.eval_every


@pytest.mark.parametrize("maze", ["test-1", "test-4"])
def test_episodic_curiosity_has_the_numbers_of_the_papers_table(maze: str) -> None:
    experiment = experiments.get(f"{maze}-fixed-spawn-ec")
    agent = experiment.agent
    assert isinstance(agent, ECConfig)
    assert agent.bonus == BonusConfig(scale=0.03, shift=0.5, capacity=400, novelty_threshold=0.1, percentile=90)
    assert (agent.ppo.learning_rate, agent.ppo.entropy) == (2.5e-4, 0.01)
    assert experiment.train.steps == agent.ppo.decay_steps == 2_000_000
    assert agent.ppo.horizon * experiment.train.env_count == 12 * 256
    shorter = experiments.scaled(experiment, 0.1)
    assert isinstance(shorter.agent, ECConfig)
    assert shorter.train.steps == shorter.agent.ppo.decay_steps == 200_000


@pytest.mark.parametrize("name", ["fourroom-sfl", "fourroom-mss", "sgm-random-spawn-sfl", "fourroom-random"])
def test_a_tenth_of_the_budget_has_as_many_evaluations_and_checkpoints_and_ten_times_the_budget_more(name: str) -> None:
    whole = experiments.get(name).train
    tenth, ten = (experiments.scaled(experiments.get(name), factor).train for factor in (0.1, 10))
    assert (tenth.steps * 10, ten.steps) == (whole.steps, whole.steps * 10)
    for every in ("eval_every", "checkpoint_every", "log_every"):
        assert getattr(tenth, every) * 10 == getattr(whole, every) == getattr(ten, every)


@pytest.mark.parametrize("name", ["sgm-random-spawn-sptm", "sgm-random-spawn-sgm", "test-1-fixed-spawn-ec-sgm"])
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
    plain, curious = (experiments.get(f"test-1-fixed-spawn-{name}") for name in (method, f"ec-{method}"))
    assert isinstance(curious.agent, SPTMConfig | SGMConfig)
    memory = curious.agent.memory
    assert (memory.explorer, memory.explorer_checkpoint) == ("runs/test-1-fixed-spawn-ec/seed-0000", "oracle")
    walked = replace(curious.agent, memory=replace(memory, explorer=""))
    assert replace(curious, name=plain.name, agent=walked) == plain
    assert agent_name(curious.agent) == f"ec-{method}"
    tiny = experiments.tiny(curious).agent
    assert isinstance(tiny, SPTMConfig | SGMConfig)
    assert tiny.memory.explorer == tiny.networks == ""


def test_graphs_of_random_spawn_are_asked_the_tasks_of_fixed_spawn() -> None:
    one, usual = (
        experiments.get("test-1-fixed-spawn-sptm-random-spawn-walks"),
        experiments.get("test-1-fixed-spawn-sptm"),
    )
    assert (one.eval, one.train) == (usual.eval, usual.train)
    assert doom(one.name) == replace(doom(usual.name), spawn="random", pairs="fixed")
    assert isinstance(one.agent, SPTMConfig)
    assert "test-1-random-spawn-controller/" in one.agent.networks


def test_the_ablation_of_the_metric_is_the_papers_column_with_r_and_thresholds_for_a_chance() -> None:
    paper, other = (experiments.get(f"sgm-random-spawn-{name}") for name in ("paper", "paper-reachability"))
    assert isinstance(paper.agent, FrameSFLConfig)
    assert isinstance(other.agent, FrameSFLConfig)
    landmarks, metric = other.agent.landmarks, other.agent.metric
    assert (landmarks.add_threshold, landmarks.localize_threshold) == (0.5, 0.7)
    run = "runs/sgm-random-spawn-controller/seed-0000"
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
        experiments.tiny(experiments.get(f"sgm-random-spawn-{name}")) for name in ("paper-reachability", "controller")
    )
    assert isinstance(tiny.agent, FrameSFLConfig)
    assert isinstance(source.agent, ControllerConfig)
    assert tiny.agent.metric.networks == ""
    found, given = tiny.agent.metric.retrieval, source.agent.retrieval
    assert replace(found, batch_size=given.batch_size) == given


@pytest.mark.parametrize("base", ["fourroom-sfl", "multiroom-n3-sfl", "fourroom-paper", "multiroom-n3-paper"])
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
