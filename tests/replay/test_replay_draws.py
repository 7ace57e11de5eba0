"""What `sample_n_step` draws, number for number, against a plain reading of the same random stream."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from sfl.api import Array
from sfl.replay.replay import FILL, NO_ACTION, NStepBatch, SequenceReplay

GAMMA = 0.9
BATCH = 12


class Numbers:
    """A store whose rows are their own slots."""

    def add(self, rows: Array) -> Array:
        return rows

    def free(self, slots: Array) -> None:
        pass

    def state(self) -> dict[str, Array]:
        return {}

    def load_state(self, state: dict[str, Array], held: Array) -> None:
        pass


@dataclass
class Entry:
    slot: int
    action: int
    random: bool
    first: int  # positions in time of the episode's first entry
    last: int | None = None  # and of its last one, once it has ended


@dataclass
class History:
    """All that a replay was ever given; it forgets nothing and finds windows by looking at every entry of them."""

    replay: SequenceReplay
    rng: np.random.Generator
    entries: list[list[Entry]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.count = len(self.replay._head)
        self.entries = [[] for _ in range(self.count)]
        self.first = [0] * self.count
        self.written = 0

    def step(self, end: float) -> None:
        """Some environments make a step, alone or together; some episodes end."""
        envs = self.rng.permutation(self.count)[: self.rng.integers(1, self.count + 1)]
        slots, actions = self.written + np.arange(len(envs)), self.rng.integers(4, size=len(envs))
        random = self.rng.random(len(envs)) < 0.8
        self.written += 2 * len(envs)
        rows = list(zip(envs.tolist(), slots.tolist(), actions.tolist(), random.tolist(), strict=True))
        if self.rng.random() < 0.5:
            self.replay.add(envs, slots, actions, random)
        else:
            for row in range(len(envs)):
                one = slice(row, row + 1)
                self.replay.add(envs[one], slots[one], actions[one], random[one])
        for env, slot, action, is_random in rows:
            self.entries[env].append(Entry(slot, action, is_random, self.first[env]))
            if self.rng.random() < end:
                self.close(env, slot + len(envs))

    def close(self, env: int, slot: int) -> None:
        self.replay.end(np.array([env]), np.array([slot]))
        self.entries[env].append(Entry(slot, NO_ACTION, False, self.first[env]))
        last = len(self.entries[env]) - 1
        for entry in self.entries[env][self.first[env] :]:
            entry.last = last
        self.first[env] = last + 1

    def reload(self) -> None:
        """Go on with a replay made from the arrays of this one."""
        state = {name: array.copy() for name, array in self.replay.state().items()}
        capacity, stack = self.replay.length * self.count, self.replay.stack
        self.replay = SequenceReplay(Numbers(), capacity, self.count, stack)
        self.replay.load_state(state)

    def end(self, env: int, at: int) -> int:
        """The last position of the episode that is known."""
        last = self.entries[env][at].last
        return len(self.entries[env]) - 1 if last is None else last

    def may_begin(self, env: int, at: int, n: int, random_only: bool) -> bool:
        entries, end = self.entries[env], self.end(env, at)
        if at == end or (entries[at].last is None and at + n > end):
            return False
        oldest, first = max(0, len(entries) - self.replay.length), entries[at].first
        if any(first <= position < oldest for position in range(at - self.replay.stack + 1, at)):
            return False
        return not random_only or all(entry.random for entry in entries[at : min(at + n, end)])

    def state(self, env: int, at: int) -> list[int]:
        first = self.entries[env][at].first
        positions = range(at - self.replay.stack + 1, at + 1)
        return [self.entries[env][position].slot if position >= first else FILL for position in positions]

    def draw(self, rng: np.random.Generator, n: int, random_only: bool) -> list[tuple[int, int]] | None:
        """Environments and positions: numbers count stored entries, of the first environment first, from the newest."""
        stored = [(env, at) for env, kept in enumerate(self.entries) for at in self._kept(len(kept))]
        found: list[tuple[int, int]] = []
        for _ in range(20 if stored else 0):
            drawn = [stored[number] for number in rng.integers(len(stored), size=2 * BATCH).tolist()]
            found += [(env, at) for env, at in drawn if self.may_begin(env, at, n, random_only)]
            if len(found) >= BATCH:
                return found[:BATCH]
        return None

    def _kept(self, written: int) -> range:
        return range(written - 1, max(-1, written - 1 - self.replay.length), -1)


def check(history: History, batch: NStepBatch | None, drawn: list[tuple[int, int]] | None, n: int) -> int:
    """Compare a batch with what it must be; returns how many rows meet their episode's end."""
    assert (batch is None) == (drawn is None)
    if batch is None or drawn is None:
        return 0
    left = [min(n, history.end(env, at) - at) for env, at in drawn]
    rows = zip(drawn, left, strict=True)
    expected = np.array([[history.state(env, at + min(k, last)) for k in range(n + 1)] for (env, at), last in rows])
    np.testing.assert_array_equal(batch.slots, expected if history.replay.stack > 1 else expected[:, :, 0])
    assert batch.actions.tolist() == [history.entries[env][at].action for env, at in drawn]
    weights = [[GAMMA**k if k < last else 0.0 for k in range(n)] for last in left]
    np.testing.assert_array_equal(batch.weights, np.array(weights, dtype=np.float32))
    np.testing.assert_array_equal(batch.bootstrap_weights, np.array([GAMMA**k for k in left], dtype=np.float32))
    return sum(last < n for last in left)


@pytest.mark.parametrize("end", [0.02, 0.2])
@pytest.mark.parametrize(("env_count", "length"), [(1, 2), (1, 7), (3, 5), (3, 30), (12, 20)])
@pytest.mark.parametrize("stack", [1, 4])
def test_batches_are_those_of_the_plain_reading(stack: int, env_count: int, length: int, end: float) -> None:
    replay = SequenceReplay(Numbers(), env_count * length, env_count, stack)
    history = History(replay, np.random.default_rng([stack, env_count, length]))
    found, ends = dict.fromkeys((1, 3, 5), 0), 0
    for step in range(150):
        history.step(end)
        if step == 90:
            history.reload()
        for n in found:
            if history.rng.random() < 0.3:  # so that much, little or nothing has happened since the last draw
                random_only = bool(history.rng.random() < 0.7)
                ours, theirs = np.random.default_rng(step), np.random.default_rng(step)
                batch = history.replay.sample_n_step(ours, BATCH, n, GAMMA, random_only)
                ends += check(history, batch, history.draw(theirs, n, random_only), n)
                assert ours.bit_generator.state == theirs.bit_generator.state
                found[n] += batch is not None
    assert all(count > 0 for n, count in found.items() if length > n + stack)
    assert ends > 0 or length < 5


def test_arrays_taken_up_replace_what_was_known() -> None:
    ours, other = (History(SequenceReplay(Numbers(), 40, 2), np.random.default_rng(1)) for _ in range(2))
    for _ in range(30):
        ours.step(end=0.1)
    other.entries = [[], []]
    for env, kept in enumerate(ours.entries):  # as many entries, but of one episode and all random
        for number in range(len(kept)):
            other.replay.add(np.array([env]), np.array([number]), np.zeros(1, int), np.ones(1, bool))
            other.entries[env].append(Entry(number, 0, True, 0))
    assert ours.replay.sample_n_step(np.random.default_rng(0), BATCH, 3, GAMMA) is not None
    ours.replay.load_state(other.replay.state())
    batch = ours.replay.sample_n_step(np.random.default_rng(0), BATCH, 3, GAMMA)
    check(other, batch, other.draw(np.random.default_rng(0), 3, True), 3)
