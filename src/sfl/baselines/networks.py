"""The networks of SPTM (Savinov et al., 2018), which the controller, SPTM, SGM and Episodic Curiosity share.

In this order: pairs of times of random walks, which are all the supervision there is (no poses); a network with its
optimiser; R, the retrieval network: is one observation within a few decisions of the other? L, the locomotion network:
which action leads from here to there? Both together, as a method starts, trains and keeps them; and both at work, among
the nodes of a memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Module, functional

from sfl.api import GOAL, AgentState, Array, EnvSpec, Metrics, Observation, Transitions
from sfl.baselines.config import LocomotionConfig, NetworkConfig
from sfl.config import require
from sfl.errors import CheckpointError
from sfl.fast.cuda import Fetched, to_device
from sfl.method.config import ReachabilityConfig, RetrievalConfig
from sfl.method.states import FrozenEncoder
from sfl.nn.frame_encoders import FrameEncoder, action_network, feature_network
from sfl.nn.weights import adam_state, load_adam, load_module, load_networks, make_adam, module_state
from sfl.replay.store import WalkReplay
from sfl.seeding import draw_seed, generator_state, restore_generator, spawn


@dataclass(frozen=True)
class MomentPairs:
    """Two moments each of one walk. A walk is made in one maze; a maze is a layout in certain textures."""

    mazes: Array  # [B]
    walks: Array  # [B]
    times: Array  # [2, B] decisions since the walk's start
    near: Array  # [B] bool: the two are few decisions apart


def draw_offsets(times: Array, distances: Array, length: int, rng: np.random.Generator) -> Array:
    """Moments so many decisions before or after others [B] of walks of `length`, with equal chance where both exist."""
    sides = np.where(rng.random(len(times)) < 0.5, -1, 1)
    moments = times + sides * distances
    outside = (moments < 0) | (moments >= length)
    return np.asarray(np.where(outside, times - sides * distances, moments))


EPSILON = 1e-8
"""Adam's usual one; SPTM's library has 1e-7, which comes to the same."""
REPORT_EVERY = 50
"""Gradient steps between two looks at the loss on a GPU: one would have to wait for it."""

Network = TypeVar("Network", bound=nn.Module)


class LearnedNetwork(Generic[Network]):
    """A network in evaluation mode, but for its gradient steps."""

    def __init__(
        self, name: str, make: Callable[[], Network], learning_rate: float, seed: int, device: torch.device | str
    ) -> None:
        """`name` stands before everything of it in a checkpoint; its first weights depend on it and the seed alone."""
        self.name, self.device = name, torch.device(device)
        stream = f"init/{name}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw_seed(spawn(seed, [stream])[stream]))
            # Outside of `gradient_step` batch normalization goes by its running statistics.
            self.network = make().to(self.device).eval()
        self._optimiser = make_adam(self.network, learning_rate, EPSILON)
        self.gradient_steps = 0

    def snapshot(self) -> Self:
        """A copy that later learning does not change."""
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network).requires_grad_(False)
        return other

    def on_device(self, observations: Array | Tensor) -> Tensor:
        """Observations where the network is."""
        if isinstance(observations, Tensor):
            return observations.to(self.device)
        return to_device(observations, self.device)

    def precision(self) -> torch.autocast:
        """On a GPU in bf16, with weights and sums in full."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def gradient_step(self, loss_of: Callable[[], tuple[Tensor, dict[str, Tensor]]]) -> Metrics:
        """One gradient step on a loss; its metrics, on a GPU now and then."""
        self.network.train()
        with self.precision():
            loss, metrics = loss_of()
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        self.network.eval()  # as everywhere but in this step
        self.gradient_steps += 1
        if self.device.type == "cuda" and self.gradient_steps % REPORT_EVERY:
            return {}
        return {f"train/{self.name}_{what}": float(value) for what, value in metrics.items()}

    def take(self, arrays: dict[str, Array]) -> None:
        """Become the network of this name among arrays."""
        load_module(self.network, self.name, arrays)

    def write_state(self, state: AgentState) -> None:
        """Network, optimiser and the number of steps."""
        state.networks |= module_state(self.network, self.name)
        state.optimisers |= adam_state(self._optimiser, self.name)
        state.counters[f"{self.name}_gradient_steps"] = self.gradient_steps

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self.take(state.networks)
        load_adam(self._optimiser, self.name, state.optimisers)
        self.gradient_steps = int(state.counters[f"{self.name}_gradient_steps"])


