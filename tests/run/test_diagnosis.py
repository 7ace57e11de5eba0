"""What is said of runs that fail, and that nothing is said of good ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfl import experiments
from sfl.api import AgentState, EnvSpec
from sfl.cli.commands import configure
from sfl.run import checkpoint
from sfl.run.chance import Share, wilson
from sfl.run.diagnosis import PAGE, Facts, Level, diagnose, finding_line, read_facts, read_settings
from sfl.run.folder import RunFolder
from sfl.worlds.exam import EXAM_FILE, NEVER_TWICE, NO_SEED, SEARCH, Exam, save_exam

from .test_report import rows, write

ROOT = Path(__file__).parents[2]


def level(successes: int, random: int, tries: int = 100) -> Level:
    chance = Share(tries, 100 * random / tries, wilson(random, tries))
    return Level("any", tries, 100 * successes / tries, wilson(successes, tries), chance)


SETTINGS = {
    "agent.landmarks.limit": 10,
    "agent.landmarks.add-threshold": 0.6,
    "agent.landmarks.localize-threshold": 0.8,
    "agent.landmarks.start-step": 5_000,
    "agent.landmarks.add-every": 500,
    "agent.edges.threshold": 1.0,
    "train.steps": 20_000,
}
GOOD = Facts(9, 30, 0.1, 160, 0.5, 0.1, (level(90, 30),), SETTINGS)
"""As of a run in FourRoom."""


def named(facts: Facts) -> list[str]:
    return [finding.name for finding in diagnose(facts)]


def test_nothing_is_said_of_good_runs() -> None:
    assert named(GOOD) == []
    assert named(replace(GOOD, landmarks=3, edges=6, states=44)) == []  # a small world needs few landmarks
    assert named(replace(GOOD, landmarks=3, states=None)) == []  # nobody knows how small, but it works
    assert named(Facts(levels=(level(90, 30),))) == []  # a method without a graph
    assert named(Facts()) == []
    exact = {**SETTINGS, "agent.landmarks.localize-threshold": 1.0}
    assert named(replace(GOOD, localized=0.003, settings=exact)) == []  # only identical observations count


CASES = {
    "few landmarks": [
        (replace(GOOD, landmarks=1, edges=0), "1 landmark, 0 edges for 160 distinct", "landmarks.add-threshold 0.9"),
        (replace(GOOD, landmarks=7), "7 landmarks, 30 edges for 160 distinct states", "landmarks.add-threshold 0.9"),
        (replace(GOOD, landmarks=10, states=999), "10 landmarks", "--agent.landmarks.limit 40"),
        (replace(GOOD, landmarks=4, states=None, levels=(level(31, 30),)), "4 landmarks", "add-threshold 0.9"),
        (replace(GOOD, landmarks=0, settings={**SETTINGS, "train.steps": 900}), "0 landmarks", "--train.steps 20000"),
        (replace(GOOD, landmarks=1, settings={**SETTINGS, "train.steps": 6_000}), "1 landmark", "--train.steps 20000"),
    ],
    "no edges": [
        (replace(GOOD, edges=0), "9 landmarks, 0 edges", "--agent.edges.threshold 0"),
        (replace(GOOD, edges=0, settings={"train.steps": 7}), "9 landmarks, 0 edges", "--train.steps 14"),
    ],
    "nobody localized": [(replace(GOOD, localized=0.04), "in 4.0% of the decisions", "localize-threshold 0.7")],
    "graph in pieces": [(replace(GOOD, outside=0.6), "60% of the landmarks", "--agent.edges.threshold 0")],
    "goals never seen": [
        (replace(GOOD, goals_unseen=0.51), "never came near 51% of", "--train.steps 40000"),
        (replace(GOOD, landmarks=0, goals_unseen=1.0, never_twice=True), "100% of", "--env.goal-test my_module:my_fun"),
    ],
    "not better than random": [
        (replace(GOOD, levels=(level(40, 30),)), "any 40% (30.9-49.8), random 30% (21.9-39.6)", "--train.steps 40000"),
        (replace(GOOD, levels=(level(100, 99),)), "any 100% (96.3-100.0), random 99%", "goals farther away"),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_a_failure_is_said_with_its_number_and_an_option(name: str) -> None:
    for facts, says, option in CASES[name]:
        first = diagnose(facts)[0]
        assert first.name == name
        assert says in first.says
        assert option in first.option
        assert first.page == f"{PAGE}#{name.replace(' ', '-')}"


def test_the_worst_comes_first_and_the_rest_in_the_same_line() -> None:
    broken = Facts(1, 0, 0.0, 160, 0.0, 0.9, (level(31, 30),), SETTINGS)
    found = diagnose(broken)
    assert [one.name for one in found] == [
        *("few landmarks", "nobody localized", "goals never seen", "not better than random")
    ]
    line = finding_line("world-sfl seed 0", found)
    assert line.startswith("world-sfl seed 0: few landmarks: 1 landmark, 0 edges for 160 distinct states. Most likely ")
    assert "; try --agent.landmarks.add-threshold 0.9. Also nobody localized: in 0.0% of the decisions" in line
    assert line.endswith("See docs/reference/troubleshooting.md#few-landmarks")
    assert "\n" not in line


def test_every_finding_has_its_section() -> None:
    headings = [line.removeprefix("## ") for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("## ")]
    assert [heading.lower() for heading in headings] == list(CASES)


def test_every_option_that_is_advised_exists() -> None:
    """Given to `sfl train`, with a value where the advice leaves it open."""
    for name, cases in CASES.items():
        for facts, _, _ in cases:
            words = diagnose(facts)[0].option.split()
            if words[0].startswith("--"):
                configure(["world-sfl", *words])
            else:
                assert name == "not better than random"


def make_run(folder: Path, sources: list[int], targets: list[int], doubted: list[bool]) -> Path:
    """Ten landmarks, 40 distinct poses; 9 of 10 episodes succeed, of the random policy's 2."""
    poses = np.array([(step % 40, 0, 0) for step in range(200)], np.float32)
    ends = {"edge_sources": np.array(sources, np.int64), "edge_targets": np.array(targets, np.int64)}
    graph = {"origin": np.arange(10), **ends, "doubted": np.array(doubted)}
    spec = EnvSpec((1,), "uint8", 2, 1)
    kept = checkpoint.Checkpoint(AgentState(graph=graph), "world", spec, 200, poses=(poses,))
    write(folder / "episodes.csv", rows(0, 9, 20, 100) + rows(0, 9, 20, 200))
    write(folder / "random.csv", [replace(row, agent="random", env_steps=0) for row in rows(0, 2, 20)])
    columns = "env_steps,graph/localized_in_evaluation,explore/goals_unseen\n"
    (folder / "eval.csv").write_text(columns + "100,0.1,0.9\n200,0.6,0.25\n")
    checkpoint.save(RunFolder(folder).last, kept)
    return folder


