"""`sfl encoder extract`: what R's encoder says, standardised."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfl.baselines.networks import RetrievalNetwork
from sfl.cli import main
from sfl.method.config import FrameConfig, FrameSFLConfig, RetrievalConfig
from sfl.nn.weights import load_encoder, save_networks
from sfl.pretrain.networks import SHAPE
from sfl.run.inputs import pretraining_of

CARD = {"command": "sfl network train retrieval --out r.safetensors", "data": "120 frames of walks", "steps": "7"}


@pytest.fixture
def network(tmp_path: Path) -> RetrievalNetwork:
    """R after a few batches, which its batch normalizations remember, in a file."""
    torch.manual_seed(0)
    network = RetrievalNetwork(RetrievalConfig(encoder="compact", hidden=8, layers=1), SHAPE)
    for _ in range(60):
        network(torch.randint(0, 256, (3, 8, *SHAPE), dtype=torch.uint8))
    named = {f"retrieval.{name}": value for name, value in network.eval().state_dict().items()}
    save_networks(named, tmp_path / "r.safetensors", CARD)
    return network


def test_features_are_those_of_r_with_mean_0_and_deviation_1(network: RetrievalNetwork, tmp_path: Path) -> None:
    words = ["encoder", "extract", str(tmp_path / "r.safetensors"), "--kind", "compact"]
    assert main([*words, "--out", str(tmp_path / "e.safetensors")]) == 0
    frames = torch.randint(0, 256, (64, *SHAPE), dtype=torch.uint8)
    with torch.no_grad():
        codes = network.encoder(frames)
        features = load_encoder(str(tmp_path / "e.safetensors"))(frames)
    norm = network.head[0]
    expected = (codes - norm.running_mean[:128]) / norm.running_var[:128].sqrt()
    torch.testing.assert_close(features, expected, rtol=0.02, atol=0.05)  # the file is in half precision
    assert features.mean().abs() < 0.3
    assert 0.5 < features.std() < 2


def test_a_run_over_it_counts_what_r_took(network: RetrievalNetwork, tmp_path: Path) -> None:
    out = tmp_path / "e.safetensors"
    assert main(["encoder", "extract", str(tmp_path / "r.safetensors"), "--kind", "compact", "--out", str(out)]) == 0
    (before,) = pretraining_of(FrameSFLConfig(frames=FrameConfig(encoder=str(out))))
    assert (before.network, before.env_steps, before.gradient_steps) == ("encoder", 120, 7)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["none", "--out", "e.safetensors"], "Cannot read networks from none"),
        (["r.safetensors", "--out", "e.safetensors"], "has no resnet18 encoder; give the one"),
        (["r.safetensors", "--kind", "compact", "--out", "e.pt"], "--out must name a .safetensors file, got e.pt."),
        (["r.safetensors", "--kind", "compact", "--out", "r.safetensors"], "r.safetensors exists already"),
        (["l.safetensors", "--out", "e.safetensors"], "l.safetensors holds no retrieval network"),
    ],
)
@pytest.mark.usefixtures("network")
def test_wrong_use_is_one_line_and_writes_nothing(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    save_networks({"locomotion.weight": torch.zeros(1)}, tmp_path / "l.safetensors", {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["encoder", "extract", *words]) in (1, 2)
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
