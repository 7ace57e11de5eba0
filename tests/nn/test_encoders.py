"""Encoders: the fast path equals the plain one in value and gradient, and every feature has the same norm."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.fast.layers import Pull, pull_autograd
from sfl.fast.windows import WindowTable
from sfl.nn.encoders import GridEncoder, PictureEncoder, VectorEncoder, make_encoder, scale_to_norm
from sfl.replay.store import DistinctStore, distinct


def grids(side: int, count: int) -> torch.Tensor:
    """Random observations of one map: the same walls, an agent somewhere, a door open or closed."""
    rng = np.random.default_rng(side)
    background = rng.integers(3, size=(side, side, 3), dtype=np.uint8)
    rows = np.repeat(background[None], count, axis=0)
    for row in rows:
        row[tuple(rng.integers(side, size=2))] = (10, 0, rng.integers(4))
        row[side // 2, side // 2, 2] = rng.integers(2)
    return torch.from_numpy(rows)


def gradients(encoder: GridEncoder, pull: Pull, like: Tensor) -> dict[str, Tensor]:
    """Of a loss that tells every feature of every row apart."""
    encoder.zero_grad()
    pull(torch.linspace(-1, 1, like.numel(), dtype=like.dtype).reshape(like.shape))
    return {
        name: parameter.grad.clone() for name, parameter in encoder.named_parameters() if parameter.grad is not None
    }


@pytest.mark.parametrize("side", [7, 8, 9, 25])
def test_windows_give_the_same_features_and_gradients(side: int) -> None:
    torch.manual_seed(0)
    encoder = GridEncoder((side, side, 3), 64, 10.0).double()
    observations = grids(side, 12)
    windows = WindowTable((side, side, 3), "uint8")
    table = DistinctStore((side, side, 3), "uint8", windows)
    slots = table.add(observations.numpy())
    used, places = distinct(windows.windows_of(slots))
    assert len(used) < places.size or side < 9  # there is something to gain: windows are shared
    plain = encoder_plain(encoder, observations)
    plain_gradients = gradients(encoder, pull_autograd(plain, encoder), plain)
    patches = torch.from_numpy(windows.patch_values).double()
    fast, pull = encoder.forward_windows(patches, torch.from_numpy(windows.patches_of(used)), torch.from_numpy(places))
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    fast_gradients = gradients(encoder, pull, fast)
    assert set(fast_gradients) == {
        f"{layer}.{kind}" for layer in ("conv1", "conv2", "linear") for kind in ("weight", "bias")
    }
    for name, gradient in plain_gradients.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(fast_gradients[name], gradient, rtol=1e-8, atol=1e-9)


def test_few_varying_cells_give_the_same_features_and_gradients() -> None:
    torch.manual_seed(0)
    encoder = GridEncoder((25, 25, 3), 64, 10.0).double()
    rows = grids(25, 1).numpy().repeat(6, axis=0)
    rows[:, 3:6, 3] = np.random.default_rng(0).integers(3, size=(6, 3, 3))  # only this corner varies
    windows = WindowTable((25, 25, 3), "uint8")
    table = DistinctStore((25, 25, 3), "uint8", windows)
    numbers = windows.windows_of(table.add(rows))
    used, places = distinct(numbers)
    varying = np.flatnonzero((numbers != numbers[0]).any(0))
    assert 0 < len(varying) < 10
    inputs = [torch.from_numpy(part) for part in (windows.patch_values.astype(float), windows.patches_of(used), places)]
    (plain, pull_plain), (ours, pull_ours) = (
        encoder.forward_windows(*inputs, which) for which in (None, torch.from_numpy(varying))
    )
    torch.testing.assert_close(ours, plain)
    expected, found = (gradients(encoder, pull, plain) for pull in (pull_plain, pull_ours))
    assert len(expected) == len(found) == 6
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)


def encoder_plain(encoder: GridEncoder, observations: Tensor) -> Tensor:
    """The plain path in double precision, written out: convolutions over the whole grid."""
    hidden = observations.double().permute(0, 3, 1, 2)
    hidden = encoder.conv2(encoder.conv1(hidden).relu()).relu()
    return scale_to_norm(encoder.linear(hidden.permute(0, 2, 3, 1).flatten(1)), 10.0)


def test_forward_is_that_plain_path() -> None:
    torch.manual_seed(0)
    encoder = GridEncoder((9, 9, 3), 64, 10.0)
    torch.testing.assert_close(encoder(grids(9, 5)), encoder_plain(encoder.double(), grids(9, 5)).float())


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((9, 9, 3), GridEncoder),
        ((25, 25, 3), GridEncoder),
        ((40, 7, 3), GridEncoder),
        ((84, 84, 3), PictureEncoder),
        ((120, 160, 1), PictureEncoder),
        ((5, 5, 3), VectorEncoder),
        ((16,), VectorEncoder),
        ((4, 4), VectorEncoder),
    ],
)
def test_every_shape_has_an_encoder_whose_features_have_the_norm(shape: tuple[int, ...], kind: type) -> None:
    torch.manual_seed(0)
    encoder = make_encoder(shape, 32, 10.0)
    assert isinstance(encoder, kind)
    features = encoder(torch.randint(0, 255, (6, *shape), dtype=torch.uint8))
    assert features.shape == (6, 32)
    torch.testing.assert_close(features.norm(dim=1), torch.full((6,), 10.0))
    assert (features[0] - features[1]).norm() > 1e-3  # other observations, other features


def test_scaling_keeps_directions_and_survives_zero() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, -0.5], [0.0, 0.0]])
    torch.testing.assert_close(scale_to_norm(rows, 10.0), torch.tensor([[6.0, 8.0], [0.0, -10.0], [0.0, 0.0]]))
