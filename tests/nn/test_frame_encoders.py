"""Encoders of frames: their layout, what they do to bytes, and that folding changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sfl.errors import UsageError
from sfl.nn import Kind
from sfl.nn.frame_encoders import KINDS, FrameEncoder, halve


def frames(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 120, 160, 3), dtype=torch.uint8, generator=generator)


def trained(kind: Kind) -> FrameEncoder:
    """An encoder whose batch normalization has seen something and whose features are standardised."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = FrameEncoder(kind, normalised=True)
    with torch.no_grad():
        encoder.train()
        encoder(frames(4))
        encoder.eval()
        encoder.standardise(encoder.raw(frames(6)))
    return encoder


def weights(encoder: FrameEncoder) -> int:
    return sum(parameter.numel() for parameter in encoder.parameters())


def test_halving_is_the_mean_of_four_pixels() -> None:
    pictures = frames(2)
    means = pictures.reshape(2, 60, 2, 80, 2, 3).float().mean((2, 4))
    small = halve(pictures)
    assert small.shape == (2, 60, 80, 3)
    assert small.dtype == torch.uint8
    assert (small.float() - means).abs().max() <= 1.0


def test_resnet18_has_the_weights_of_the_published_network() -> None:
    # Stem 7*7*3*64; stages of four 3x3 convolutions (the first of them from the width before) and a 1x1 shortcut where
    # the width changes; two numbers per channel for each batch normalization; 512 linear outputs of 512 inputs.
    stages = 4 * 9 * 64 * 64
    for before, width in ((64, 128), (128, 256), (256, 512)):
        stages += 9 * before * width + 3 * 9 * width * width + before * width
    normed = 64 + 4 * 64 + sum(5 * width for width in (128, 256, 512))
    expected = 7 * 7 * 3 * 64 + stages + 2 * normed + 512 * 512 + 512
    assert expected == 11_439_168
    assert weights(FrameEncoder("resnet18", normalised=True)) == expected


@pytest.mark.parametrize(
    ("kind", "dim", "most"), [("resnet18", 512, 11.5e6), ("place", 256, 4e6), ("compact", 128, 1e6)]
)
def test_shapes_and_sizes(kind: Kind, dim: int, most: float) -> None:
    encoder = FrameEncoder(kind).eval()
    assert encoder.name == kind
    assert encoder.dim == dim
    assert encoder(frames(2)).shape == (2, dim)
    assert weights(encoder) <= most


@pytest.mark.parametrize("kind", KINDS)
def test_folding_batch_normalization_changes_nothing(kind: Kind) -> None:
    encoder = trained(kind)
    plain = encoder.folded()
    assert not any("norm" in name for name in plain.state_dict())
    assert not any(parameter.requires_grad for parameter in plain.parameters())
    with torch.no_grad():
        torch.testing.assert_close(plain(frames(3, seed=1)), encoder(frames(3, seed=1)), rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(plain.folded()(frames(3)), plain(frames(3)))


def test_features_of_the_frames_they_were_standardised_on_have_mean_0_and_deviation_1() -> None:
    encoder = trained("compact")
    with torch.no_grad():
        features = encoder(frames(6))
    torch.testing.assert_close(features.mean(0), torch.zeros(128), rtol=0, atol=1e-4)
    torch.testing.assert_close(features.std(0), torch.ones(128), rtol=0, atol=1e-4)


def test_before_that_features_are_as_they_come() -> None:
    encoder = FrameEncoder("compact").eval()
    with torch.no_grad():
        assert torch.equal(encoder(frames(2)), encoder.raw(frames(2)))


def test_a_compact_encoder_takes_frames_of_half_the_size_and_no_other() -> None:
    encoder = trained("compact")
    with torch.no_grad():
        assert torch.equal(encoder(halve(frames(2))), encoder(frames(2)))
    with pytest.raises(UsageError, match=r"'compact' takes frames of \(60, 80\) or \(120, 160\), got \(30, 40\)"):
        encoder(halve(halve(frames(2))))
    with pytest.raises(UsageError, match=r"'place' takes frames .* got \(60, 80\)"):
        FrameEncoder("place")(halve(frames(2)))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_gives_nearly_the_same_in_full_precision(kind: Kind) -> None:
    encoder = trained(kind).folded()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = encoder(frames(4, seed=1))
    exact = encoder(frames(4, seed=1))
    converted = encoder.to(torch.bfloat16)(frames(4, seed=1))
    for found in (rough, converted):
        assert found.dtype == torch.float32
        assert float(torch.cosine_similarity(found, exact).min()) > 0.98
