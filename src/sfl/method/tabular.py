"""One-hot phi and exact psi (Eq. 1 and 4): what is left of the method's errors are those of the graph.

Every distinct observation is a state of its own, so psi is the successor representation M of Eq. 1, solved from counts
of transitions, and SFS is that of Eq. 4.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import torch
from torch import Tensor

from sfl.api import AgentState, Array, EnvSpec, Metrics, Transitions
from sfl.errors import SflError
from sfl.method.config import ExactConfig
from sfl.method.states import GridStates


class TabularRepresentation(GridStates):
    """Numbers every distinct observation, counts its transitions, and solves psi = inv(I - gamma P) from them."""

    def __init__(self, config: ExactConfig, spec: EnvSpec) -> None:
        self.config, self.dim, self.device = config, config.capacity, torch.device("cpu")
        self._action_count = spec.action_count
        self._numbers: dict[bytes, int] = {}
        self._rows: list[Array] = []
        self._shape, self._dtype = spec.observation_shape, spec.observation_dtype
        self._counts: Counter[tuple[int, int, int]] = Counter()
        self._psi = np.zeros((0, spec.action_count, 0), dtype=np.float32)

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]; a state never seen when psi was solved is only like itself."""
        result = np.zeros((len(states), self._action_count, self.dim), dtype=np.float32)
        for row, observation in enumerate(np.asarray(states)):
            number = self._number(observation)
            if number < len(self._psi):
                result[row, :, : self._psi.shape[2]] = self._psi[number]
            else:
                result[row, :, number] = 1.0
        return torch.from_numpy(result)

    def observe(self, transitions: Transitions, random: Array) -> None:
        """Count the transition; dynamics do not depend on the policy, so all of them serve."""
        numbers = [self._number(observation) for observation in transitions.observations]
        followers = [self._number(observation) for observation in transitions.next_observations]
        self._counts.update(zip(numbers, transitions.actions.tolist(), followers, strict=True))

    def update(self, env_steps: int, new_steps: int) -> Metrics:
        """Solve psi again when it is due."""
        every = self.config.solve_every
        if env_steps // every > (env_steps - new_steps) // every:
            self._psi = solve_psi(self._counts, len(self._rows), self._action_count, self.config.gamma)
        return {}

    def snapshot(self) -> TabularRepresentation:
        """A copy that later learning does not change."""
        other = TabularRepresentation(self.config, EnvSpec(self._shape, self._dtype, self._action_count))
        other._numbers, other._rows, other._psi = dict(self._numbers), list(self._rows), self._psi
        return other

    def write_state(self, state: AgentState) -> None:
        """Observations in the order of their numbers, counts, and psi as solved last.

        Observations are written as bytes: a small checkpoint halves the precision of numbers, and only an identical
        observation is known again.
        """
        size = math.prod(self._shape) * np.dtype(self._dtype).itemsize
        packed = np.frombuffer(b"".join(row.tobytes() for row in self._rows), np.uint8).reshape(len(self._rows), size)
        counts = np.array([(*key, count) for key, count in sorted(self._counts.items())], dtype=np.int64)
        state.networks |= {"tabular.psi": self._psi, "tabular.observations": packed}
        state.replay |= {"tabular.counts": counts.reshape(-1, 4)}

    def load_state(self, state: AgentState) -> None:
        """Go on with what `write_state` wrote; a slim copy without counts still acts."""
        packed = state.networks["tabular.observations"]
        self._rows = list(np.frombuffer(packed.tobytes(), self._dtype).reshape(len(packed), *self._shape))
        self._numbers = {row.tobytes(): number for number, row in enumerate(self._rows)}
        self._counts = Counter({(s, a, t): n for s, a, t, n in state.replay["tabular.counts"].tolist()})
        self._psi = state.networks["tabular.psi"].astype(np.float32)

    def _number(self, observation: Array) -> int:
        key = observation.tobytes()
        if key not in self._numbers:
            if len(self._rows) == self.dim:
                raise SflError(f"There are more than {self.dim} distinct observations; raise --agent.exact.capacity.")
            self._numbers[key] = len(self._rows)
            self._rows.append(observation.copy())
        return self._numbers[key]


def solve_psi(counts: Counter[tuple[int, int, int]], states: int, actions: int, gamma: float) -> Array:
    """psi(s, a) = e_s + gamma * sum_t P(t | s, a) M(t), M = inv(I - gamma P); shape [S, A, S].

    An action never tried in a state is taken to change nothing.
    """
    model = np.zeros((states, actions, states))
    for (state, action, follower), count in counts.items():
        model[state, action, follower] = count
    untried = model.sum(2) == 0
    model[untried] = np.eye(states)[np.nonzero(untried)[0]]
    model /= model.sum(2, keepdims=True)
    occupancy = np.linalg.inv(np.eye(states) - gamma * model.mean(1))
    psi = np.eye(states)[:, None, :] + gamma * (model @ occupancy)
    return psi.astype(np.float32)
