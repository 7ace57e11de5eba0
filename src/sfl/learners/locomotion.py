"""L, the locomotion network: which action leads from here to there? (SPTM, Savinov et al., 2018)

It is inverse dynamics over a few decisions: what was seen before, what is seen now and what was seen a little later
give the action that was taken now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, functional

from sfl.core.config import require
from sfl.data.types import Array, EnvSpec, Metrics
from sfl.learners.device import Fetched, to_device
from sfl.learners.trained import Trained
from sfl.nn.frame_encoders import Kind
from sfl.nn.observation_networks import action_network

VIEWS = 3
"""Previous, current and goal."""

ODDS = "probability"
"""What `Chooser.odds` are called."""


@dataclass(frozen=True)
class LocomotionConfig:
    """The locomotion network L, and how it learns."""

    ahead: int = 5
    """Goals are 1 to this many decisions ahead."""
    batch_size: int = 64
    """Examples in a batch."""
    encoder: Kind = "resnet18"
    """What looks at the three frames (other observations have small encoders of their own)."""
    dim: int = 64
    """Features of observations that are no frames."""
    learning_rate: float = 1e-4
    """Adam's step size."""

    def __post_init__(self) -> None:
        for name in ("ahead", "batch_size", "dim"):
            value = getattr(self, name)
            require(value >= 1, f"locomotion.{name.replace('_', '-')} must be at least 1, got {value}.")
        require(self.learning_rate > 0, f"locomotion.learning-rate must be positive, got {self.learning_rate}.")


@dataclass(frozen=True)
class Chases:
    """A moment of a walk with the one before it and one a little later."""

    walks: Array  # [B]
    times: Array  # [3, B] decisions since the walk's start: previous, current, goal


class ChaseDraw:
    """Draws batches of them from walks of equal length."""

    def __init__(self, config: LocomotionConfig, walks: int, length: int) -> None:
        """`walks`: their number; `length`: moments of a walk."""
        require(length >= 2, f"Walks must have at least 2 moments for locomotion, got {length}.")
        self._config, self._walks, self._length = config, walks, length

    def __call__(self, rng: np.random.Generator) -> Chases:
        """One batch; a walk's first moment is its own previous one."""
        walks = rng.integers(self._walks, size=self._config.batch_size)
        now = rng.integers(self._length - 1, size=len(walks))
        goals = now + 1 + rng.integers(np.minimum(self._config.ahead, self._length - 1 - now))
        return Chases(walks, np.stack([np.maximum(now - 1, 0), now, goals]))


def side_by_side(views: Tensor) -> Tensor:
    """Views [3, B, ..., C] in one observation each [B, ..., 3C]."""
    return torch.cat(views.unbind(0), dim=-1)


def locomotion_loss(scores: Tensor, actions: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of scores [B, A] against the actions [B] that were taken, mean over examples."""
    loss = functional.cross_entropy(scores.float(), actions)
    accuracy = (scores.detach().argmax(1) == actions).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


class Locomotion(Trained[Module]):
    """L, its optimiser and its gradient step."""

    def __init__(self, config: LocomotionConfig, spec: EnvSpec, seed: int, device: torch.device | str) -> None:
        self.config = config
        shape, count = spec.observation_shape, spec.action_count

        def make() -> Module:
            return action_network(shape, config.encoder, config.dim, VIEWS, count)

        super().__init__("locomotion", make, config.learning_rate, seed, device)

    @torch.no_grad()
    def scores(self, views: Tensor) -> Tensor:
        """Logits [B, A] of the actions, given previous, current and goal observations [3, B, ...]."""
        with self.precision():
            scores: Tensor = self.network(side_by_side(views))
        return scores.float()

    def draw(self, views: Tensor, rng: np.random.Generator) -> Array:
        """Actions [B] drawn from the softmax of the scores."""
        scores = self.scores(views)
        # The best of logits with Gumbel noise is a draw from their softmax; all chance is drawn where it always is.
        noise = to_device(rng.gumbel(size=tuple(scores.shape)).astype(np.float32), scores.device)
        return np.asarray(Fetched((scores + noise).argmax(1)).wait().numpy())

    def update(self, views: Tensor, actions: Array) -> Metrics:
        """One gradient step on observations [3, B, ...] and the actions [B] that were taken (`WalkReplay.chases`)."""
        taken = to_device(actions, self.device)
        return self.descend(lambda: locomotion_loss(self.network(side_by_side(views)), taken))


class Chooser:
    """Asks L for actions, and remembers what it asked last: whoever wants the odds pays for them afterwards."""

    def __init__(self, locomotion: Locomotion, rng: np.random.Generator) -> None:
        self._locomotion, self._rng = locomotion, rng
        self.forget()

    def forget(self) -> None:
        """Another decision begins."""
        self._envs: list[int] = []
        self._views: Tensor | None = None

    def draw(self, views: Tensor, envs: Sequence[int]) -> Array:
        """Actions [B] of environments, given previous, current and goal observations [3, B, ...]."""
        self._envs, self._views = list(envs), views
        return self._locomotion.draw(views, self._rng)

    def odds(self, env: int) -> tuple[float, ...]:
        """The probability of each action in this decision; empty where L was not asked."""
        if self._views is None or env not in self._envs:
            return ()
        chances = functional.softmax(self._locomotion.scores(self._views), dim=1)
        return tuple(chances[self._envs.index(env)].tolist())


class LastViews:
    """What each environment showed at the decision before: L wants to see movement."""

    def __init__(self, spec: EnvSpec, device: torch.device) -> None:
        kind = torch.from_numpy(np.zeros(0, spec.observation_dtype)).dtype
        self._rows = torch.zeros(0, *spec.observation_shape, dtype=kind, device=device)
        self._known = np.zeros(0, dtype=bool)

    def begin(self, env_index: int) -> None:
        """An episode of this environment starts."""
        more = env_index + 1 - len(self._known)
        if more > 0:
            self._rows = torch.cat([self._rows, self._rows.new_zeros(more, *self._rows.shape[1:])])
            self._known = np.append(self._known, np.zeros(more, dtype=bool))
        self._known[env_index] = False

    def push(self, observations: Array, env_indices: Array) -> Tensor:
        """Previous and current observations [2, B, ...]; an episode's first is its own previous one."""
        places = to_device(env_indices, self._rows.device)
        now = to_device(observations, self._rows.device)
        known = to_device(self._known[env_indices], self._rows.device)
        before = torch.where(known.view(-1, *[1] * (now.dim() - 1)), self._rows.index_select(0, places), now)
        self._rows.index_copy_(0, places, now)
        self._known[env_indices] = True
        return torch.stack([before, now])

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"last_views": self._rows.cpu().numpy().copy(), "last_views_known": self._known.copy()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take up arrays made by `state`."""
        self._rows = torch.from_numpy(state["last_views"].copy()).to(self._rows.device)
        self._known = state["last_views_known"].copy()
