"""Landmarks on a circle: the similarity of two states is the cosine of their angle."""

from __future__ import annotations

import numpy as np
import torch

from sfl.api import Array
from sfl.method.config import LandmarkConfig
from sfl.method.landmarks import Candidate, LandmarkMemory
from sfl.method.states import PsiSource

COS_30 = 0.866


class Circle(PsiSource):
    """psi of an observation [degrees]: the point at that angle plus `turn`, of length 3, for both actions."""

    dim = 2
    device = torch.device("cpu")

    def __init__(self, turn: float = 0.0) -> None:
        self.turn = turn

    def psi(self, observations: Array) -> torch.Tensor:
        angles = torch.from_numpy(np.deg2rad(observations[:, 0].astype(np.float64) + self.turn)).float()
        point = 3 * torch.stack([angles.cos(), angles.sin()], dim=1)
        return point.unsqueeze(1).repeat(1, 2, 1)


def at(*degrees: int) -> Array:
    return np.array(degrees, dtype=np.int64).reshape(-1, 1)


def make_memory(**settings: object) -> LandmarkMemory:
    defaults: dict[str, object] = {"add_threshold": COS_30, "localize_threshold": 0.9, "candidates_per_add": 9}
    memory = LandmarkMemory(LandmarkConfig(**(defaults | settings)), 2, Circle.device)  # type: ignore[arg-type]
    memory.localizer.reset(0)
    return memory


def propose(memory: LandmarkMemory, *degrees: int, origin: int = 0) -> None:
    for offset, angle in enumerate(degrees):
        memory.propose(Candidate(at(angle)[0], origin + offset, None, 0, True))


def angles(memory: LandmarkMemory) -> list[int]:
    return [int(observation[0]) for observation in memory.observations]


def admit(memory: LandmarkMemory, *degrees: int, step: int = 0) -> list[tuple[int, int]]:
    """Propose, admit, and return (index, angle) of those let in."""
    propose(memory, *degrees)
    admitted = [(index, int(one.observation[0])) for index, one in memory.admit(Circle(), step)]
    assert memory.candidates == {}  # the buffer is emptied whoever got in
    return admitted
