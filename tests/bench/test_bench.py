"""The benchmarks measure what they say; how fast anything is, is not tested."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from benchmarks.bench.__main__ import MEMORY, SHARES, SPEED, bench, main
from benchmarks.bench.doom import SPANS as DOOM_SPANS
from benchmarks.bench.doom import DoomBench, doom_bench, rate_of
from benchmarks.bench.eager import (
    PlainEncoder,
    PlainLoop,
    PlainReplay,
    encoder_loss,
    plain_successor_network,
    successor_loss,
)
from benchmarks.bench.encoders import measure_encoders, usable_encoder
from benchmarks.bench.graph import STRIDES, ring_statistics
from benchmarks.bench.grids import SPANS, Subject, TrainingLoop, awake_at, minigrid_only, observation_cost
from benchmarks.bench.measuring import Sizes, Stopwatch, median_ratio, repeats_for, row, take_turns
from minigrid.wrappers import FullyObsWrapper

from sfl import experiments
from sfl.api import Array, EnvSpec, Transitions
from sfl.errors import UsageError
from sfl.fast.grid import WindowTable, encode_distinct
from sfl.method.config import FeatureConfig, FrameConfig, SuccessorConfig
from sfl.method.feature_learning import FeatureLearner
from sfl.method.presets import paper_frames
from sfl.method.states import FrozenEncoder
from sfl.method.successor_features import BatchStates, StepBatch, SuccessorLearner
from sfl.nn.encoders import GridEncoder
from sfl.nn.frame_encoders import KINDS
from sfl.nn.weights import load_encoder
from sfl.replay.store import DistinctStore
from sfl.run.machine import resident_megabytes
from sfl.worlds import GridWorld

TINY = Sizes(
    fill_steps=160,
    settle_steps=16,
    share_steps=16,
    rounds=2,
    block_steps=8,
    observation_steps=20,
    memory_steps=400,
    landmarks=(40, 70),
    features=16,
    turn_seconds=0.001,
    frames=(1, 3),
)
CPU = torch.device("cpu")
SMALL_DOOM = replace(
    experiments.get("small-random-spawn-random"),
    agent=paper_frames(
        frames=FrameConfig("compact"),
        successor=SuccessorConfig((16,), batch_size=8, n_step=2, updates_per_step=0.125),
        replay_size=1_000,
    ),
)


def small(name: str) -> Subject:
    """A paper preset with small batches."""
    subject = minigrid_only(experiments.get(name))
    agent = subject.agent
    features, successor = replace(agent.features, batch_size=8), replace(agent.successor, batch_size=8)
    return replace(subject, agent=replace(agent, features=features, successor=successor, replay_size=400), env_count=2)


def step_of(frames: list[int], actions: list[int], after: list[int], ended: list[bool]) -> Transitions:
    """Environments whose observations are single numbers."""
    count, as_array = len(frames), lambda values: np.array(values, np.int64)[:, None]
    none = np.zeros(count, bool)
    envs, ends = np.arange(count), np.array(ended)
    return Transitions(envs, as_array(frames), np.array(actions), np.zeros(count), none, ends, as_array(after))


def test_every_declared_figure_is_given() -> None:
    known = {name: experiments.tiny(experiments.get(name)) for name in {*SPEED, *SHARES, MEMORY}}
    doom = DoomBench(seconds=0.2, env_count=2, experiment=SMALL_DOOM, landmarks=(10, 30), games=(1, 2))
    rows = bench("all", known, TINY, doom)
    figures = {(r["benchmark"], r["name"], r["unit"]): r for r in rows}
    assert len(figures) == len(rows)
    for name in SPEED:
        assert figures["speed", f"{name}: ratio", "times"]["must"] == ">= 3"
        env_id = known[name].env.id
        assert figures["observation", f"{env_id}: ratio", "times"]["must"] == ">= 10"
    for name in SHARES:
        shares = [figures["step", f"{name}: {part}", "percent"]["value"] for part in (*SPANS, "rest")]
        assert sum(shares) == pytest.approx(100, abs=0.2)
        assert figures["step", f"{name}: all", "ms"]["value"] > 0
    for count in TINY.landmarks:
        assert figures["graph", f"{count} landmarks: ratio", "times"]["must"] == "<= 1.5"
        assert ("graph", f"{count} landmarks: form edges", "ms") in figures
        assert ("graph", f"{count} landmarks: one route", "ms") in figures
    assert figures["graph", "70 landmarks: memory", "MB"]["must"] == "<= 150"
    for count in TINY.frames:
        assert all(figures["encoders", f"{kind}: {count} frames at once", "frames/s"]["value"] > 0 for kind in KINDS)
        assert figures["encoders", f"compact over resnet18: {count} frames at once", "times"]["must"] == ">= 40"
    assert figures["memory", f"{MEMORY}: highest of a run", "MB"]["must"] == "<= 1000"
    rates = [figures["doom", f"bare simulator, {count} games", "decisions/s"]["value"] for count in (1, 2)]
    assert max(rates) in [r["value"] for r in rows if "best" in r["name"]]
    for count in (10, 30):
        name = f"{count} landmarks"
        assert figures["doom", f"{name}: gradient steps", "per decision"]["held"] == "yes"
        assert figures["doom", f"{name}: of the bare simulator", "percent"]["must"] == ">= 20"
        assert figures["doom", f"{name}: memory", "MB"]["must"] == "<= 8000"
        shares = [figures["doom", f"{name}: {part}", "percent"]["value"] for part in (*DOOM_SPANS, "rest")]
        assert sum(shares) == pytest.approx(100, abs=0.2)
        assert figures["doom", f"{name}: a gradient step", "ms"]["value"] > 0
    assert all(math.isfinite(r["value"]) for r in rows)
    assert all(list(r) == ["benchmark", "name", "value", "unit", "must", "held"] for r in rows)


def test_a_benchmark_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"No benchmark 'grahp'. Did you mean 'graph'\?"):
        bench("grahp", {})
    with pytest.raises(UsageError, match="fourroom-random is something else"):
        minigrid_only(experiments.get("fourroom-random"))
    with pytest.raises(UsageError, match="choose an experiment of it"):
        bench("doom", {}, doom=DoomBench(experiment=experiments.get("fourroom-sfl")))
    with pytest.raises(UsageError, match="measures SFL over frames"):
        DoomBench(experiment=experiments.get("small-random-spawn-random")).agent("compact", 10)
    with pytest.raises(UsageError, match="measures SFL with SFS as its metric"):
        DoomBench(experiment=experiments.get("sgm-random-spawn-paper-reachability")).agent("compact", 10)


def test_what_is_not_asked_for_suits_the_experiment_or_the_device() -> None:
    plain = doom_bench(3.0, None, None, None, "cpu")
    assert (plain.seconds, plain.env_count, plain.encoder, plain.env.maze) == (3.0, 8, "compact", "small")
    chosen = doom_bench(3.0, None, None, SMALL_DOOM, "cpu")
    assert (chosen.env_count, chosen.encoder) == (SMALL_DOOM.train.env_count, "compact")
    assert doom_bench(3.0, 5, "place", SMALL_DOOM, "cpu").agent("file", 70).landmarks.limit == 70
    with pytest.raises(UsageError, match="--seconds must be above 0, got -1"):
        doom_bench(-1.0, None, None, None, "cpu")
    with pytest.raises(UsageError, match="--envs must be 1 or more, got 0"):
        doom_bench(1.0, 0, None, None, "cpu")


def test_rates_count_what_was_done_in_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.bench.doom.time.perf_counter", lambda: clock[0])

    def turn() -> int:
        clock[0] += 0.25 if clock[0] < 2 else 0.5  # the first turns are not counted
        return 5

    assert rate_of(turn, 10.0) == 10.0
    assert clock[0] == 12.0


def test_encoders_are_compared_by_the_frames_that_the_agents_eyes_take(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = [0.0], {512: 3.0, 256: 1.0, 128: 0.05}  # seconds for a frame, by the number of features

    class SlowEncoder(FrozenEncoder):
        def __call__(self, frames: Array) -> torch.Tensor:
            clock[0] += len(frames) * looks[self.dim]
            return super().__call__(frames)

    monkeypatch.setattr("benchmarks.bench.encoders.FrozenEncoder", SlowEncoder)
    monkeypatch.setattr("benchmarks.bench.encoders.time.process_time", lambda: clock[0])
    figures = {r["name"]: r for r in measure_encoders("cpu", replace(TINY, turn_seconds=1.0))}
    assert figures["resnet18: 3 frames at once"]["value"] == pytest.approx(1 / 3, rel=1e-3)
    assert figures["compact: 3 frames at once"]["value"] == pytest.approx(20.0)
    assert figures["compact over resnet18: 1 frames at once"]["value"] == pytest.approx(60.0)
    assert figures["compact over resnet18: 1 frames at once"]["held"] == "yes"
    # Batch normalization is folded: of its 2 * 4,800 numbers one for each channel is left, the bias.
    assert figures["resnet18: parameters"]["value"] == pytest.approx((11_439_168 - 4_800) / 1e6, rel=1e-3)
    assert figures["compact: file"]["value"] == pytest.approx(2 * figures["compact: parameters"]["value"], rel=0.01)


def test_an_encoder_without_weights_gets_random_ones(tmp_path: Path) -> None:
    with usable_encoder("resnet18", "cpu") as path:
        assert load_encoder(path).name == "resnet18"
        with usable_encoder(path, "cpu") as same:
            assert same == path
    assert not Path(path).exists()
    with (
        pytest.raises(UsageError, match="Cannot read an encoder"),
        usable_encoder(str(tmp_path / "a.safetensors"), "cpu"),
    ):
        pass


def test_rows_say_whether_the_figure_is_what_it_must_be() -> None:
    assert row("speed", "a", 3.00001, "times", at_least=3)["held"] == "yes"
    assert row("speed", "a", 2.9999999, "times", at_least=3) == {
        "benchmark": "speed",
        "name": "a",
        "value": 3.0,
        "unit": "times",
        "must": ">= 3",
        "held": "no",
    }
    assert row("graph", "a", 151.0, "MB", at_most=150)["held"] == "no"
    assert row("graph", "a", 1.0, "ms")["held"] == ""


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    seconds = take_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2, repeats=3)
    assert "".join(calls) == "aaabbbaaabbb"
    assert {name: len(turns) for name, turns in seconds.items()} == {"a": 2, "b": 2}
    clock = [0.0]

    def busy(name: str, time: float) -> None:
        calls.append(name)
        clock[0] += time

    calls.clear()
    actions = {"a": partial(busy, "a", 4.0), "b": partial(busy, "b", 1.0)}
    repeats = {name: repeats_for(action, 4.0, lambda: clock[0]) for name, action in actions.items()}
    assert take_turns(actions, 2, repeats, lambda: clock[0]) == {"a": [4.0, 4.0], "b": [1.0, 1.0]}
    assert "".join(calls) == "ab" + "abbbbabbbb"
    assert median_ratio([2.0, 9.0, 8.0], [1.0, 3.0, 1.0]) == 3.0  # of 2, 3 and 8
    assert repeats_for(lambda: None, 0.0) == 1


class Clocked:
    """Two methods, one inside the other, and a clock that they push forward."""

    now = 0.0

    def outer(self) -> str:
        Clocked.now += 1.0
        self.inner()
        Clocked.now += 2.0
        return "done"

    def inner(self) -> None:
        Clocked.now += 10.0


def test_time_inside_another_timed_method_counts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.bench.measuring.time.perf_counter", lambda: Clocked.now)
    watch, outer = Stopwatch(), Clocked.outer
    with watch.watching({"a": [(Clocked, "outer")], "b": [(Clocked, "inner")]}):
        assert Clocked().outer() == "done"
        Clocked().inner()
    assert dict(watch.seconds) == {"a": 3.0, "b": 20.0}
    assert Clocked.outer is outer
    with pytest.raises(ZeroDivisionError), watch.watching({"a": [(Clocked, "outer")]}):
        _ = 1 / 0
    assert Clocked.outer is outer


def test_everything_is_at_work_soon_after_the_fill() -> None:
    loop = TrainingLoop(awake_at(small("fourroom-paper"), 100))
    for _ in range(60):
        loop.step()
    state = loop.agent.state_dict()
    assert state.counters["representation"]["gradient_steps"] == 2 * 20  # 20 of 120 steps, both learners
    assert len(state.graph["psi"]) > 0


def test_the_plain_replay_stays_within_episodes_and_windows() -> None:
    spec = EnvSpec((1,), "int64", 4, env_count=2)
    replay = PlainReplay(spec, capacity=120)
    for time in range(100):  # episodes of 40 steps; environment 1 is 1000 ahead of environment 0
        replay.add(step_of([time, 1000 + time], [time % 4, 3], [time + 1, 1001 + time], [time % 40 == 39] * 2))
    rng = np.random.default_rng(0)
    anchor, positive, negative = replay.triplets(rng, 500, FeatureConfig())[:, :, 0].T
    assert np.abs(anchor - positive).max() <= 2
    assert set(np.abs(anchor - negative)) == set(range(10, 16))
    frames, actions = replay.transitions(rng, 500)
    before, after = frames[:, :, 0].T
    assert (after == before + 1).all()
    assert (actions == np.where(before < 1000, before % 4, 3)).all()
    # The last 60 of 102 entries are kept, two of the 102 being ends of episodes: the first is that of time 41.
    assert before.min() == 41


def plain_kernels(weight: torch.Tensor) -> torch.Tensor:
    """Our convolution's weights [9 * inputs, outputs] as torch's, [outputs, inputs, 3, 3]."""
    return weight.unflatten(0, (3, 3, -1)).permute(3, 2, 0, 1)


def test_the_plain_encoder_has_our_features_and_gradient() -> None:
    config, spec = FeatureConfig(dim=8), EnvSpec((9, 9, 3), "uint8", 4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours, plain = FeatureLearner(config, spec, CPU), PlainEncoder((9, 9, 3), 8, config.norm)
    encoder = ours.encoder
    assert isinstance(encoder, GridEncoder)
    with torch.no_grad():
        for layer, like in ((plain.conv1, encoder.conv1), (plain.conv2, encoder.conv2)):
            layer.weight.copy_(plain_kernels(like.weight))
            assert layer.bias is not None
            layer.bias.copy_(like.bias)
        plain.linear.weight.copy_(encoder.linear.weight.unflatten(1, (2, 2, 32)).permute(0, 3, 1, 2).flatten(1))
        plain.linear.bias.copy_(encoder.linear.bias)
    frames = GridWorld("FourRoom").survey()[1]
    torch.testing.assert_close(plain(torch.from_numpy(frames)), encoder(torch.from_numpy(frames)), rtol=1e-4, atol=1e-4)
    table = DistinctStore(spec.observation_shape, spec.observation_dtype, WindowTable((9, 9, 3), "uint8"))
    slots = table.add(frames)
    triplets = np.random.default_rng(0).integers(len(frames), size=(32, 3))
    ours.update(encode_distinct(encoder, table, slots, CPU), torch.from_numpy(triplets))
    encoded = plain(torch.from_numpy(frames[triplets]).flatten(0, 1)).unflatten(0, (32, 3))
    encoder_loss(encoded, config).backward()
    same_gradient(plain.linear.bias.grad, encoder.linear.bias.grad)
    for layer, like in ((plain.conv1, encoder.conv1), (plain.conv2, encoder.conv2)):
        assert like.weight.grad is not None
        same_gradient(layer.weight.grad, plain_kernels(like.weight.grad))


def test_the_plain_successor_network_has_our_gradient() -> None:
    config = SuccessorConfig(hidden=(16,))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = SuccessorLearner(config, 6, EnvSpec((6,), "float32", 4), CPU)
        phi = torch.randn(40, 6)
    network, target = (plain_successor_network(6, 4, config) for _ in range(2))
    head = {"weight": ours.network.head_weight.mT.flatten(0, 1), "bias": ours.network.head_bias.flatten()}
    for plain in (network, target):  # the target begins as a copy
        plain[0].load_state_dict(ours.network.trunk[0].state_dict())
        plain[3].load_state_dict(head)
    actions, rows = torch.arange(20) // 5, torch.arange(40).reshape(20, 2)
    ones = torch.ones(20)
    first, ahead = (BatchStates(phi[rows[:, column]], torch.arange(20), ones) for column in (0, 1))
    ours.step(StepBatch(phi[rows[:, :1]], ones[:, None], first, actions, ahead, config.gamma * ones, ones))
    successor_loss(network, target, phi[rows], actions, config).backward()
    assert isinstance(network[0], torch.nn.Linear)
    same_gradient(network[0].weight.grad, ours.network.trunk[0].weight.grad)  # type: ignore[arg-type]
    assert isinstance(network[3], torch.nn.Linear)
    assert ours.network.head_weight.grad is not None
    same_gradient(network[3].weight.grad, ours.network.head_weight.grad.mT.flatten(0, 1))


def same_gradient(plain: torch.Tensor | None, ours: torch.Tensor | None) -> None:
    assert plain is not None
    assert float(plain.abs().max()) > 1e-4
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


def test_the_plain_loop_sees_the_whole_grid_and_learns() -> None:
    subject = small("fourroom-paper")
    filled, plain = TrainingLoop(subject), PlainLoop(subject)
    for _ in range(40):
        plain.replay.add(filled.step())
    inner: list[Array] = [env.unwrapped.gen_obs()["observation"] for env in plain.envs]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(plain.observations, inner)
    before = copy.deepcopy(plain.encoder.state_dict()), copy.deepcopy(plain.network.state_dict())
    plain.step()
    assert plain.gradient_steps == 2  # one for each environment
    assert (plain.replay.heads == 41).all()
    for old, module in zip(before, (plain.encoder, plain.network), strict=True):
        assert any((old[name] != value).any() for name, value in module.state_dict().items())


def test_landmarks_of_the_growth_benchmark_have_six_edges() -> None:
    statistics = ring_statistics(100)
    assert len(statistics.counts(True)) == len(STRIDES) * 100
    assert set(statistics.counts(True).values()) == {2}


def test_memory_is_that_of_this_process() -> None:
    now = resident_megabytes("VmRSS")  # first: it may grow meanwhile
    assert resident_megabytes("VmHWM") >= now > 50


def test_the_cost_of_observing_is_a_step_with_it_minus_a_step_without(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: Iterator[float] = iter([1.0, 1.5, 1.2, 2.0, 1.1])

    def seconds(env: gym.Env[Any, Any], actions: list[int]) -> float:
        if isinstance(env, FullyObsWrapper):
            return 41e-3
        blind = not env.reset()[0]
        return 1e-3 * next(rounds) if blind else 3e-3

    monkeypatch.setattr("benchmarks.bench.grids._seconds", seconds)
    figures = observation_cost("sfl/FourRoom-v0", steps=100)
    assert figures == pytest.approx({"step_us": 30, "ours_us": 20, "fully_obs_wrapper_us": 400, "ratio": 20})


def test_the_command_writes_its_rows_into_a_folder_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.bench.__main__.measure_growth", lambda sizes: [row("graph", "one", 2.5, "ms")])
    out = tmp_path / "not" / "yet" / "graph.csv"
    assert main(["graph", "--out", str(out)]) == 0
    assert out.read_text() == "benchmark,name,value,unit,must,held\ngraph,one,2.5,ms,,\n"
    assert main(["doom", "--seconds", "-1"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "bench: --seconds must be above 0, got -1.0."
