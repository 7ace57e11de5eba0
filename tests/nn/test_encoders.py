"""Encoders: the fast path equals the plain one in value and gradient, and every feature has the same norm."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sfl.fast.grid import WindowTable, encode_distinct, encode_windows
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


def gradients(encoder: GridEncoder, features: Tensor) -> dict[str, Tensor]:
    """Of a loss that tells every feature of every row apart."""
    encoder.zero_grad()
    features.backward(torch.linspace(-1, 1, features.numel(), dtype=features.dtype).reshape(features.shape))
    return {
        name: parameter.grad.clone() for name, parameter in encoder.named_parameters() if parameter.grad is not None
    }


@pytest.mark.parametrize("side", [7, 8, 9, 25])
def test_windows_give_the_same_features_and_gradients(side: int) -> None:
    torch.manual_seed(0)
    encoder = GridEncoder((side, side, 3), 64, 10.0).double()
    observations = grids(side, 12)
    windows = WindowTable((side, side, 3), "uint8")
    slots = DistinctStore((side, side, 3), "uint8", windows).add(observations.numpy())
    used, places = distinct(windows.windows_of(slots))
    assert len(used) < places.size or side < 9  # there is something to gain: windows are shared
    plain = encoder_plain(encoder, observations)
    plain_gradients = gradients(encoder, plain)
    patches = torch.from_numpy(windows.patch_values).double()
    fast = encode_windows(encoder, patches, torch.from_numpy(windows.patches_of(used)), torch.from_numpy(places))
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    fast_gradients = gradients(encoder, fast)
    assert set(fast_gradients) == {
        f"{layer}.{kind}" for layer in ("conv1", "conv2", "linear") for kind in ("weight", "bias")
    }
    for name, gradient in plain_gradients.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(fast_gradients[name], gradient, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("windowed", [True, False])
def test_slots_of_a_store_are_encoded_as_their_observations(windowed: bool) -> None:
    torch.manual_seed(0)
    encoder = GridEncoder((9, 9, 3), 8, 10.0)
    windows = WindowTable((9, 9, 3), "uint8") if windowed else None
    store = DistinctStore((9, 9, 3), "uint8", windows)
    slots = np.unique(store.add(grids(9, 12).numpy()))
    features = encode_distinct(encoder, store, slots, torch.device("cpu"))
    torch.testing.assert_close(features, encoder(torch.from_numpy(store.rows(slots))), rtol=1e-5, atol=1e-5)


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
