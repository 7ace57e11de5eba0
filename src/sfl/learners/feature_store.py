"""Features of frames under numbers, on the device where they are learned from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sfl.data.types import Array


class FeatureStore:
    """As many feature vectors as a replay can refer to; slot -1 is the one for what was before an episode."""

    def __init__(self, capacity: int, fill: Tensor) -> None:
        self._rows = torch.zeros(capacity + 1, len(fill), device=fill.device)
        self._rows[-1] = fill
        self._free = list(range(capacity - 1, -1, -1))

    def hold(self, observation: Array) -> int:
        """The slot of one feature vector."""
        return self.hold_rows(torch.from_numpy(observation)[None])[0]

    def hold_rows(self, features: Tensor) -> list[int]:
        """The slots of features [B, F]; each is referred to once."""
        slots = [self._free.pop() for _ in range(len(features))]
        self._rows[slots] = features.to(self._rows)
        return slots

    def release(self, slot: int) -> None:
        """The slot may be used again."""
        self._free.append(slot)

    def rows(self, slots: Array) -> Tensor:
        """Features [..., F] of slots [...]."""
        places = torch.from_numpy(slots.reshape(-1) % len(self._rows)).to(self._rows.device)
        features: Tensor = self._rows.index_select(0, places).unflatten(0, slots.shape)
        return features

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"feature_rows": self._rows.cpu().numpy().copy(), "feature_free": np.array(self._free, np.int64)}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Take up arrays made by `state`; what is held is what is not free."""
        self._rows.copy_(torch.from_numpy(state["feature_rows"]))
        self._free = state["feature_free"].tolist()
