"""A run's exam on disk, and that it is the same for whoever takes it."""

from __future__ import annotations

import json
import shutil
import traceback
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sfl import experiments
from sfl.api import Array, Decision, Transitions
from sfl.baselines.random import RandomConfig
from sfl.errors import UsageError
from sfl.registry import make_agent
from sfl.run.compare import evaluate_run
from sfl.run.evaluate import eval_tasks, evaluate
from sfl.run.folder import export, load_run
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import EvalConfig, Experiment, TrainConfig
from sfl.run.sfl import SFL
from sfl.run.stopping import RunStoppedError, StopNow
from sfl.run.train import resume, train
from sfl.worlds import GoalWrapper, GymConfig
from sfl.worlds import exam as exams
from sfl.worlds.exam import EXAM_FILE, read_exam, save_exam
from sfl.worlds.session import EnvSession

LAKE = GymConfig("FrozenLake-v1", kwargs=("is_slippery=false",))


def lake_experiment(env: GymConfig = LAKE, **settings: Any) -> Experiment:
    sizes = TrainConfig(steps=200, eval_every=100, checkpoint_every=100, log_every=50)
    chosen = EvalConfig(**{"episodes": 6, "levels": ("near", "middle", "far"), **settings})
    return Experiment("world-random", env, RandomConfig(), sizes, chosen)


@pytest.fixture(scope="module")
def lake_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(lake_experiment(), 3, tmp_path_factory.mktemp("runs"), "cpu").path


def stop_at(call: int) -> Any:
    """Asks to stop when training has looked so often whether it should."""
    calls = iter(range(1, 10**6))

    def check(stop: Any) -> None:
        if next(calls) == call:
            raise StopNow

    return check


def asked(tasks: Any) -> list[tuple[str, int, bytes]]:
    return [(task.level, task.pair, task.goal.tobytes()) for task in tasks]


def test_the_exam_is_the_same_for_every_seed_and_method_and_is_not_collected_again(
    lake_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(experiments.tiny(experiments.get("world-sfl")), env=LAKE, eval=lake_experiment().eval)
    other = replace(other, train=lake_experiment().train)
    made = train(other, 8, tmp_path, "cpu").path
    assert (lake_run / EXAM_FILE).is_file()
    monkeypatch.setattr("sfl.worlds.collector.collect", None)  # a run that collected anew would fail
    first, second = load_run(lake_run), load_run(made)
    assert asked(first.tasks()) == asked(second.tasks())
    assert {task.level for task in first.tasks()} == {"near", "middle", "far"}
    assert len(first.tasks("any", 50)) == 50
    rows = evaluate_run(lake_run)
    assert [(row.level, row.pair) for row in rows] == [(row.level, row.pair) for row in first.episode_rows()[-18:]]
    slim = export(lake_run, tmp_path / "slim").path
    assert asked(load_run(slim).tasks()) == asked(first.tasks())


def test_a_resumed_run_has_the_same_exam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(lake_experiment(), 5, tmp_path / "whole", "cpu").path
    with monkeypatch.context() as stopping:
        stopping.setattr("sfl.run.stopping.StopRequest.check", stop_at(120))
        with pytest.raises(RunStoppedError):
            train(lake_experiment(), 5, tmp_path / "parts", "cpu")
    broken = tmp_path / "parts" / "world-random" / "seed-0005"
    monkeypatch.setattr("sfl.worlds.collector.collect", None)
    resume(broken, "cpu")
    assert (broken / "episodes.csv").read_text() == (whole / "episodes.csv").read_text()


def test_an_exam_survives_being_written(lake_run: Path, tmp_path: Path) -> None:
    exam = read_exam(lake_run / EXAM_FILE)
    save_exam(tmp_path / EXAM_FILE, exam)
    again = read_exam(tmp_path / EXAM_FILE)
    for field in fields(exam):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(exam, field.name))
    assert [path.name for path in tmp_path.iterdir()] == [EXAM_FILE]


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def zeroed(raw: bytes) -> bytes:
    return bytes(len(raw))


def flipped(raw: bytes) -> bytes:
    return raw[:60] + bytes(byte ^ 0xFF for byte in raw[60:120]) + raw[120:]


@pytest.mark.parametrize("damage", [cut, zeroed, flipped, lambda raw: b"", lambda raw: b"{}"])
def test_a_damaged_exam_is_one_line(lake_run: Path, tmp_path: Path, damage: Any) -> None:
    run = tmp_path / "run"
    shutil.copytree(lake_run, run)
    (run / EXAM_FILE).write_bytes(damage((run / EXAM_FILE).read_bytes()))
    for use in (lambda: evaluate_run(run), lambda: resume(run, "cpu")):
        with pytest.raises(UsageError, match=r"The exam .*exam.npz cannot be read: .* Delete it") as caught:
            use()
        assert "\n" not in str(caught.value)
    (run / EXAM_FILE).unlink()
    assert asked(load_run(run).tasks()) == asked(load_run(lake_run).tasks())


