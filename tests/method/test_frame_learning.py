"""Gradient steps of psi over the features in a store: those of the plain loss, one batch after the other."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from sfl.api import Array, Metrics
from sfl.method.schedule import FrameRepresentation
from sfl.method.successor_features import SuccessorLearner
from sfl.replay.replay import NStepBatch

from .ring import CPU, SPEC, config_of

STACK, SIZE, STEPS, ACTIONS, ROOM = 3, 16, 3, 2, 40
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


def make(
    encoder: str, settings: dict[str, object], device: torch.device = CPU, newest: bool = False
) -> FrameRepresentation:
    """A representation whose store holds random features; `newest`: psi is of the newest frame, after one trace."""
    defaults: dict[str, object] = {"hidden": (24, 16), "gamma": 0.9, "n_step": STEPS, "target_every": 3}
    config = config_of(encoder)
    successor = replace(config.successor, batch_size=SIZE, learning_rate=1e-2, **(defaults | settings))  # type: ignore[arg-type]
    frames = replace(config.frames, traces=(0.9,), phi="newest") if newest else config.frames
    made = FrameRepresentation(replace(config, frames=frames, successor=successor), SPEC, 0, device)
    vectors = (1 + newest) * len(made.stacks.fill)
    made._store.add(torch.randn(ROOM, vectors, generator=torch.Generator().manual_seed(1)).to(device))
    return made


def make_batch(count: int, n: int, seed: int = 0) -> NStepBatch:
    """Rows of `count` gradient steps; some stacks begin with what was before the episode, some episodes end."""
    rng, rows = np.random.default_rng(seed), count * SIZE
    slots = rng.integers(-1, ROOM, size=(rows, n + 1, STACK))
    weights = (0.9 ** np.arange(n) * (rng.random((rows, n)) < 0.9)).astype(np.float32)
    ahead, actions = rng.random(rows).astype(np.float32), rng.choice(ACTIONS, rows, p=[0.7, 0.3])
    return NStepBatch(slots, weights, actions, ahead, np.ones(rows, np.float32))


def learn(made: FrameRepresentation, batch: NStepBatch) -> Metrics:
    made._learn(batch, None)
    return made._metrics


def plain_step(learner: SuccessorLearner, made: FrameRepresentation, batch: NStepBatch) -> float:
    """One gradient step on one batch, written out: heads of all actions, and the target network as one of them."""
    config, network = learner.config, learner.network.train()
    states = made._store.at(torch.from_numpy(made._store.places(batch.slots))).flatten(2)  # [B, n + 1, S]
    if config.whiten:
        learner.whitening.track(states[:, 0])
        states = learner.whitening(states)
    scale = 1 - config.gamma if config.unit_scale else 1.0
    hidden = functional_trunk(learner, states[:, -1])
    ahead = hidden @ learner.target.head_weight + learner.target.head_bias
    target = scale * (torch.from_numpy(batch.weights).unsqueeze(2) * states[:, :-1]).sum(1)
    target += torch.from_numpy(batch.bootstrap_weights).unsqueeze(1) * ahead
    psi = network(states[:, 0])[torch.arange(SIZE), torch.from_numpy(batch.actions)]
    loss = functional.huber_loss(psi, target, delta=config.huber_delta)
    learner.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    learner.optimiser.step()
    network.eval()
    if config.target_rate:
        learner.target.follow(network, config.target_rate)
    learner.count_step()
    return float(loss.detach())


@torch.no_grad()
def functional_trunk(learner: SuccessorLearner, states: torch.Tensor) -> torch.Tensor:
    """Hidden units of the target network, whose batch normalization goes by the batch."""
    hidden = states
    for layer in learner.target.trunk:
        if isinstance(layer, torch.nn.BatchNorm1d):
            hidden = functional.batch_norm(hidden, None, None, layer.weight, layer.bias, training=True)
        else:
            hidden = layer(hidden.clone())
    return hidden


def assert_close(ours: SuccessorLearner, theirs: SuccessorLearner, error: float) -> None:
    for name in ("network", "target", "whitening"):
        expected = getattr(theirs, name).state_dict()
        for key, value in getattr(ours, name).state_dict().items():
            # A bias before batch norm has a gradient of rounding errors alone, and Adam makes steps of them.
            loose = key in {"trunk.0.bias", "trunk.3.bias", "trunk.1.running_mean", "trunk.4.running_mean"}
            atol = 0.1 if loose and ours.config.batch_norm else error
            torch.testing.assert_close(value.cpu(), expected[key].cpu(), rtol=error, atol=atol, msg=f"{name} {key}")


@pytest.mark.parametrize("settings", SETTINGS)
def test_steps_over_the_store_are_those_made_one_by_one(
    encoder: str, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FrameRepresentation, "TRACK_EVERY", 1)
    ours, theirs = make(encoder, settings), make(encoder, settings).successor
    config = ours.successor.config
    together = 1 if config.whiten else 2  # moments are taken of all steps together, before the first
    for seed in range(6 // together):
        batch = make_batch(together, config.n_step, seed)
        loss = learn(ours, batch)["train/sf_loss"]
        parts = [batch._take(np.arange(at, at + SIZE)) for at in range(0, together * SIZE, SIZE)]
        assert loss == pytest.approx(np.mean([plain_step(theirs, ours, part) for part in parts]), rel=1e-3)
    assert ours.successor.gradient_steps == theirs.gradient_steps == 6
    assert_close(ours.successor, theirs, 1e-2 if config.whiten else 1e-3)


@pytest.mark.parametrize("whiten", [False, True])
def test_where_psi_is_of_the_newest_frame_its_target_sums_up_the_newest_frames_alone(
    encoder: str, whiten: bool
) -> None:
    made = make(encoder, {"batch_norm": False, "huber_delta": 0.7, "whiten": whiten}, newest=True)
    learner, batch = made.successor, make_batch(1, STEPS)
    with torch.no_grad():
        for parameter in (*learner.network.parameters(), learner.target.head_weight):
            parameter.zero_()
        learner.target.head_bias.fill_(0.25)
    loss = learn(made, batch)["train/sf_loss"]
    phi = learner.white(made._store.at(torch.from_numpy(made._store.places(batch.steps[:, :, -1]))))  # [B, n, F]
    target = (torch.from_numpy(batch.weights).unsqueeze(2) * phi).sum(1)
    target += 0.25 * torch.from_numpy(batch.bootstrap_weights).unsqueeze(1)
    expected = functional.huber_loss(torch.zeros_like(target), target, delta=0.7)
    assert loss == pytest.approx(float(expected), rel=1e-5)  # psi was 0


def test_moments_are_taken_of_the_first_steps_and_then_now_and_then_and_count_as_all_steps_between(
    encoder: str,
) -> None:
    made, counts, means = make(encoder, {"whiten": True, "whiten_mean": True}), [], []
    whitening, store = made.successor.whitening, made._store
    for seed in range(4):
        batch = make_batch(3, STEPS, seed)
        made._learn(batch, None)
        means.append(store.at(torch.from_numpy(store.places(batch.steps[:, 0, -1]))).double().mean(0))
        counts.append(whitening.count)
        if seed == 0:
            torch.testing.assert_close(whitening.mean, means[0])
    assert counts == [1, 1, 9, 9]  # the eighth step is in the third batch
    torch.testing.assert_close(whitening.mean, means[0] / 9 + means[2] * 8 / 9)


# ---- on a GPU


def parameters(made: FrameRepresentation) -> Array:
    values = made.successor.network.parameters()
    return torch.cat([value.detach().flatten().cpu() for value in values]).numpy()


@needs_gpu
@pytest.mark.parametrize("settings", SETTINGS)
def test_on_a_gpu_a_graph_makes_the_steps_of_plain_calls_and_of_the_cpu(
    encoder: str, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("cuda")
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # full precision, as on the CPU
    graph, plain, cpu = (make(encoder, settings, place) for place in (device, device, CPU))
    plain._steps._step._on_gpu = False
    for seed in range(5):
        batch = make_batch(2, graph.successor.config.n_step, seed)
        for made in (graph, plain, cpu):
            made._learn(batch, None)
            made._side.join()
    torch.cuda.synchronize()
    assert graph._steps.is_captured
    assert not plain._steps.is_captured
    assert graph.successor.gradient_steps == plain.successor.gradient_steps == cpu.successor.gradient_steps == 10
    np.testing.assert_allclose(parameters(graph), parameters(plain), rtol=1e-4, atol=1e-5)
    assert_close(graph.successor, copy.deepcopy(cpu.successor), 1e-2)


@needs_gpu
def test_on_a_gpu_the_loss_is_reported_now_and_then(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrameRepresentation, "REPORT_EVERY", 4)
    made, reports = make(encoder, {}, torch.device("cuda")), []
    for seed in range(5):
        made._metrics = Metrics()
        reports.append(learn(made, make_batch(2, STEPS, seed)))
    assert [bool(report) for report in reports] == [False, False, True, False, True]
    assert all(np.isfinite(value) for report in reports for value in report.values())
