"""The paper's ablation of the metric (appendix B.1): landmarks are told apart by SPTM's network R instead of SFS.

`Reachability` is R itself and says how near two observations are. `ReachabilityStates` puts R's code of each
observation beside its psi: R says which landmark is near, the local policy still follows SFS.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sfl.api import AgentState, Array, EnvSpec, Observation
from sfl.baselines.networks import FixedCodes, FixedHead, Retrieval, start_from
from sfl.fast.cuda import to_device
from sfl.method.config import MetricConfig
from sfl.method.states import FrameStates, PsiSource
from sfl.nn.weights import module_state


class Reachability:
    """R, which learns no more: the chance that the second of two observations is a few decisions from the first.

    Behind its unit psi a key has the halves of R's head (`FixedHead.halves`), and these are compared.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self._retrieval, on_gpu = retrieval, retrieval.device.type == "cuda"
        self.codes = FixedCodes(retrieval)
        self._head = FixedHead(retrieval.network.head, torch.bfloat16 if on_gpu else torch.float32)
        self.extra = 2 * self._head.size
        """Numbers of a key behind its unit psi."""

    @classmethod
    def start(cls, config: MetricConfig, spec: EnvSpec, seed: int, device: torch.device) -> Reachability:
        """R of the file that the settings name."""
        retrieval = Retrieval(config.retrieval, spec, seed, device)
        if config.networks:
            start_from(config.networks, [retrieval])
        return cls(retrieval.snapshot())

    def halves(self, codes: Tensor) -> Tensor:
        """What is compared of codes [B, C]."""
        return self._head.halves(codes)

    def table(self, keys: Tensor, others: Tensor) -> Tensor:
        """The chance [B, N] for each of the keys [B, K] and each of [N, K]."""
        return self._head.table(keys[:, -self.extra :], others[:, -self.extra :])

    def rows(self, keys: Tensor, others: Tensor) -> Tensor:
        """The chance [B] for the keys [B, K] in the same rows."""
        return self._head.each(keys[:, -self.extra :], others[:, -self.extra :])

    def write_state(self, state: AgentState) -> None:
        """R itself: a checkpoint is then complete, whatever becomes of the file."""
        state.networks |= module_state(self._retrieval.network, self._retrieval.name)

    def restored(self, state: AgentState) -> Reachability:
        """R as it was when the checkpoint was written; policies made by this one keep this one."""
        other = self._retrieval.snapshot()
        other.take(state.networks)
        return Reachability(other)


class ReachabilityStates(PsiSource):
    """States as psi knows them, with R's code of the newest observation."""

    def __init__(self, source: PsiSource, reachability: Reachability) -> None:
        self._source, self._reachability = source, reachability
        self.dim, self.device = source.dim + reachability.extra, source.device
        # A state over frames is features: the code stands behind them. Else it is the observation, which R can look at.
        self._width = source.state_dim if isinstance(source, FrameStates) else None

    def begin_episode(self, env_index: int) -> None:
        """What this environment showed before is of another episode."""
        self._source.begin_episode(env_index)

    def perceive(self, observations: Array, env_indices: Array) -> Array | Tensor:
        """States [B, ...] of environments, given what they show now; good until the next call."""
        return self._with_codes(self._source.perceive(observations, env_indices), observations)

    def goal_state(self, goal: Observation) -> Array | Tensor:
        """The state [1, ...] that a picture of the goal shows."""
        return self._with_codes(self._source.goal_state(goal), goal[None])

    def psi(self, states: Array | Tensor) -> Tensor:
        """psi(s, a) of every action, [B, A, F]."""
        return self._source.psi(states[:, : self._width])

    def directions(self, states: Array | Tensor) -> tuple[Tensor, Tensor]:
        """Unit psi(s, a) [B, A, F] and the keys [B, K]; good until the next call."""
        units, psi = self._source.directions(states[:, : self._width])
        return units, self._with_halves(psi, states)

    def keys(self, states: Array | Tensor) -> Tensor:
        """Unit psi(s), and the halves of R's head behind it, [B, K]."""
        return self._with_halves(self._source.keys(states[:, : self._width]), states)

    def _with_codes(self, states: Array | Tensor, observations: Array) -> Array | Tensor:
        if self._width is None:
            return states
        assert isinstance(states, Tensor)
        return torch.cat([states, self._reachability.codes(observations)], dim=1)

    def _with_halves(self, psi: Tensor, states: Array | Tensor) -> Tensor:
        return torch.cat([psi, self._reachability.halves(self._codes(states))], dim=1)

    def _codes(self, states: Array | Tensor) -> Tensor:
        if self._width is None:
            assert not isinstance(states, Tensor)
            return self._reachability.codes(states)
        codes = states[:, self._width :]
        return codes if isinstance(codes, Tensor) else to_device(codes, self.device)
