"""How often retrieval and locomotion networks are right, in textures and mazes that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from sfl.core.errors import CheckpointError
from sfl.core.seeding import spawn
from sfl.data.types import Array, EnvSpec
from sfl.envs.mazes import Maze
from sfl.envs.vizdoom import ACTIONS
from sfl.learners.locomotion import Chases, Locomotion
from sfl.learners.networks import take_networks
from sfl.learners.reachability import ReachabilityDraw
from sfl.learners.retrieval import Retrieval
from sfl.nn.weights import SUFFIX, load_networks
from sfl.run.encoder.config import NetworkJudgement, WalkConfig
from sfl.run.encoder.data import Walks, check_memory, walk_round
from sfl.run.encoder.mazes import evaluation_mazes, unseen
from sfl.run.encoder.network import SHAPE, Name
from sfl.run.encoder.walks import GAMES_PER_MAZE, judging_generators, walks_per_game
from sfl.run.progress import note

COIN = 0.5
"""How often a coin is right about near and far."""
AT_ONCE = 256
"""Examples that L sees together."""
SHORT = {"retrieval": "R", "locomotion": "L"}


@dataclass(frozen=True)
class NetworkRow:
    """How often one network is right about one kind of example in one maze. Shares are of 1."""

    maze: str
    unseen: str
    """What of the maze the network has not seen: `textures`, or `maze` and textures."""
    network: Name
    case: str
    """retrieval: pairs that are `near` or `far`; locomotion: decisions to the goal."""
    accuracy: float
    chance: float
    """What guessing would give."""
    examples: int


def judge_networks(
    path: str, wanted: Sequence[Name], judgement: NetworkJudgement, device: torch.device | str
) -> list[NetworkRow]:
    """Look at every maze; the rows of one do not depend on the other mazes or on the number of workers."""
    retrieval, locomotion = load_pair(path, wanted, judgement, device)
    mazes = evaluation_mazes(judgement.mazes, judgement.maze_dir)
    note(f"Evaluating in {len(mazes)} mazes: {walks_per_game(judgement.walks) * GAMES_PER_MAZE} walks each.")
    walks = judging_walks(mazes, judgement, str(device))
    return [
        row
        for maze, own in zip(mazes, walks, strict=True)
        for row in judge_walks(retrieval, locomotion, own, maze.name, judgement)
    ]


def judge_walks(
    retrieval: Retrieval | None, locomotion: Locomotion | None, walks: Walks, maze: str, judgement: NetworkJudgement
) -> list[NetworkRow]:
    """How often the networks that there are, are right on walks in one maze."""
    pairs = [] if retrieval is None else _retrieval_rows(retrieval, walks, maze, judgement)
    chases = [] if locomotion is None else _locomotion_rows(locomotion, walks, maze, judgement)
    return pairs + chases


def load_pair(
    path: str, wanted: Sequence[Name], judgement: NetworkJudgement, device: torch.device | str
) -> tuple[Retrieval | None, Locomotion | None]:
    """The networks of a file that are wanted, or all that it holds; None for another."""
    arrays, spec = load_networks(path, wanted), EnvSpec(SHAPE, "uint8", len(ACTIONS))
    held = {key.partition(".")[0] for key in arrays}
    chosen = set(wanted) or held
    retrieval = Retrieval(judgement.retrieval, spec, 0, device) if "retrieval" in chosen else None
    locomotion = Locomotion(judgement.locomotion, spec, 0, device) if "locomotion" in chosen else None
    if retrieval is None and locomotion is None:
        raise CheckpointError(
            f"{path} holds neither a retrieval nor a locomotion network; make one: sfl network train retrieval --out "
            f"FILE{SUFFIX}."
        )
    take_networks(path, arrays, [network for network in (retrieval, locomotion) if network is not None])
    return retrieval, locomotion


def judging_walks(mazes: Sequence[Maze], judgement: NetworkJudgement, device: str) -> Iterator[Walks]:
    """The walks in each maze: the same as those that encoders are judged by. One maze at a time is in memory."""
    each, length = walks_per_game(judgement.walks), judgement.walk_length
    shape = (GAMES_PER_MAZE * each, length, *SHAPE)
    check_memory(shape, device)
    config = WalkConfig(walk_length=length, walks_per_maze=each, workers=judgement.workers)
    for maze in mazes:
        frames, actions = torch.empty(shape, dtype=torch.uint8, device=device), np.zeros(shape[:2], np.uint8)
        rngs = judging_generators([maze.name], judgement.seed)
        walk_round(config, [maze] * GAMES_PER_MAZE, frames, actions, rngs)
        yield Walks(frames, np.zeros(len(frames), np.int64), (maze.name,), actions)


def _retrieval_rows(retrieval: Retrieval, walks: Walks, maze: str, judgement: NetworkJudgement) -> list[NetworkRow]:
    config, name = replace(judgement.retrieval, batch_size=judgement.pairs), f"pairs/{maze}"
    pairs = ReachabilityDraw(config, walks.mazes, walks.length)(spawn(judgement.seed, [name])[name])
    features = retrieval.features(walks.frames.flatten(0, 1))
    first, second = (features[torch.from_numpy(pairs.walks * walks.length + times)] for times in pairs.times)
    called_near = (retrieval.reachable_each(first, second.unsqueeze(1))[:, 0] >= COIN).cpu().numpy()
    right = called_near == pairs.near
    cases = {"near": right[pairs.near], "far": right[~pairs.near]}
    return [_row(maze, "retrieval", case, found, COIN) for case, found in cases.items()]


def _locomotion_rows(locomotion: Locomotion, walks: Walks, maze: str, judgement: NetworkJudgement) -> list[NetworkRow]:
    ahead, name = judgement.locomotion.ahead, f"chases/{maze}"
    chases = even_chases(judgement.chases, ahead, walks, spawn(judgement.seed, [name])[name])
    parts = (slice(start, start + AT_ONCE) for start in range(0, len(chases.walks), AT_ONCE))
    batches = (Chases(chases.walks[part], chases.times[:, part]) for part in parts)
    chosen = torch.cat([locomotion.scores(walks.take(batch)).argmax(1) for batch in batches]).cpu().numpy()
    right = chosen == walks.actions[chases.walks, chases.times[1]]
    away, chance = chases.times[2] - chases.times[1], 1 / len(ACTIONS)
    return [_row(maze, "locomotion", str(far), right[away == far], chance) for far in range(1, ahead + 1)]


def even_chases(count: int, ahead: int, walks: Walks, rng: np.random.Generator) -> Chases:
    """Moments of walks with goals 1 to `ahead` decisions on, as many of each distance."""
    away = 1 + np.arange(count) % ahead
    chosen, now = rng.integers(len(walks.frames), size=count), rng.integers(walks.length - away)
    return Chases(chosen, np.stack([np.maximum(now - 1, 0), now, now + away]))


def _row(maze: str, network: Name, case: str, right: Array, chance: float) -> NetworkRow:
    return NetworkRow(maze, unseen(maze), network, case, float(right.mean()), chance, len(right))


def network_cells(rows: Sequence[NetworkRow]) -> list[list[str]]:
    """The rows as text, a line for each maze, headings first; then means over mazes, and chance."""
    kinds = list(dict.fromkeys((row.network, row.case) for row in rows))
    mazes = dict.fromkeys((row.maze, row.unseen) for row in rows)
    found = {(row.maze, row.network, row.case): row.accuracy for row in rows}
    chances = {(row.network, row.case): row.chance for row in rows}
    heads = [f"{SHORT[network]}, {case}{_unit(network, case)} %" for network, case in kinds]
    lines = [[maze, what, *(_percent(found[maze, *kind]) for kind in kinds)] for maze, what in mazes]
    for what in dict.fromkeys(what for _, what in mazes):
        own = [[found[maze, *kind] for kind in kinds] for maze, other in mazes if other == what]
        lines.append(["mean", what, *map(_percent, np.mean(own, axis=0))])
    return [["maze", "unseen", *heads], *lines, ["chance", "", *(_percent(chances[kind]) for kind in kinds)]]


def _unit(network: str, case: str) -> str:
    return "" if network == "retrieval" else " decision" if case == "1" else " decisions"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
