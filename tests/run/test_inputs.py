"""What the headers of network files say about the time before a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfl import experiments
from sfl.baselines.config import ControllerConfig
from sfl.baselines.random import RandomConfig
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import save_networks
from sfl.pretrain.config import NetworkRecipe
from sfl.pretrain.train import training_card
from sfl.run.inputs import Pretraining, pretraining_of, spent_by_card

from ..pretrain.made import made_walks


@pytest.mark.parametrize(
    ("experiment", "kind", "spent"),
    [
        ("maze-fixed-spawn-sfl", "place", (1_200_000, 5_534, 491.0)),
        ("laptop-maze-sfl", "compact", (1_000_000, 29_205, 491.0)),
        ("test-1-fixed-spawn-mss", "place", (1_200_000, 5_534, 491.0)),
    ],
)
def test_shipped_encoders_say_what_they_took(experiment: str, kind: str, spent: tuple[int, int, float]) -> None:
    (one,) = pretraining_of(experiments.get(experiment).agent)
    assert (one.network, one.file, one.machine) == ("encoder", kind, "NVIDIA H200")
    assert (one.env_steps, one.gradient_steps, one.seconds) == spent
    plain = FrameEncoder("place" if kind == "place" else "compact")
    assert one.frozen == sum(value.numel() for value in plain.parameters())


def test_the_sentences_of_a_card_are_understood() -> None:
    curve = [{"step": 20, "loss": 0.5, "accuracy": 0.75}]
    times = {"collecting": 1_200.0, "training": 34.0}
    card = training_card(NetworkRecipe(), "sfl network train retrieval", made_walks(), curve, times, "cpu")
    found = spent_by_card(card, "retrieval", "r.safetensors")
    assert found == Pretraining("retrieval", "r.safetensors", 360, 20, 1_234.0, found.machine)
    assert found.machine.endswith("CPU thread(s)")
    unlearned = training_card(NetworkRecipe(), "", made_walks(), [], times, "cpu")
    assert spent_by_card(unlearned, "retrieval", "r").gradient_steps == 0


def header(tmp_path: Path, **words: str) -> ControllerConfig:
    file = tmp_path / "networks.safetensors"
    save_networks({"retrieval.x": torch.zeros(1)}, file, words)
    return ControllerConfig(str(file))


def test_a_joined_file_without_both_cards_leaves_one_unknown(tmp_path: Path) -> None:
    card = {"data": "12 frames of walks", "time": "training 5 s on a GPU", "steps": "3"}
    words = "sfl network train locomotion --join r.safetensors --out networks.safetensors"
    agent = header(tmp_path, **card, command=words, networks="locomotion retrieval")
    locomotion, retrieval = pretraining_of(agent)
    assert locomotion == Pretraining("locomotion", "networks.safetensors", 12, 3, 5.0, "a GPU")
    assert retrieval == Pretraining("retrieval", "networks.safetensors")


def test_what_has_no_file_or_a_checkpoint_s_has_nothing_before(tmp_path: Path) -> None:
    assert pretraining_of(RandomConfig()) == []
    assert pretraining_of(ControllerConfig()) == []
    assert pretraining_of(header(tmp_path)) == []
    (gone,) = pretraining_of(replace(header(tmp_path), networks=str(tmp_path / "absent.safetensors")))
    assert (gone.file, gone.env_steps) == ("a file that is gone", None)