def test_facts_are_read_from_the_files_of_a_run(tmp_path: Path) -> None:
    chain = (list(range(3)), list(range(1, 4)))  # 0 to 3 in a row; 4 to 9 alone
    facts = read_facts(make_run(tmp_path / "run", *chain, doubted=[False] * 8 + [True]))  # 8 is doubted, 9 newer
    assert (facts.landmarks, facts.edges, facts.states) == (9, 3, 40)
    assert facts.outside == pytest.approx(5 / 9)
    assert (facts.localized, facts.goals_unseen) == (0.6, 0.25)
    (any_level,) = facts.levels
    assert (any_level.percent, any_level.random.percent, any_level.episodes) == (90.0, 20.0, 10)
    assert named(facts) == ["graph in pieces"]
    write(tmp_path / "run" / "episodes.csv", [replace(row, maze="small") for row in rows(0, 9, 20)])
    assert read_facts(tmp_path / "run").states is None  # no two poses in a maze are the same


def test_an_exam_of_what_is_never_seen_twice_is_no_matter_of_longer_training(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [0], [1], [False] * 10)
    (run / "eval.csv").write_text("env_steps,explore/goals_unseen\n200,1.0\n")
    assert not read_facts(run).never_twice  # no exam
    exam = Exam(np.ones((1, 3)), np.ones(1, int), np.array([SEARCH]), np.array([NO_SEED]), 9, 9, False, "")
    for note in ("all that can be reached", f"those that walks met; {NEVER_TWICE}: give another"):
        save_exam(run / EXAM_FILE, replace(exam, note=note))
        assert read_facts(run).never_twice == (NEVER_TWICE in note)
    assert NEVER_TWICE in diagnose(read_facts(run))[0].likely


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    """A checkpoint in pieces, or none, is a matter of other commands: a report has its numbers all the same."""
    run = make_run(tmp_path / "run", [0], [1], [])
    (run / "checkpoints" / "last" / "graph.npz").write_bytes(b"?")
    (run / "eval.csv").unlink()
    (run / "random.csv").unlink()
    (run / "config.json").write_text("[]")
    assert read_facts(run) == Facts()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"experiment": ' + '{"a": ' * 900 + "1" + "}" * 901])
def test_settings_that_are_nested_too_deeply_are_not_known(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path / "run", [0], [1], [])
    (run / "config.json").write_text(text)
    assert read_facts(run).settings == {}


def test_settings_that_are_no_numbers_are_compared_with_nothing(tmp_path: Path) -> None:
    """In damaged runs and in those of other versions; advice then does without."""
    names = ("landmarks.limit", "landmarks.add-threshold", "landmarks.start-step", "landmarks.localize-threshold")
    words = {f"agent.{name}": "many" for name in (*names, "edges.threshold")} | {"train.steps": "many"}
    for facts in [case[0] for cases in CASES.values() for case in cases]:
        assert diagnose(replace(facts, settings=words)) == diagnose(replace(facts, settings={}))


def test_options_are_read_by_their_names(tmp_path: Path) -> None:
    from sfl.run.folder import create

    experiment = experiments.get("fourroom-sfl")
    folder = create(tmp_path / "run", experiment, 0, {})
    write(folder.episodes, rows(0, 9, 20))
    settings = read_facts(folder.path).settings
    assert settings["agent.landmarks.limit"] == 10
    assert settings["train.steps"] == experiment.train.steps


@pytest.mark.parametrize(
    "text", ["[" * 50_000, '{"experiment": 1}', "null", '{"experiment": {"train": {"steps": 1e999}}}']
)
def test_settings_of_a_damaged_config_are_not_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert read_settings(RunFolder(tmp_path)) == {}


def test_settings_that_are_no_numbers_are_not_known(tmp_path: Path) -> None:
    agent = {"landmarks": {"limit": "many", "add_threshold": 1.0, "start_step": ""}}
    (tmp_path / "config.json").write_text(json.dumps({"experiment": {"agent": agent, "train": {"steps": 100}}}))
    settings = read_settings(RunFolder(tmp_path))
    assert settings == {"agent.landmarks.add-threshold": 1.0, "train.steps": 100}
    (finding,) = diagnose(Facts(1, 0, settings=settings))
    assert finding.option == "--train.steps 200"  # no higher add threshold is left
