"""Gradient steps over a store on the device: the same as one by one, in whatever shape, and as a CUDA graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfl.api import Array, EnvSpec
from sfl.fast.cuda import Captured
from sfl.fast.graphed import ResidentSteps
from sfl.method.config import SuccessorConfig
from sfl.method.successor import Draws, SuccessorBatch, SuccessorLearner
from sfl.replay.replay import NStepBatch
from sfl.replay.store import FeatureStore

CPU = torch.device("cpu")
FEATURES, STACK, ROOM, SIZE, STEPS, ACTIONS = 5, 2, 40, 16, 3, 4
SETTINGS: list[dict[str, object]] = [
    {},
    {"batch_norm": False},
    {"whiten": True},
    {"whiten": True, "whiten_mean": True, "whiten_ridge": 0.1, "whiten_every": 2},
    {"target_rate": 0.1},
    {"unit_scale": True, "huber_delta": 0.1},
    {"n_step": 1},
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make_learner(settings: dict[str, object], device: torch.device = CPU) -> tuple[SuccessorLearner, FeatureStore]:
    defaults: dict[str, object] = {"hidden": (24, 16), "gamma": 0.9, "n_step": STEPS, "target_every": 3}
    config = SuccessorConfig(batch_size=SIZE, learning_rate=1e-2, **(defaults | settings))  # type: ignore[arg-type]
    torch.manual_seed(0)
    learner = SuccessorLearner(config, STACK * FEATURES, EnvSpec((1,), "uint8", ACTIONS), device, stack=STACK)
    generator = torch.Generator().manual_seed(1)
    store = FeatureStore(ROOM, torch.full((FEATURES,), 0.5, device=device))
    store.add(torch.randn(ROOM, FEATURES, generator=generator).to(device))
    return learner, store


def make_batch(count: int, n: int, seed: int = 0) -> NStepBatch:
    """Rows of `count` gradient steps; some stacks begin with what was before the episode, some episodes end."""
    rng, rows = np.random.default_rng(seed), count * SIZE
    slots = rng.integers(-1, ROOM, size=(rows, n + 1, STACK))
    weights = (0.9 ** np.arange(n) * (rng.random((rows, n)) < 0.9)).astype(np.float32)
    ahead, actions = rng.random(rows).astype(np.float32), rng.choice(ACTIONS, rows, p=[0.6, 0.2, 0.2, 0.0])
    return NStepBatch(slots, weights, actions, ahead, np.ones(rows, np.float32))


def one_by_one(learner: SuccessorLearner, store: FeatureStore, batch: NStepBatch) -> list[float]:
    """The losses of `SuccessorLearner.update`, which knows neither stores nor shapes."""
    losses = []
    for first in range(0, len(batch.actions), SIZE):
        part = batch._take(np.arange(first, first + SIZE)).by_action(ACTIONS)
        places = torch.from_numpy(store.places(part.slots))
        rows = torch.arange(places[:, :, 0].numel()).unflatten(0, places.shape[:2])
        each, times = torch.arange(len(rows)), torch.from_numpy(part.multiplicity)
        made = SuccessorBatch(
            features=store.at(places).flatten(2).flatten(0, 1),
            steps=rows[:, :-1],
            weights=torch.from_numpy(part.weights),
            first=Draws(rows[:, 0], each, times),
            bootstrap=Draws(rows[:, -1], each, times),
            bootstrap_weights=torch.from_numpy(part.bootstrap_weights),
            multiplicity=times,
        )
        losses.append(learner.update(made)["train/sf_loss"])
    return losses


def assert_close(ours: SuccessorLearner, theirs: SuccessorLearner, error: float = 1e-5) -> None:
    for name in ("network", "target", "whitening"):
        expected = getattr(theirs, name).state_dict()
        for key, value in getattr(ours, name).state_dict().items():
            # A bias before batch norm has a gradient of rounding errors alone, and Adam makes steps of them.
            loose = key in {"trunk.0.bias", "trunk.3.bias", "trunk.1.running_mean", "trunk.4.running_mean"}
            atol = 0.1 if loose and ours.config.batch_norm else error
            torch.testing.assert_close(value.cpu(), expected[key].cpu(), rtol=error, atol=atol, msg=f"{name} {key}")


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("settings", SETTINGS)
def test_steps_over_the_store_are_those_made_one_by_one(
    settings: dict[str, object], fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResidentSteps, "TRACK_EVERY", 1)
    ours, store = make_learner(settings)
    theirs, _ = make_learner(settings)
    steps = ResidentSteps(ours, store, STACK, CPU, fixed)
    together = 1 if ours.config.whiten else 2  # moments are taken of all steps together, before the first
    for seed in range(6 // together):
        batch = make_batch(together, ours.config.n_step, seed)
        metrics = steps.update(batch)
        assert metrics["train/sf_loss"] == pytest.approx(np.mean(one_by_one(theirs, store, batch)), rel=1e-4)
    assert ours.gradient_steps == theirs.gradient_steps == 6
    assert_close(ours, theirs, 1e-3 if ours.config.whiten else 1e-4)


@pytest.mark.parametrize("whiten", [False, True])
def test_where_psi_is_of_the_newest_frame_its_target_sums_up_the_newest_frames_alone(whiten: bool) -> None:
    config = SuccessorConfig((8,), gamma=0.9, n_step=STEPS, batch_size=SIZE, huber_delta=0.7, whiten=whiten)
    parts = 1 + STACK  # a trace goes before the frames
    learner = SuccessorLearner(config, parts * FEATURES, EnvSpec((1,), "uint8", ACTIONS), CPU, FEATURES, parts)
    store = FeatureStore(ROOM, torch.full((FEATURES,), 0.5), traces=1)
    rows = torch.randn(ROOM, 2 * FEATURES, generator=torch.Generator().manual_seed(1))
    slots = store.add(rows)
    with torch.no_grad():
        for parameter in (*learner.network.parameters(), learner.target.head_weight):
            parameter.zero_()
        learner.target.head_bias.fill_(0.25)
    batch = make_batch(1, STEPS)
    newest = torch.full((ROOM + 1, FEATURES), 0.5)
    newest[torch.from_numpy(slots)] = rows[:, FEATURES:]
    loss = ResidentSteps(learner, store, STACK, CPU).update(batch)["train/sf_loss"]
    phi = learner.white(newest[torch.from_numpy(batch.steps[:, :, -1])])  # [B, n, F]; slot -1 is the last row
    target = (torch.from_numpy(batch.weights).unsqueeze(2) * phi).sum(1)
    target += 0.25 * torch.from_numpy(batch.bootstrap_weights).unsqueeze(1)
    expected = torch.nn.functional.huber_loss(torch.zeros_like(target), target, delta=0.7)
    assert loss == pytest.approx(float(expected), rel=1e-5)  # psi was 0


def test_moments_are_taken_of_the_first_steps_and_then_now_and_then_and_count_as_all_steps_between() -> None:
    learner, store = make_learner({"whiten": True, "whiten_mean": True})
    steps, counts, means = ResidentSteps(learner, store, STACK, CPU), [], []
    for seed in range(4):
        batch = make_batch(3, STEPS, seed)
        steps.update(batch)
        means.append(store.at(torch.from_numpy(store.places(batch.steps[:, 0, -1]))).double().mean(0))
        counts.append(learner.whitening.count)
        if seed == 0:
            torch.testing.assert_close(learner.whitening.mean, means[0])
    assert counts == [1, 1, 9, 9]  # the eighth step is in the third batch
    torch.testing.assert_close(learner.whitening.mean, means[0] / 9 + means[2] * 8 / 9)


def test_work_that_is_not_captured_is_done_once_a_call() -> None:
    calls: list[int] = []
    work = Captured(lambda: calls.append(1), CPU)
    for _ in range(10):
        work()
    assert len(calls) == 10
    assert not work.is_captured


# ---- on a GPU


def parameters(learner: SuccessorLearner) -> Array:
    return torch.cat([value.detach().flatten().cpu() for value in learner.network.parameters()]).numpy()


@needs_gpu
@pytest.mark.parametrize("settings", SETTINGS)
def test_on_a_gpu_a_graph_makes_the_steps_of_plain_calls_and_of_the_cpu(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("cuda")
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # full precision, as on the CPU
    (graph, store), (plain, _), (cpu, cpu_store) = (make_learner(settings, place) for place in (device, device, CPU))
    captured, eager = (ResidentSteps(learner, store, STACK, device) for learner in (graph, plain))
    eager._step._on_gpu = False
    on_cpu = ResidentSteps(cpu, cpu_store, STACK, CPU)
    for seed in range(5):
        batch = make_batch(2, graph.config.n_step, seed)
        for steps in (captured, eager, on_cpu):
            steps.update(batch)
            steps.join()
    torch.cuda.synchronize()
    assert captured._step.is_captured
    assert not eager._step.is_captured
    assert graph.gradient_steps == plain.gradient_steps == cpu.gradient_steps == 10
    np.testing.assert_allclose(parameters(graph), parameters(plain), rtol=1e-4, atol=1e-5)
    assert_close(graph, cpu, 1e-2)


@needs_gpu
def test_on_a_gpu_the_loss_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    monkeypatch.setattr(ResidentSteps, "REPORT_EVERY", 4)
    learner, store = make_learner({}, device)
    steps = ResidentSteps(learner, store, STACK, device)
    reports = [steps.update(make_batch(2, STEPS, seed)) for seed in range(5)]
    assert [bool(report) for report in reports] == [False, False, True, False, True]
    assert all(np.isfinite(value) for report in reports for value in report.values())


def test_batches_beyond_what_numbers_count_are_too_large_for_torch() -> None:
    """In torch's own words, which become the line that this does not fit into memory."""
    learner, store = make_learner({})
    learner.config = replace(learner.config, batch_size=2**63 - 1)
    with pytest.raises(RuntimeError, match="overflow"):
        ResidentSteps(learner, store, STACK, CPU)
