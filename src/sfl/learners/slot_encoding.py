"""Observations of a table through an encoder that learns, each distinct one once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.data.observations import ObservationTable, distinct
from sfl.data.types import Array
from sfl.nn.encoders import Encoder, GridEncoder
from sfl.nn.pullback import Pull, pull_autograd


def encode_slots(
    encoder: Encoder, table: ObservationTable, slots: Array, device: torch.device, by_difference: bool = False
) -> tuple[Tensor, Pull]:
    """Features [U, F] of distinct observations in the table, and their pull for a gradient step.

    `by_difference` skips what all of them show alike, where that is most of a grid: the same sums in another order.
    """
    windows = table.windows
    if windows is None or windows.full or not isinstance(encoder, GridEncoder):
        features: Tensor = encoder(torch.from_numpy(table.rows(slots)).to(device))
        return features.detach(), pull_autograd(features, encoder)
    numbers = windows.windows_of(slots)
    used, places = distinct(numbers)
    varying = np.flatnonzero((numbers != numbers[0]).any(0))
    few = by_difference and 2 * len(varying) < numbers.shape[1]
    return encoder.forward_windows(
        torch.from_numpy(windows.patch_values).to(device),
        torch.from_numpy(windows.patches_of(used)).to(device),
        torch.from_numpy(places).to(device),
        torch.from_numpy(varying).to(device) if few else None,
    )
