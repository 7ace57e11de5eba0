"""How good are the features of an encoder for SFS in one maze? An answer in minutes on a CPU, before any training.

python -m benchmarks.probes.features --maze test-1 --encoder place --encoder FILE.safetensors [--cache FOLDER]

Random walks are recorded once (their poses serve to judge only). Psi of the random walk is the best linear function of
the stack of four features, by ridge regression on the discounted sums; landmarks are a greedy cover of the walks; other
walks are then localized among them. Each encoder is tried as it is, centred, and centred and whitened.

Two figures foretold what whole runs then did: the features should spread over 20 dimensions or more ("effective
dimensions"), and at least 0.6 of the localized states should be within 100 units of the landmark that they are taken
for ("right").
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sfl.api import Array
from sfl.errors import SflError
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import load_encoder
from sfl.run.log import note
from sfl.seeding import spawn
from sfl.worlds import DOOM_ID

GAMMA = 0.95
TAIL = 60
"""Steps at the end of a walk whose discounted sums would lack most of their terms."""
HELD_OUT = 6
"""Walks that are localized, and not learned from."""
STACK = 4
STRENGTHS = (30.0, 300.0, 3e3, 3e4)
"""Of the ridge; the one that foretells the other walks best is taken."""
MOST_LANDMARK_STATES = 5_000
RIGHT_WITHIN = 100.0


@dataclass(frozen=True)
class Walks:
    """Random walks of one length, one after another."""

    frames: Array  # [N, H, W, 3] uint8
    poses: Array  # [N, 3]
    length: int

    @property
    def split(self) -> tuple[Array, Array]:
        """Masks [N] of the states that are learned from and of those held out; the tail of each walk is in neither."""
        number, step = np.divmod(np.arange(len(self.poses)), self.length)
        count = len(self.poses) // self.length
        held, whole = number >= count - min(HELD_OUT, count // 4), step < self.length - TAIL
        return whole & ~held, whole & held


@dataclass(frozen=True)
class Verdict:
    """What one treatment of the features is good for."""

    treatment: str
    explained: float
    """R^2 of psi on the walks held out."""
    landmarks: int
    localized: float
    """Share of the states held out that are more similar to a landmark than the threshold."""
    right: float
    """Share of those that are near their landmark; nan without any."""

    def __str__(self) -> str:
        return (
            f"  {self.treatment:21} R2 of psi {self.explained:5.2f}  landmarks {self.landmarks:4d}  "
            f"localized {self.localized:.2f}  right {self.right:.2f}"
        )


def record(maze: str, walks: int, length: int) -> Walks:
    """Uniformly random actions, each walk from a random place."""
    env = gym.make(DOOM_ID, maze=maze, spawn="random", stack=1, max_steps=length + 1, disable_env_checker=True)
    rng, frames, poses = spawn(0, ["walks"])["walks"], [], []
    try:
        for walk in range(walks):
            seen, info = env.reset(seed=walk, options={"goal": None})
            for _ in range(length):
                frames.append(seen["observation"][-1].copy())
                poses.append(info["pose"])
                seen, _, _, _, info = env.step(int(rng.integers(env.action_space.n)))  # type: ignore[attr-defined]
    finally:
        env.close()
    return Walks(np.stack(frames), np.array(poses), length)


def recorded(maze: str, walks: int, length: int, cache: Path) -> Walks:
    """From the file of an earlier call, if there is one."""
    file = cache / f"walks-{Path(maze).stem}-{walks}x{length}.npz"
    if not file.is_file():
        note(f"recording {walks} walks of {length} steps in {maze}")
        made = record(maze, walks, length)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(file, frames=made.frames, poses=made.poses)
    with np.load(file, allow_pickle=False) as found:
        return Walks(found["frames"], found["poses"], length)


@torch.inference_mode()
def encode(encoder: FrameEncoder, frames: Array) -> Tensor:
    """Features [N, F]."""
    pieces = (torch.from_numpy(frames[begin : begin + 256]) for begin in range(0, len(frames), 256))
    return torch.cat([encoder(piece) for piece in pieces]).double()


def effective_dimensions(phi: Tensor) -> float:
    """(sum of the eigenvalues of the covariance)^2 / sum of their squares: 1 to F."""
    values = torch.linalg.eigvalsh(torch.cov(phi.T))
    return float(values.sum() ** 2 / values.square().sum())


def treatments(phi: Tensor) -> dict[str, Tensor]:
    """The features [N, F] as they are, around their mean, and with equal variance in all directions."""
    centred, covariance = phi - phi.mean(0), torch.cov(phi.T)
    ridged = covariance + 0.1 * covariance.diagonal().mean() * torch.eye(len(covariance), dtype=phi.dtype)
    roots, basis = torch.linalg.eigh(ridged)
    white = centred @ ((basis * roots.rsqrt()) @ basis.T)
    white = functional.normalize(white, dim=1) * phi.shape[1] ** 0.5
    return {"as it is": phi, "centred": centred, "centred and whitened": white}


def discounted(phi: Tensor, length: int) -> Tensor:
    """(1 - gamma) times the sum of gamma^k phi(s_k) to the end of each walk, [N, F]."""
    walks = phi.unflatten(0, (-1, length))
    sums, running = torch.zeros_like(walks), torch.zeros_like(walks[:, 0])
    for step in reversed(range(length)):
        running = walks[:, step] + GAMMA * running
        sums[:, step] = running
    return (1 - GAMMA) * sums.flatten(0, 1)


def stacked(phi: Tensor, length: int) -> Tensor:
    """The last features of each state beside its own, [N, 4 F]; a walk begins with its first one repeated."""
    rows = np.arange(len(phi))
    return torch.cat([phi[np.maximum(rows - lag, rows // length * length)] for lag in reversed(range(STACK))], 1)


def fitted(states: Tensor, targets: Tensor, train: Array, held: Array) -> tuple[Tensor, float]:
    """Psi [N, F] of all states by ridge regression on those of `train`, and its R^2 on those of `held`."""
    mean, deviation = states[train].mean(0), states[train].std(0) + 1e-6
    inputs = torch.cat([(states - mean) / deviation, torch.ones(len(states), 1, dtype=states.dtype)], 1)
    gram, cross = inputs[train].T @ inputs[train], inputs[train].T @ targets[train]
    spread = float((targets[held] - targets[train].mean(0)).square().mean())

    def solved(strength: float) -> tuple[Tensor, float]:
        penalty = strength * torch.eye(len(gram), dtype=gram.dtype)
        penalty[-1, -1] = 0  # the constant is free
        psi = inputs @ torch.linalg.solve(gram + penalty, cross)
        return psi, 1 - float((psi[held] - targets[held]).square().mean()) / spread

    return max(map(solved, STRENGTHS), key=lambda found: found[1])


def cover(directions: Array, candidates: Array, add: float) -> Array:
    """Indices of landmarks: each candidate that is less similar than `add` to all before it, in random order."""
    chosen: list[int] = []
    for index in spawn(1, ["cover"])["cover"].permutation(candidates)[:MOST_LANDMARK_STATES].tolist():
        if not chosen or (directions[chosen] @ directions[index]).max() < add:
            chosen.append(index)
    return np.array(chosen)


def judge(treatment: str, phi: Tensor, walks: Walks, add: float, localize: float) -> Verdict:
    """Solve for psi, cover the walks with landmarks, and localize the others."""
    train, held = walks.split
    psi, explained = fitted(stacked(phi, walks.length), discounted(phi, walks.length), train, held)
    directions = functional.normalize(psi, dim=1).numpy()
    landmarks = cover(directions, np.flatnonzero(train), add)
    similarity = directions[held] @ directions[landmarks].T
    nearest, localized = landmarks[similarity.argmax(1)], similarity.max(1) > localize
    apart = np.linalg.norm(walks.poses[held][:, :2] - walks.poses[nearest][:, :2], axis=1)
    right = float((apart < RIGHT_WITHIN)[localized].mean()) if localized.any() else float("nan")
    return Verdict(treatment, explained, len(landmarks), float(localized.mean()), right)


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maze", required=True, help="a maze by name, or a file")
    parser.add_argument("--encoder", action="append", required=True, help="a shipped encoder or a file; several times")
    parser.add_argument("--walks", type=int, default=24, help="how many are recorded; the last of them are held out")
    parser.add_argument("--length", type=int, default=800, help="decisions of each")
    parser.add_argument("--add", type=float, default=0.8, help="similarity below which a state becomes a landmark")
    parser.add_argument("--localize", type=float, default=0.9, help="similarity above which a state is localized")
    parser.add_argument("--cache", type=Path, default=Path(), help="where the walks are kept")
    options = parser.parse_args(words)
    if options.walks < 4 or options.length <= TAIL:
        parser.error(f"--walks must be 4 or more and --length above {TAIL}")
    torch.set_num_threads(1)
    try:
        encoders = {name: load_encoder(name).eval() for name in options.encoder}
        walks = recorded(options.maze, options.walks, options.length, options.cache)
    except SflError as error:
        print(f"features: {error}", file=sys.stderr)
        return error.exit_code
    for name, encoder in encoders.items():
        phi = encode(encoder, walks.frames)
        print(f"{options.maze}, {name}: {effective_dimensions(phi):.1f} effective dimensions of {phi.shape[1]}")
        for treatment, features in treatments(phi).items():
            print(judge(treatment, features, walks, options.add, options.localize), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
