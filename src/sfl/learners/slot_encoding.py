"""Observations of a table through an encoder that learns, each distinct one once."""

from __future__ import annotations

import torch
from torch import Tensor

from sfl.data.observations import ObservationTable, distinct
from sfl.data.types import Array
from sfl.nn.encoders import Encoder, GridEncoder
from sfl.nn.pullback import Pull, pull_autograd


def encode_slots(encoder: Encoder, table: ObservationTable, slots: Array, device: torch.device) -> tuple[Tensor, Pull]:
    """Features [U, F] of distinct observations in the table, and their pull for a gradient step."""
    windows = table.windows
    if windows is None or windows.full or not isinstance(encoder, GridEncoder):
        features: Tensor = encoder(torch.from_numpy(table.rows(slots)).to(device))
        return features.detach(), pull_autograd(features, encoder)
    used, places = distinct(windows.windows_of(slots))
    return encoder.forward_windows(
        torch.from_numpy(windows.patch_values).to(device),
        torch.from_numpy(windows.patches_of(used)).to(device),
        torch.from_numpy(places).to(device),
    )
