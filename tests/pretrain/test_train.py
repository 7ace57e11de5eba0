"""Training: the clock, the step size, that objectives learn, and the model card."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from sfl.baselines.networks import MomentPairs
from sfl.method.config import ReachabilityConfig
from sfl.nn.frame_encoders import FrameEncoder
from sfl.pretrain.config import ContrastConfig, EncoderRecipe
from sfl.pretrain.evaluate import PlaceRow
from sfl.pretrain.train import (
    Curve,
    calibrate,
    card_page,
    clock,
    command,
    fit,
    make_card,
    one_cycle,
    prepare_learning,
    scores_card,
)
from sfl.seeding import spawn

from .made import made_walks

SMALL = EncoderRecipe(
    kind="compact",
    half_size=True,
    steps=15,
    recolour=True,
    contrast=ContrastConfig(mazes=3, moments=8, gap=8),
    reachability=ReachabilityConfig(batch_size=24, hidden=32, layers=1),
)


def learn(recipe: EncoderRecipe, teacher: FrameEncoder | None = None) -> tuple[FrameEncoder, Curve]:
    walks = made_walks()
    rngs = spawn(recipe.seed, ["init", "draw", "recolour"])
    encoder, objective, draw = prepare_learning(recipe, walks, teacher, rngs["init"], "cpu")
    return encoder, fit(recipe, encoder, objective, draw, walks, rngs, None)


def test_the_clock_counts_steps_or_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(clock(4, None)) == [0.0, 0.25, 0.5, 0.75]
    assert list(clock(0, None)) == []
    now = iter([100.0, 100.0, 101.0, 104.0, 105.0])
    monkeypatch.setattr("sfl.pretrain.train.time.monotonic", lambda: next(now))
    assert list(clock(None, 5.0)) == [0.0, 0.2, 0.8]


def test_the_step_size_rises_and_falls() -> None:
    assert one_cycle(0.0) == pytest.approx(0.02)
    assert one_cycle(0.025) == pytest.approx(0.5)
    assert one_cycle(0.05) == pytest.approx(1.0)
    assert one_cycle(0.525) == pytest.approx(0.5)
    assert one_cycle(1.0) == pytest.approx(0.0)


@pytest.mark.parametrize(("objective", "chance"), [("contrast", math.log(23)), ("reachability", math.log(2))])
def test_objectives_are_learned(
    objective: Literal["contrast", "reachability"], chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chance`: the loss of an encoder that finds everything alike, for some 22 negatives and for two classes."""
    monkeypatch.setattr("sfl.pretrain.train.REPORT_EVERY", 20)
    pairs = replace(SMALL.reachability, batch_size=48)
    _, curve = learn(replace(SMALL, objective=objective, steps=60, recolour=False, reachability=pairs))
    assert [row["step"] for row in curve] == [20, 40, 60]
    assert curve[-1]["loss"] < min(0.8 * chance, curve[0]["loss"])
    assert curve[-1]["accuracy"] > 0.8


def test_a_student_becomes_like_its_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfl.pretrain.train.REPORT_EVERY", 5)
    teacher, _ = learn(SMALL)
    calibrate(teacher, made_walks(), np.random.default_rng(0))
    _, curve = learn(replace(SMALL, steps=20, recolour=False), teacher.folded())
    assert curve[-1]["loss"] < 0.6 * curve[0]["loss"]


def test_the_same_seed_gives_the_same_encoder() -> None:
    short = replace(SMALL, steps=3)
    (one, curve), (same, again), (other, _) = (learn(replace(short, seed=seed)) for seed in (1, 1, 2))
    assert curve == again
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name]), name
    assert not torch.equal(one.body[0].conv.weight, other.body[0].conv.weight)  # type: ignore[union-attr]


def test_an_interrupt_ends_the_training_and_keeps_what_was_learned(capsys: pytest.CaptureFixture[str]) -> None:
    walks, rngs = made_walks(), spawn(0, ["init", "draw", "recolour"])
    encoder, objective, draw = prepare_learning(SMALL, walks, None, rngs["init"], "cpu")
    drawn = []

    def interrupted(rng: np.random.Generator) -> MomentPairs:
        drawn.append(draw(rng))
        if len(drawn) == 2:
            signal.raise_signal(signal.SIGINT)
        return drawn[-1]

    curve = fit(SMALL, encoder, objective, interrupted, walks, rngs, None)
    assert [row["step"] for row in curve] == [2]
    assert "Stopped early: what was learned so far is kept." in capsys.readouterr().err


def test_training_does_not_touch_the_global_generator() -> None:
    before = torch.get_rng_state()
    learn(replace(SMALL, steps=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_calibration_standardises_over_training_frames() -> None:
    walks = made_walks()
    encoder, _ = learn(replace(SMALL, steps=3))
    calibrate(encoder, walks, np.random.default_rng(0))
    assert not encoder.training
    with torch.no_grad():
        features = encoder(walks.frames.flatten(0, 1))
    assert float(features.mean(0).abs().max()) < 0.3  # a sample stands for all frames
    assert float((features.std(0) - 1).abs().median()) < 0.1


def test_the_command_names_what_differs_from_the_defaults() -> None:
    recipe = EncoderRecipe(
        kind="compact",
        mazes=("small", "open"),
        minutes=2.5,
        recolour=True,
        half_size=True,
        contrast=ContrastConfig(temperature=0.2, symmetric=False),
    )
    assert command(recipe, Path("somewhere/my weights.safetensors")) == (
        "sfl encoder train --kind compact --half-size --mazes small open --minutes 2.5 --recolour "
        "--contrast.temperature 0.2 --contrast.no-symmetric --out 'my weights.safetensors'"
    )


def test_the_card_tells_everything_but_where_files_were(tmp_path: Path) -> None:
    out = tmp_path / "one.safetensors"
    out.write_bytes(b"1" * 1_200_000)
    recipe = replace(SMALL, half_size=False, maze_dir=tmp_path, distil=str(tmp_path / "place.safetensors"))
    curve = [{"step": 20, "loss": 2.0, "accuracy": 0.5}, {"step": 40, "loss": 1.0, "accuracy": 0.75}]
    card = make_card(recipe, made_walks(), curve, {"collecting": 12.3, "training": 45.6}, "cpu", out)
    card |= scores_card([PlaceRow("office", "maze", 0.875, 0.5, 1.0, 91.6)])
    assert card["data"] == (
        "360 frames of 80x60 from random walks of 60 decisions in 3 mazes in training textures (3 of small)"
    )
    assert (card["loss"], card["accuracy"], card["steps"]) == ("1.5", "0.625", "40")
    assert card["time"] == "collecting 12 s, training 46 s on 1 CPU thread(s)"
    assert json.loads(card["scores"])[0]["found"] == 0.5
    page = card_page(out, card, [PlaceRow("office", "maze", 0.875, 0.5, 1.0, 91.6)])
    assert str(tmp_path) not in page + json.dumps(card)
    assert "distilled from `place.safetensors`" in page
    assert "1.2 MB in half precision" in page
    assert "| office | maze | 87.5 | 50.0 | 100.0 | 92 |" in page
    assert "--distil place.safetensors" in page
    assert not math.isnan(float(card["loss"]))
