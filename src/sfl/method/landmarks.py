"""The landmarks and where the agent is among them (section 4.2; Algorithm 2, lines 3 and 7; appendix D.1).

First `LandmarkSet`, the numbers that the graph knows landmarks by. Then `Landmarks`: their observations and psi, by
which states are compared with them, and `Localization`: at which landmark each of several agents is. How states become
landmarks is in candidates.py, which landmarks stand for several places in aliasing.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sfl.api import GOAL, Array, Decision, Observation
from sfl.fast.cuda import Fetched, to_device
from sfl.fast.median import SlidingMedian
from sfl.method.aliasing import Aliasing
from sfl.method.config import EXACT, LandmarkConfig
from sfl.method.reachability import Reachability
from sfl.method.states import PsiSource, Representation
from sfl.method.successor_features import sfs


class LandmarkSet:
    """Landmarks by index, in the order in which they were added; how often the agent was at each."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._visits = np.zeros(limit, dtype=np.int64)
        self._origin = np.full(limit, -1, dtype=np.int64)
        self._added_at = np.full(limit, -1, dtype=np.int64)

    @property
    def visits(self) -> Array:
        """[L] decisions at which the agent was localized to each landmark."""
        return self._visits[: self.count]

    @property
    def origin(self) -> Array:
        """[L] number of the environment step whose observation became the landmark."""
        return self._origin[: self.count]

    @property
    def added_at(self) -> Array:
        """[L] environment steps at which each landmark joined the graph."""
        return self._added_at[: self.count]

    @property
    def is_full(self) -> bool:
        """No room without replacing one."""
        return self.count >= self.limit

    def add(self, origin: int, step: int) -> int:
        """A new landmark; returns its index."""
        if self.is_full:
            raise IndexError(f"the landmark set is full ({self.limit}); replace one instead")
        self.count += 1
        self.replace(self.count - 1, origin, step)
        return self.count - 1

    def replace(self, index: int, origin: int, step: int) -> None:
        """Another state takes over an index; nothing of the old one stays."""
        if not 0 <= index < self.count:
            raise IndexError(f"landmark {index} does not exist; there are {self.count}")
        self._visits[index] = 0
        self._origin[index] = origin
        self._added_at[index] = step

    def visit(self, index: int) -> None:
        """The agent was localized to this landmark at one decision."""
        self._visits[index] += 1

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        return {"visits": self.visits, "origin": self.origin, "added_at": self.added_at}

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on with arrays made by `state`."""
        self.count = len(state["visits"])
        for name in ("visits", "origin", "added_at"):
            getattr(self, f"_{name}")[: self.count] = state[name]


def localized_at(nearest: int, similarity: float, threshold: float) -> int | None:
    """Algorithm 2, lines 3 and 7: the most similar landmark if its SFS is above delta_local."""
    return nearest if similarity > threshold else None


class Landmarks:
    """The landmarks L with all that is known of each: its observation, its psi, its visits.

    Each is compared by its key: unit psi(s), so that the product of two keys is their SFS (Eq. 6). In the ablation of
    the metric there are numbers of R behind it, and by these they are compared instead.
    """

    def __init__(
        self, config: LandmarkConfig, dim: int, device: torch.device, reachability: Reachability | None = None
    ) -> None:
        """`dim`: numbers of a key."""
        self.config, self.device, self.reachability = config, device, reachability
        self.set = LandmarkSet(config.limit)
        self.observations: list[Observation] = []
        self.keys = torch.zeros(0, dim, device=device)  # [L, K]
        self.medians = SlidingMedian(config.window, device)
        self.aliasing = Aliasing(config, device)
        self._stacked: Array | None = None  # the observations in one array, if they have not changed since
        self._index_of: dict[bytes, int] = {}

    def snapshot(self) -> Landmarks:
        """A copy for other environments that later learning does not change."""
        other = Landmarks(self.config, self.keys.shape[1], self.device, self.reachability)
        other.set.load_state(self.set.state())
        other.observations, other._index_of = list(self.observations), dict(self._index_of)
        other.set_keys(self.keys, same_landmarks=False)
        if len(self.aliasing.aliased):
            other.aliasing.flag(self.aliasing.aliased)
        return other

    @property
    def psi_size(self) -> int:
        """F; in the ablation keys are longer."""
        return self.keys.shape[1] - (0 if self.reachability is None else self.reachability.extra)

    def begin_episode(self, env_index: int) -> None:
        """Similarities that this environment saw before say nothing of where it is now."""
        self.medians.begin_episode(env_index)

    def similarity(self, keys: Tensor) -> Tensor:
        """SFS [B, L] of states with keys [B, K] to all landmarks."""
        return self.compare(keys, self.keys)

    def compare(self, keys: Tensor, others: Tensor) -> Tensor:
        """SFS [B, N] of states with keys [B, K] to those with keys [N, K]; in the ablation what R says of them."""
        return sfs(keys, others) if self.reachability is None else self.reachability.table(keys, others)

    def compare_rows(self, keys: Tensor, others: Tensor) -> Tensor:
        """SFS [B] of each state to the one in the same row."""
        return (keys * others).sum(1) if self.reachability is None else self.reachability.rows(keys, others)

    def localize(
        self,
        source: PsiSource,
        states: Array | Tensor,
        env_indices: Array,
        waypoints: Sequence[Sequence[int]] = (),
        goals: Tensor | None = None,
    ) -> Localization:
        """Ask where several environments' agents are (Algorithm 2, lines 3 and 7; medians of SFS: Eq. 12).

        `waypoints`: for each environment the landmarks, or `GOAL`, whose SFS it wants to know as well; `goals` [B, K]:
        the keys of their goals, where any has one.
        """
        psi, keys = source.directions(states)
        similarity = self.medians.slide(self.similarity(keys), env_indices)
        return Localization(self, states, psi, keys, similarity, waypoints, goals)

    def at_same_observation(self, state: Array) -> int | None:
        """The landmark that was made of exactly this state."""
        return self._index_of.get(state.tobytes())

    def add(self, observation: Observation, origin: int, step: int) -> int:
        """A state becomes a landmark; returns its index. Its key comes with the next `set_keys`."""
        index = self.set.add(origin, step)
        self.observations.append(observation)
        self._index_of[observation.tobytes()] = index
        return index

    def replace(self, index: int, observation: Observation, origin: int, step: int) -> None:
        """A state takes the place of a landmark; nothing of that one stays."""
        del self._index_of[self.observations[index].tobytes()]
        self.aliasing.clear(index)
        self.set.replace(index, origin, step)
        self.observations[index], self._stacked = observation, None
        self._index_of[observation.tobytes()] = index

    def remove_all(self) -> None:
        """No landmarks, and nothing known of any."""
        self.set, self.observations, self._stacked = LandmarkSet(self.config.limit), [], None
        self._index_of = {}
        self.aliasing = Aliasing(self.config, self.device)

    def refresh(self, source: PsiSource) -> None:
        """Keys of the landmarks from the present networks (every N_update steps)."""
        if self.observations:
            self.set_keys(source.keys(self._all_observations()), same_landmarks=True)

    def find_aliases(self, source: Representation) -> None:
        """Look visits up in the replay; landmarks around which they disagree stand for several places."""
        found = source.surroundings(self.config.trust_samples, self.config.trust_reach) if self.config.trust else None
        if found is None or not self.observations:
            return
        states, surroundings = found
        best, places = self.similarity(source.keys(states)).max(1)
        visits = torch.nonzero(best > self.config.localize_threshold).squeeze(1)
        self.aliasing.examine(places[visits], surroundings[visits], self.set.count)

    def set_keys(self, keys: Tensor, same_landmarks: bool) -> None:
        """New keys [L, K] of all landmarks; when some are others than before, the medians start afresh."""
        keys = keys.to(self.device)
        # A column for each landmark: the product with few states is then up to twice as fast.
        self.keys = keys.mT.contiguous().mT if self.reachability is None else keys.contiguous()
        if not same_landmarks:
            self.medians.restart(len(keys))

    def state(self) -> dict[str, Array]:
        """Plain arrays."""
        psi, rest = self.keys[:, : self.psi_size].cpu(), self.keys[:, self.psi_size :].cpu()
        keys = {"psi": psi.numpy().copy()} | ({} if self.reachability is None else {"metric_keys": rest.numpy().copy()})
        observations = {"observations": self._all_observations()} if self.observations else {}
        return self.set.state() | keys | self.medians.state() | observations | self.aliasing.state()

    def load_state(self, state: dict[str, Array]) -> None:
        """Go on with arrays made by `state`."""
        self.set.load_state(state)
        self.observations, self._stacked = list(state.get("observations", [])), None
        self._index_of = {observation.tobytes(): index for index, observation in enumerate(self.observations)}
        parts = [state["psi"], *([] if self.reachability is None else [state["metric_keys"]])]
        self.set_keys(torch.from_numpy(np.concatenate(parts, axis=1)), same_landmarks=False)
        self.medians.load_state(state, len(self.keys))
        self.aliasing.load_state(state)

    def _all_observations(self) -> Array:
        """[L, ...]; thousands of states over frames are not put together anew for every refresh."""
        if self._stacked is None or len(self._stacked) != len(self.observations):
            self._stacked = np.stack(self.observations)
        return self._stacked


class Localization:
    """psi of several states and their SFS to all landmarks: computed, and on its way from the device."""

    def __init__(
        self,
        landmarks: Landmarks,
        states: Array | Tensor,
        psi: Tensor,
        keys: Tensor,
        similarity: Tensor,
        waypoints: Sequence[Sequence[int]],
        goals: Tensor | None,
    ) -> None:
        """`similarity` [B, L], medians over the last W steps."""
        self.psi, self.keys = psi, keys  # [B, A, F] unit psi(s, a), [B, K]
        self._landmarks, self._states = landmarks, states
        self._waypoints = waypoints or [()] * len(psi)
        self._most = max(map(len, self._waypoints), default=0)
        if not landmarks.observations:
            return
        trusted = landmarks.aliasing.mask(similarity).max(1)
        parts = [trusted.values, trusted.indices, similarity.max(1).values]
        if self._most:
            parts.append(self._to_waypoints(similarity, goals).flatten())
        self._answer = Fetched(torch.cat([part.to(keys.dtype) for part in parts]))  # one copy instead of several

    def decisions(self) -> list[Decision]:
        """Wait for the numbers; a decision for each state that says what was seen."""
        count, landmarks = len(self.psi), self._landmarks
        if not landmarks.observations:
            return [Decision() for _ in range(count)]
        numbers = self._answer.wait().tolist()
        trusted, nearest, highest, ahead = (
            numbers[:count],
            numbers[count : 2 * count],
            numbers[2 * count : 3 * count],
            numbers[3 * count :],
        )
        threshold = landmarks.config.localize_threshold
        if threshold >= EXACT:
            localized = [landmarks.at_same_observation(state) for state in np.asarray(self._states)]
        else:
            localized = [localized_at(int(near), sfs, threshold) for near, sfs in zip(nearest, trusted, strict=True)]
        return [
            Decision(
                localized=localized[row],
                nearest=int(nearest[row]),
                similarity=highest[row],
                ahead=tuple(ahead[row * self._most : row * self._most + len(waypoints)]),
            )
            for row, waypoints in enumerate(self._waypoints)
        ]

    def _to_waypoints(self, similarity: Tensor, goals: Tensor | None) -> Tensor:
        """SFS [B, most] to the waypoints, of those to all landmarks [B, L]; short rows are filled up."""
        table = np.array([[*row, *[0] * (self._most - len(row))] for row in self._waypoints], np.int64)
        places = to_device(table, similarity.device)
        found = similarity.gather(1, places.clamp_min(0))
        if goals is None:
            return found
        return torch.where(places == GOAL, self._landmarks.compare_rows(self.keys, goals).unsqueeze(1), found)