@pytest.mark.parametrize(
    "change",
    [
        {"distances": np.zeros((2, 2), int)},
        {"distances": np.full(15, -1)},
        {"found": np.full(15, "guess")},
        {"format": 99},
        {"budget": "many"},
    ],
)
def test_an_exam_of_other_contents_is_one_line(lake_run: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    with np.load(lake_run / EXAM_FILE) as file:
        arrays = {**file, **change}
    np.savez(tmp_path / EXAM_FILE, **arrays)
    with pytest.raises(UsageError, match="cannot be read"):
        read_exam(tmp_path / EXAM_FILE)


def test_an_exam_that_would_blow_up_is_neither_read_nor_made(
    lake_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(lake_run / EXAM_FILE) as file:
        np.savez_compressed(tmp_path / EXAM_FILE, **{**file, "goals": np.zeros(exams.UNPACKED, np.uint8)})
    with pytest.raises(UsageError, match="its parts are packed, or hold too much"):
        read_exam(tmp_path / EXAM_FILE)
    monkeypatch.setattr(exams, "UNPACKED", exams.MEGABYTE)
    with pytest.raises(UsageError, match=r"has \d+ MB, and at most 0 are kept; give --eval.exam-goals below"):
        LAKE.open().exam(EvalConfig())


def test_runs_from_before_exams_still_evaluate(lake_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(lake_run, run)
    (run / EXAM_FILE).unlink()
    body = json.loads((run / "config.json").read_text())
    body["experiment"]["eval"] = {**body["experiment"]["eval"], "levels": ["any"]}
    for part, later in (("eval", ("exam_steps", "exam_goals")), ("env", ("goals",))):
        for name in later:
            del body["experiment"][part][name]
    (run / "config.json").write_text(json.dumps(body))
    assert {row.level for row in evaluate_run(run)} == {"any"}


def test_a_level_without_goals_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = GymConfig("FrozenLake-v1", kwargs=("is_slippery=false", 'desc=["SH","HG"]'))
    made = train(lake_experiment(tiny), 0, tmp_path, "cpu")
    assert "no goals, left out: near, middle" in capsys.readouterr().err
    run = load_run(made.path)
    assert {row.level for row in run.episode_rows()} == {"far"}
    with pytest.raises(UsageError, match=r"No goals on level near in FrozenLake-v1; there are far \(1 to 1 steps\)"):
        run.tasks("near")


def test_floats_without_a_return_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CartPole-v1 never showed the same numbers again"):
        train(lake_experiment(GymConfig("CartPole-v1")), 0, tmp_path, "cpu")
    assert not list(tmp_path.iterdir())


def test_the_random_policy_is_asked_what_sfl_is_asked() -> None:
    ours, chance = experiments.get("world-sfl"), experiments.get("world-random")
    assert (chance.env, chance.eval, chance.agent) == (ours.env, ours.eval, RandomConfig())
    assert ours.eval.levels == ("near", "middle", "far")


def test_tasks_do_not_depend_on_the_seed_or_on_other_levels() -> None:
    chosen = lake_experiment().eval
    far = [task for task in asked(eval_tasks(LAKE, chosen, 1)) if task[0] == "far"]
    assert asked(eval_tasks(LAKE, replace(chosen, levels=("far",)), 2)) == far


# ---- info stays where it is


class Secretive(gym.Env[Any, Any]):
    """A ring of five cells, whose `info` holds what no agent may see."""

    observation_space = gym.spaces.Box(0, 5, (1,), np.int64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, secret: object) -> None:
        self.secret, self.cell = secret, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 0
        return np.array([0]), {"secret": self.secret}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.cell = (self.cell + 1 + action) % 5
        return np.array([self.cell]), 0.0, False, False, {"secret": self.secret}


class Spy:
    """An agent that keeps everything it is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def begin_episode(self, env_index: int, goal: Any) -> None:
        self.given.append((env_index, goal))

    def act(self, observations: Array, env_indices: Array) -> Array:
        self.given.append((observations, env_indices))
        return np.zeros(len(env_indices), int)

    def explain(self, env_index: int) -> Decision:
        return Decision()


def test_the_goal_test_is_asked_by_the_environment_and_its_info_reaches_no_agent() -> None:
    secret, callers = object(), list[list[str]]()

    def knows(achieved: Any, desired: Any, info: dict[str, Any]) -> bool:
        callers.append([frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)])
        return info["secret"] is secret and bool(achieved[0] == desired[0])

    env = GoalWrapper(Secretive(secret), goal_test=knows, reset_seed=0, max_steps=8)
    spy, agent = Spy(), SFL(env, RandomConfig())
    tasks = [task for task in agent.evaluate(episodes=4) if task.success is not None]
    assert len(tasks) == 4
    from sfl.worlds import draw_tasks

    rows = evaluate(spy, [env], draw_tasks(env, "any", 4, np.random.default_rng(0)))
    assert any(row.success for row in rows)
    assert all(any("/sfl/worlds/" in name for name in frames[:6]) for frames in callers)
    assert not any("/sfl/agents/" in name for frames in callers for name in frames)
    seen = FreeEpisodes(np.random.default_rng(0))
    steps = rollout(spy, EnvSession([env], seen))
    spy.given += [next(steps).transitions for _ in range(5)]
    assert not any(holds(given, secret) for given in spy.given)
    assert not {field.name for field in fields(Transitions)} & {"info", "infos"}


def holds(thing: Any, secret: object) -> bool:
    if thing is secret or isinstance(thing, dict):
        return True
    if isinstance(thing, Transitions):
        return any(holds(getattr(thing, field.name), secret) for field in fields(thing))
    if isinstance(thing, np.ndarray):
        return thing.dtype == object
    return isinstance(thing, tuple | list) and any(holds(part, secret) for part in thing)


def test_a_policy_alone_can_be_made_for_such_a_world() -> None:
    agent = make_agent(RandomConfig(), LAKE.spec(), 0, "cpu")
    assert len(evaluate(agent, LAKE, eval_tasks(LAKE, lake_experiment().eval, 0))) == 18
