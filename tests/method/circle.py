"""Landmarks on a circle: the similarity of two states is the cosine of their angle."""

from __future__ import annotations

import numpy as np
import torch

from sfl.api import Array, Decision
from sfl.method.candidates import Candidate, Candidates
from sfl.method.config import LandmarkConfig
from sfl.method.landmarks import Landmarks
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


def make_landmarks(**settings: object) -> Candidates:
    """No landmarks yet; candidates to become some are proposed by their angles."""
    defaults: dict[str, object] = {"add_threshold": COS_30, "localize_threshold": 0.9, "candidates_per_add": 9}
    landmarks = Landmarks(LandmarkConfig(**(defaults | settings)), 2, Circle.device)  # type: ignore[arg-type]
    landmarks.begin_episode(0)
    return Candidates(landmarks)


def propose(candidates: Candidates, *degrees: int, origin: int = 0) -> None:
    for offset, angle in enumerate(degrees):
        candidates.propose(Candidate(at(angle)[0], origin + offset, None, 0, True))


def angles(landmarks: Landmarks) -> list[int]:
    return [int(observation[0]) for observation in landmarks.observations]


def admit(candidates: Candidates, *degrees: int, step: int = 0) -> list[tuple[int, int]]:
    """Propose, admit, and return (index, angle) of those let in."""
    propose(candidates, *degrees)
    admitted = [(index, int(one.observation[0])) for index, one in candidates.admit(Circle(), step)]
    assert candidates.waiting == {}  # the buffer is emptied, whether all got in or none
    return admitted


def look(landmarks: Landmarks, *degrees: int, turn: float = 0.0) -> list[Decision]:
    """What is seen by environments 0, 1, ... at these angles."""
    return landmarks.localize(Circle(turn), at(*degrees), np.arange(len(degrees))).decisions()