PAIRS_AT_ONCE = 1 << 17
"""Pairs of codes that pass the head together where all are compared with all: of more the memory would not hold."""


class ReachabilityDraw:
    """Draws batches of pairs, one half near and the other far."""

    def __init__(self, config: ReachabilityConfig, mazes: Array, length: int) -> None:
        """`mazes` [W]: the maze of each walk; `length`: moments of a walk."""
        shortest = 2 * (config.far + 1) + 1  # then every moment has some that are far enough
        require(length >= shortest, f"Walks must have at least {shortest} moments for reachability, got {length}.")
        self.config, self._mazes, self._length = config, mazes, length

    def __call__(self, rng: np.random.Generator) -> MomentPairs:
        """One batch, positives first."""
        count = self.config.batch_size
        walks = rng.integers(len(self._mazes), size=count)
        times = rng.integers(self._length, size=count)
        near = np.arange(count) < count // 2
        longest = np.maximum(times, self._length - 1 - times)
        least, most = np.where(near, 1, self.config.far + 1), np.where(near, self.config.near, longest)
        others = draw_offsets(times, rng.integers(least, most + 1), self._length, rng)
        return MomentPairs(self._mazes[walks], walks, np.stack([times, others]), near)


class ReachabilityHead(nn.Sequential):
    """Two codes side by side [B, 2F] to the scores of far and near [B, 2]."""

    def __init__(self, dim: int, hidden: int, layers: int) -> None:
        parts: list[nn.Module] = [nn.BatchNorm1d(2 * dim), nn.ReLU()]
        size = 2 * dim
        for _ in range(layers):
            parts += [nn.Linear(size, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
            size = hidden
        super().__init__(*parts, nn.Linear(size, 2))

    def table(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the codes [B, F] is near each of [N, F]; without gradient, in evaluation mode."""
        left, right = self._sides(first, second)
        rows = max(1, at_once // max(1, len(second)))
        parts = [self._near(part.unsqueeze(1) + right) for part in left.split(rows)]
        return torch.cat(parts) if len(first) and len(second) else first.new_zeros(len(first), len(second))

    def rows(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the codes [B, F] is near those of its own row of [B, N, F]; as `table`."""
        left, right = self._sides(first, second)
        rows = max(1, at_once // second.shape[1])
        pairs = zip(left.split(rows), right.split(rows), strict=True)
        return torch.cat([self._near(some.unsqueeze(1) + others) for some, others in pairs])

    def _sides(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Up to its first product the head treats the two codes apart: what is added there, done once for each."""
        product = self[2]
        assert isinstance(product, nn.Linear)
        scales, shifts = (part.chunk(2) for part in _affine(self[0]))
        weights = product.weight.chunk(2, dim=1)
        left, right = (
            functional.relu(codes * scales[side] + shifts[side]) @ weights[side].T
            for side, codes in enumerate((first, second))
        )
        return left, right + product.bias

    def _near(self, sums: Tensor) -> Tensor:
        """Chance [B, N] of being near, given the sums [B, N, H] of the first product."""
        rest = nn.Sequential(*list(self)[3:])
        scores: Tensor = rest(sums.flatten(0, 1)).float()
        return (scores[:, 1] - scores[:, 0]).sigmoid().view(sums.shape[:2])


def _affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """What batch normalization in evaluation mode multiplies by and then adds."""
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return scale, norm.bias - norm.running_mean * scale


class FixedHead:
    """A head that learns no more, for many pairs of the same observations.

    What it does with either code alone is done once for each: that are the code's halves. The rest of a pair is bare
    products: batch normalization is folded into them, and of the two scores only their difference is computed.
    """

    @torch.no_grad()
    def __init__(self, head: ReachabilityHead, dtype: torch.dtype = torch.float32) -> None:
        """`dtype`: what pairs are computed in."""
        self._dtype = dtype
        self._scales, self._shifts = (part.chunk(2) for part in _affine(head[0]))
        layers = list(head)[2:]
        products = [_folded(product, norm) for product, norm in zip(layers[:-1:3], layers[1::3], strict=True)]
        last = layers[-1]
        assert isinstance(last, nn.Linear)
        products.append((last.weight[1:] - last.weight[:1], last.bias[1:] - last.bias[:1]))
        (weight, self._bias), *rest = products
        self._weights = weight.chunk(2, dim=1)
        # The last in full precision: rounded, many that are near would be equally near, and none of them the nearest.
        kinds = [dtype] * (len(rest) - 1) + [torch.float32]
        self._rest = [(weight.T.to(kind), bias.to(kind)) for (weight, bias), kind in zip(rest, kinds, strict=False)]
        self.size = len(self._bias)

    def halves(self, codes: Tensor) -> Tensor:
        """What a pair is made of, [B, 2 * size]: of each code [B, F] as the first of a pair, and as the second."""
        first, second = (
            functional.relu(codes * self._scales[side] + self._shifts[side]) @ self._weights[side].T for side in (0, 1)
        )
        return torch.cat([first, second + self._bias], dim=1)

    def table(self, first: Tensor, second: Tensor, at_once: int = PAIRS_AT_ONCE) -> Tensor:
        """Chance [B, N] that each of the halves [B, 2 * size] is near each of [N, 2 * size]."""
        if not len(first) or not len(second):
            return first.new_zeros(len(first), len(second))
        some, others = self._sides(first, second)
        rows = max(1, at_once // len(second))
        parts = [self._chance((part.unsqueeze(1) + others).flatten(0, 1)) for part in some.split(rows)]
        return torch.cat(parts).view(len(first), len(second))

    def each(self, first: Tensor, second: Tensor) -> Tensor:
        """Chance [B] that each of the halves [B, 2 * size] is near the other in its row."""
        some, others = self._sides(first, second)
        return self._chance(some + others)

    def _sides(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first[:, : self.size].to(self._dtype), second[:, self.size :].to(self._dtype)

    def _chance(self, sums: Tensor) -> Tensor:
        """Chance [P] of being near, given the sums [P, size] of the first product, which are overwritten."""
        for weight, bias in self._rest:
            sums = torch.addmm(bias, sums.relu_().to(weight.dtype), weight)
        return sums.squeeze(1).float().sigmoid()


def _folded(product: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a product that is followed by batch normalization in evaluation mode."""
    assert isinstance(product, nn.Linear)
    scale, shift = _affine(norm)
    return product.weight * scale.unsqueeze(1), product.bias * scale + shift


def reachability_loss(scores: Tensor, near: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the two classes, mean over pairs. Shapes: scores [B, 2] of far and near, near [B] bool."""
    loss = functional.cross_entropy(scores.float(), near.long())
    accuracy = (scores.detach().argmax(1) == near).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


class Reachability(nn.Module):
    """The objective as the trainer sees it, with the weights of the head."""

    def __init__(self, config: ReachabilityConfig, dim: int) -> None:
        super().__init__()
        self.head = ReachabilityHead(dim, config.hidden, config.layers)

    def forward(self, encoder: FrameEncoder, frames: Tensor, pairs: MomentPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of frames [2, B, H, W, 3]."""
        first, second = encoder.raw(frames.flatten(0, 1)).chunk(2)
        scores = self.head(torch.cat([first, second], dim=1))
        return reachability_loss(scores, torch.from_numpy(pairs.near).to(scores.device))


ENCODE_AT_ONCE = 1_024
"""Observations that are encoded together; of more the memory would not hold what is in between."""


class RetrievalNetwork(nn.Module):
    """One encoder for both observations, and a head for the two codes."""

    def __init__(self, config: RetrievalConfig, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder, self.dim = feature_network(shape, config.encoder, config.dim)
        self.head = ReachabilityHead(self.dim, config.hidden, config.layers)

    def forward(self, triplets: Tensor, extra_negatives: int = 0) -> Tensor:
        """Scores [(2 + extra_negatives) B, 2] of far and near, given [3, B, ...]: of some with those near, with
        those far, and with what is near to others of the batch."""
        some, near, far = self.encoder(triplets.flatten(0, 1)).chunk(3)
        others = [near, far, *(near.roll(places, 0) for places in range(1, extra_negatives + 1))]
        scores: Tensor = self.head(torch.cat([torch.cat([some, other], dim=1) for other in others]))
        return scores


class Retrieval(LearnedNetwork[RetrievalNetwork]):
    """R, its optimiser and its gradient step."""

    def __init__(self, config: RetrievalConfig, spec: EnvSpec, seed: int, device: torch.device | str) -> None:
        self.config = config
        shape = spec.observation_shape
        super().__init__("retrieval", lambda: RetrievalNetwork(config, shape), config.learning_rate, seed, device)

    @property
    def dim(self) -> int:
        """Features of an observation."""
        return self.network.dim

    @torch.no_grad()
    def features(self, observations: Array | Tensor) -> Tensor:
        """Features [B, F] of observations [B, ...]."""
        if not len(observations):  # not every kernel has an answer to nothing
            return torch.zeros(0, self.dim, device=self.device)
        parts = self.on_device(observations).split(ENCODE_AT_ONCE)
        with self.precision():
            return torch.cat([self.network.encoder(part).float() for part in parts])

    @torch.no_grad()
    def reachable(self, first: Tensor, second: Tensor) -> Tensor:
        """Chance [B, N] that what has features [N, F] is within `near` decisions of what has features [B, F]."""
        with self.precision():
            return self.network.head.table(first, second)

    @torch.no_grad()
    def reachable_each(self, first: Tensor, second: Tensor) -> Tensor:
        """The same [B, N] for features [B, F], each beside others of its own [B, N, F]."""
        with self.precision():
            return self.network.head.rows(first, second)

    def update(self, triplets: Tensor, extra_negatives: int = 0) -> Metrics:
        """One gradient step on observations [3, B, ...]: some, others near them and others far from them, which are
        B positive pairs and B negative ones (`WalkReplay.triplets` draws them); and `extra_negatives` B more
        negative ones of the same observations, which only the head sees again. Metrics are of the first two."""
        count = triplets.shape[1]
        near = torch.arange((2 + extra_negatives) * count, device=self.device) < count

        def judged() -> tuple[Tensor, dict[str, Tensor]]:
            scores = self.network(triplets, extra_negatives)
            even = reachability_loss(scores[: 2 * count], near[: 2 * count])
            return (reachability_loss(scores, near)[0], even[1]) if extra_negatives else even

        return self.gradient_step(judged)


class FixedCodes:
    """R's features of observations as R is now; with every gradient step of R there must be a new one.

    Frames pass its encoder without batch normalization, on a GPU in bf16 and as a graph.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self._retrieval, encoder = retrieval, retrieval.network.encoder
        self._encoder = FrozenEncoder(encoder.folded(), retrieval.device) if isinstance(encoder, FrameEncoder) else None

    def __call__(self, observations: Array | Tensor) -> Tensor:
        """Features [B, F] of observations [B, ...]; good until the next call."""
        return self._retrieval.features(observations) if self._encoder is None else self._encoder(observations)


class ReachabilityField:
    """What a policy says of two views: the chance, by its frozen R, that they are a few decisions apart."""

    score, score_range = "reachability", (0.0, 1.0)
    _retrieval: Retrieval

    def embed(self, observations: Array) -> Array:
        """Features [N, F] of observations [N, ...]."""
        return np.asarray(self._retrieval.features(observations).cpu().numpy())

    def compare(self, embedded: Array, references: Array) -> Array:
        """[N, R] chance that the reference is within `near` decisions of the view."""
        views, others = (to_device(rows, self._retrieval.device) for rows in (embedded, references))
        return np.asarray(self._retrieval.reachable(views, others).cpu().numpy())


VIEWS = 3
"""Previous, current and goal."""

PROBABILITY = "probability"
"""What `ActionSampler.odds` are called."""


@dataclass(frozen=True)
class ActionExamples:
    """A moment of a walk with the one before it and one a little later."""

    walks: Array  # [B]
    times: Array  # [3, B] decisions since the walk's start: previous, current, goal


class ActionExampleDraw:
    """Draws batches of them from walks of equal length."""

    def __init__(self, config: LocomotionConfig, walks: int, length: int) -> None:
        """`walks`: their number; `length`: moments of a walk."""
        require(length >= 2, f"Walks must have at least 2 moments for locomotion, got {length}.")
        self._config, self._walks, self._length = config, walks, length

    def __call__(self, rng: np.random.Generator) -> ActionExamples:
        """One batch; a walk's first moment is its own previous one."""
        walks = rng.integers(self._walks, size=self._config.batch_size)
        now = rng.integers(self._length - 1, size=len(walks))
        goals = now + 1 + rng.integers(np.minimum(self._config.ahead, self._length - 1 - now))
        return ActionExamples(walks, np.stack([np.maximum(now - 1, 0), now, goals]))


def side_by_side(views: Tensor) -> Tensor:
    """Views [3, B, ..., C] in one observation each [B, ..., 3C]."""
    return torch.cat(views.unbind(0), dim=-1)


def locomotion_loss(scores: Tensor, actions: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of scores [B, A] against the actions [B] that were taken, mean over examples."""
    loss = functional.cross_entropy(scores.float(), actions)
    accuracy = (scores.detach().argmax(1) == actions).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": accuracy}


class Locomotion(LearnedNetwork[Module]):
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
        """One gradient step on the observations [3, B, ...] and actions [B] of `WalkReplay.action_examples`."""
        taken = to_device(actions, self.device)
        return self.gradient_step(lambda: locomotion_loss(self.network(side_by_side(views)), taken))


class ActionSampler:
    """Draws actions from L, and keeps what it gave L last: probabilities are computed only when they are asked for."""

    def __init__(self, locomotion: Locomotion, rng: np.random.Generator) -> None:
        self._locomotion, self._rng = locomotion, rng
        self.clear()

    def clear(self) -> None:
        """Another decision begins."""
        self._envs: list[int] = []
        self._views: Tensor | None = None

    def draw(self, views: Tensor, envs: Sequence[int]) -> Array:
        """Actions [B] of environments, given previous, current and goal observations [3, B, ...]."""
        self._envs, self._views = list(envs), views
        return self._locomotion.draw(views, self._rng)

    def probabilities(self, env: int) -> tuple[float, ...]:
        """The probability of each action in this decision; empty where L was not asked."""
        if self._views is None or env not in self._envs:
            return ()
        chances = functional.softmax(self._locomotion.scores(self._views), dim=1)
        return tuple(chances[self._envs.index(env)].tolist())


class PreviousObservations:
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


def take_networks(path: str, arrays: dict[str, Array], networks: Iterable[Retrieval | Locomotion]) -> None:
    """Networks become those of a file at `path`, which holds these arrays."""
    for network in networks:
        try:
            network.take(arrays)
        except CheckpointError as error:
            raise CheckpointError(
                f"{path} holds another {network.name} network than the settings describe; give the encoder, sizes "
                "and actions that it was trained with."
            ) from error


def start_from(path: str, networks: Sequence[Retrieval | Locomotion]) -> None:
    """Networks become those of the same names in a file."""
    take_networks(path, load_networks(path, [network.name for network in networks]), networks)


class Networks:
    """Both networks and, where they learn, the replay that they learn from."""

    def __init__(self, config: NetworkConfig, spec: EnvSpec, seed: int, device: torch.device) -> None:
        self.config, self.device = config, device
        self.retrieval = Retrieval(config.retrieval, spec, seed, device)
        self.locomotion = Locomotion(config.locomotion, spec, seed, device)
        if config.networks:
            start_from(config.networks, [self.retrieval, self.locomotion])
        self._rng = spawn(seed, ["replay"])["replay"]
        self._replay = WalkReplay(spec, config.replay_size, device) if config.updates_per_step else None
        self._due = 0.0

    def observe(self, transitions: Transitions) -> None:
        """Keep a step to learn from."""
        if self._replay is not None:
            self._replay.observe(transitions)

    def update(self, new_steps: int) -> Metrics:
        """The gradient steps that are due after so many more environment steps; fractions are carried over."""
        self._due += new_steps * self.config.updates_per_step
        metrics = Metrics()
        while self._due >= 1.0:
            self._due -= 1.0
            metrics |= self._learn()
        return metrics

    def _learn(self) -> Metrics:
        assert self._replay is not None
        retrieval, locomotion = self.config.retrieval, self.config.locomotion
        triplets = self._replay.triplets(self._rng, retrieval.batch_size // 2, retrieval.near, retrieval.far)
        examples = self._replay.action_examples(self._rng, locomotion.batch_size, locomotion.ahead)
        metrics = Metrics()
        if triplets is not None:
            metrics |= self.retrieval.update(triplets, self.config.extra_negatives)
        if examples is not None:
            metrics |= self.locomotion.update(*examples)
        steps = self.retrieval.gradient_steps + self.locomotion.gradient_steps
        return metrics | {"train/gradient_steps": float(steps)}

    def write_state(self, state: AgentState) -> None:
        """Networks, optimisers, replay, generator and what is due."""
        self.retrieval.write_state(state)
        self.locomotion.write_state(state)
        if self._replay is not None:
            state.replay |= self._replay.state()
        state.generators["replay"] = generator_state(self._rng)
        state.counters["due"] = self._due

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self.retrieval.load_state(state)
        self.locomotion.load_state(state)
        if self._replay is not None:
            self._replay.load_state(state.replay)
        restore_generator(self._rng, state.generators["replay"])
        self._due = state.counters["due"]


@dataclass(frozen=True)
class NodeViews:
    """What was seen at each node, and R's features of it."""

    observations: Tensor  # [N, ...]
    features: Tensor  # [N, F]

    @classmethod
    def of(cls, observations: Array, retrieval: Retrieval) -> NodeViews:
        """Of observations [N, ...] in an order that stays."""
        seen = to_device(observations, retrieval.device)
        return cls(seen, retrieval.features(seen))

    def __len__(self) -> int:
        return len(self.features)

    def at(self, nodes: Array) -> NodeViews:
        """Some of them, [K], in that order."""
        places = to_device(nodes, self.features.device)
        return NodeViews(self.observations[places], self.features[places])

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"observations": self.observations.cpu().numpy(), "features": self.features.cpu().numpy()}

    @classmethod
    def from_state(cls, state: dict[str, Array], device: torch.device) -> NodeViews:
        """Take up arrays made by `state`."""
        return cls(to_device(state["observations"], device), to_device(state["features"], device))


class NodeWalker:
    """Several environments among the nodes of a memory: how near these are by R, and the way to one of them by L."""

    def __init__(self, networks: tuple[Retrieval, Locomotion], spec: EnvSpec, rng: np.random.Generator) -> None:
        self._retrieval, self._sampler = networks[0], ActionSampler(networks[1], rng)
        self._views = PreviousObservations(spec, self._retrieval.device)
        self._goals: dict[int, tuple[Tensor, Tensor]] = {}  # what the goal looks like, and its features

    def begin(self, env_index: int, goal: Observation | None, nodes: NodeViews) -> Array | None:
        """An episode starts; R of all nodes with the goal [N], where there is one."""
        self._views.begin(env_index)
        self._goals.pop(env_index, None)
        if goal is None:
            return None
        picture = to_device(goal, self._retrieval.device)
        features = self._retrieval.features(picture.unsqueeze(0))
        self._goals[env_index] = (picture, features[0])
        return self._retrieval.reachable(features, nodes.features)[0].cpu().numpy()

    def nearness(self, observations: Array, env_indices: Array, nodes: NodeViews) -> tuple[Tensor, Array, Array]:
        """Previous and current observations [2, B, ...], R of these with all nodes [B, N], and with their goals [B], 0
        where there is none."""
        views, envs = self._views.push(observations, env_indices), env_indices.tolist()
        features = self._retrieval.features(views[1])
        goals = torch.stack([self._goals[env][1] if env in self._goals else features[0] for env in envs])
        chances = self._retrieval.reachable(features, torch.cat([nodes.features, goals])).cpu().numpy()
        has_goal = np.array([env in self._goals for env in envs])
        return views, chances[:, : len(nodes)], np.where(has_goal, chances[:, len(nodes) :].diagonal(), 0.0)

    def clear(self) -> None:
        """Another decision begins."""
        self._sampler.clear()

    def probabilities(self, env_index: int) -> tuple[float, ...]:
        """The probability of each action in this decision; empty where L was not asked."""
        return self._sampler.probabilities(env_index)

    def walk(
        self, views: Tensor, env_indices: Array, targets: Sequence[int | None], nodes: NodeViews
    ) -> tuple[list[int], Array]:
        """The rows [K] that have a target, a node or `GOAL`, and actions [K] drawn from L, which lead there."""
        rows = [row for row, target in enumerate(targets) if target is not None]
        if not rows:
            return rows, np.zeros(0, np.int64)
        envs = env_indices.tolist()
        wanted = torch.stack([self._picture(envs[row], targets[row], nodes) for row in rows])
        asked = torch.cat([views[:, rows], wanted.unsqueeze(0)])
        return rows, self._sampler.draw(asked, [envs[row] for row in rows])

    def _picture(self, env: int, target: int | None, nodes: NodeViews) -> Tensor:
        return self._goals[env][0] if target == GOAL else nodes.observations[target]

    def write_state(self, state: AgentState) -> None:
        """What was seen last; goals belong to a policy."""
        state.replay |= self._views.state()

    def load_state(self, state: AgentState) -> None:
        """Everything that `write_state` wrote."""
        self._views.load_state(state.replay)
