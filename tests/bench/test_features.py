"""The probe of features: its arithmetic on walks whose answer is known, and the command on a tiny one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.probes import features
from benchmarks.probes.features import Walks, discounted, effective_dimensions, judge, main, stacked


def walks_on_a_ring(count: int = 8, length: int = 120, places: int = 24) -> tuple[Walks, np.ndarray]:
    """Steps forward and back on a ring of places that are 40 units apart."""
    rng = np.random.default_rng(0)
    at = (rng.integers(places, size=(count, 1)) + rng.choice([-1, 1], (count, length)).cumsum(1)) % places
    turn = 2 * np.pi * at.ravel() / places
    radius = 40 * places / (2 * np.pi)
    poses = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), np.zeros(at.size)])
    return Walks(np.zeros((at.size, 1), np.uint8), poses, length), at.ravel()


def test_features_that_tell_places_apart_are_right_and_those_of_nothing_are_not() -> None:
    walks, at = walks_on_a_ring()
    telling = judge("t", torch.eye(24, dtype=torch.float64)[at], walks, add=0.8, localize=0.9)
    assert telling.explained > 0.2
    assert telling.landmarks > 5
    assert telling.localized > 0.5
    assert telling.right > 0.7
    noise = torch.from_numpy(np.random.default_rng(1).normal(1.0, 0.1, (len(at), 24)))
    blind = judge("t", noise, walks, add=0.8, localize=0.9)  # all alike: one landmark, everywhere
    assert (blind.landmarks, blind.localized) == (1, 1.0)
    assert blind.right < 0.4


def test_dimensions_sums_and_stacks() -> None:
    phi = torch.from_numpy(np.random.default_rng(0).normal(size=(4_000, 5)))
    assert effective_dimensions(phi) == pytest.approx(5, rel=0.05)
    assert effective_dimensions(phi * torch.tensor([1.0, 0, 0, 0, 0])) == pytest.approx(1)
    steps = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)  # two walks of two steps
    assert discounted(steps, 2).flatten().tolist() == pytest.approx([0.05 * 2.9, 0.05 * 2, 0.05 * 11.6, 0.05 * 8])
    assert stacked(steps, 2).tolist() == [[1, 1, 1, 1], [1, 1, 1, 2], [4, 4, 4, 4], [4, 4, 4, 8]]


def test_the_command_records_once_and_judges_each_treatment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--maze", "small", "--encoder", "compact", "--walks", "4", "--length", "80", "--cache", str(tmp_path)]
    assert main(words) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0].startswith("small, compact: ")
    assert [line[:24].strip() for line in first[1:]] == ["as it is", "centred", "centred and whitened"]
    monkeypatch.setattr(features, "record", None)  # the walks are there
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == first
    assert main([*words, "--encoder", "nowhere.safetensors"]) == 2
    assert capsys.readouterr().err.startswith("features: Cannot read an encoder from nowhere.safetensors")
