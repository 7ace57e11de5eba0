"""Distinct observations, each kept once.

A gridworld's replay buffer of twenty thousand steps holds a few hundred distinct observations. Keeping each once saves
memory, and lets the learners encode each once per batch, which gives the same numbers.
"""

from __future__ import annotations

import numpy as np

from sfl.data.types import Array, Observation
from sfl.data.windows import WindowTable


class ObservationTable:
    """Observations by slot, counted by reference; a slot nobody refers to is used again."""

    def __init__(self, shape: tuple[int, ...], dtype: str, windows: WindowTable | None = None) -> None:
        self.windows = windows
        self._rows = np.zeros((64, *shape), dtype=dtype)
        self._references = np.zeros(64, dtype=np.int64)
        self._slots: dict[bytes, int] = {}
        self._free = list(range(63, -1, -1))
        self._written: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def hold(self, observation: Observation) -> int:
        """The slot of an observation, with one reference more."""
        key = observation.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._take_slot()
            self._slots[key] = slot
            self._rows[slot] = observation
            self._written.append(slot)
            if self.windows is not None:
                self.windows.set(slot, self._rows[slot])
        self._references[slot] += 1
        return slot

    def release(self, slot: int) -> None:
        """Drop one reference; the last one frees the slot."""
        self._references[slot] -= 1
        if self._references[slot] == 0:
            del self._slots[self._rows[slot].tobytes()]
            self._free.append(slot)

    def take_written(self) -> list[int]:
        """Slots that were given an observation since this was last asked."""
        written, self._written = self._written, []
        return written

    def rows(self, slots: Array) -> Array:
        """The observations in these slots, [N, ...]."""
        return np.asarray(self._rows[slots])

    def state(self) -> dict[str, Array]:
        """Plain arrays. The numbers of slots and windows are kept: sums over distinct ones follow their order."""
        free, written = np.array(self._free, np.int64), np.array(self._written, np.int64)
        windows = {} if self.windows is None else self.windows.state()
        return {"table_rows": self._rows, "table_free": free, "table_written": written, **windows}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        """Take up arrays made by `state`; `held` lists the slot of every reference."""
        self._rows = state["table_rows"].copy()
        self._free, self._written = state["table_free"].tolist(), state["table_written"].tolist()
        self._references = np.bincount(held, minlength=len(self._rows)).astype(np.int64)
        used = np.flatnonzero(self._references)
        self._slots = {self._rows[slot].tobytes(): int(slot) for slot in used}
        if self.windows is not None:
            self.windows.load_state(state)
            for slot in used:
                self.windows.set(int(slot), self._rows[slot])

    def check_valid(self) -> None:
        """Raise when the table contradicts itself."""
        held = np.flatnonzero(self._references)
        if sorted(self._slots.values()) != held.tolist() or set(self._free) & set(held.tolist()):
            raise AssertionError("observation table: slots and reference counts disagree")

    def _take_slot(self) -> int:
        if not self._free:
            size = len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._references = np.concatenate([self._references, np.zeros(size, dtype=np.int64)])
            self._free = list(range(2 * size - 1, size - 1, -1))
        return self._free.pop()


def distinct(slots: Array) -> tuple[Array, Array]:
    """Distinct slots in order and, for each given one, its place among them (as `np.unique`, without the sort)."""
    seen = np.zeros(int(slots.max()) + 1, dtype=bool)
    seen[slots] = True
    unique = np.flatnonzero(seen)
    place = np.empty(len(seen), dtype=np.int64)
    place[unique] = np.arange(len(unique))
    return unique, place[slots]
