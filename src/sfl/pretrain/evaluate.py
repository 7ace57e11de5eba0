"""How well an encoder knows a place again, in textures and mazes it has not seen. Poses are used here only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sfl.api import Array
from sfl.baselines.networks import ReachabilityDraw
from sfl.method.config import ReachabilityConfig
from sfl.nn.frame_encoders import FrameEncoder
from sfl.pretrain.config import EncoderJudgement, evaluation_mazes, unseen
from sfl.pretrain.walks import GAMES_PER_MAZE, judging_generators, random_walks, walks_per_game
from sfl.run.log import note
from sfl.seeding import spawn
from sfl.worlds.doom.pool import GameEpisode, GamePool
from sfl.worlds.doom.tasks import StartGoalSampler
from sfl.worlds.mazes.layout import Maze

NEAR_PLACE = 100.0
"""Map units within which two views are of the same place."""
NEAR_HEADING = 45.0
"""Degrees within which two views of a place show the same."""


@dataclass(frozen=True)
class PlaceRow:
    """How an encoder does in one maze. Shares are of 1."""

    maze: str
    unseen: str
    """What of the maze the encoder has not seen: `textures`, or `maze` and textures."""
    pair_accuracy: float
    """Pairs of moments rightly called near or far by their cosine."""
    found: float
    """Queries whose most similar stored view is within 100 units."""
    possible: float
    """Queries for which a view within 100 units and 45 degrees is stored at all."""
    median_error: float
    """Map units between a query and its most similar stored view, median."""


def place_cells(rows: Sequence[PlaceRow]) -> list[list[str]]:
    """The rows as text, headings first."""
    headings = ["maze", "unseen", "pairs %", "within 100 %", "possible %", "median error"]
    return [headings, *map(_cells, rows)]


def _cells(row: PlaceRow) -> list[str]:
    shares = (f"{100 * share:.1f}" for share in (row.pair_accuracy, row.found, row.possible))
    return [row.maze, row.unseen, *shares, f"{row.median_error:.0f}"]


def judge_encoder(encoder: FrameEncoder, judgement: EncoderJudgement) -> list[PlaceRow]:
    """Look at every maze; one row each, which does not depend on the other mazes or on the number of workers."""
    mazes = evaluation_mazes(judgement.mazes, judgement.maze_dir)
    games = [maze for maze in mazes for _ in range(GAMES_PER_MAZE)]
    places = {maze.name: _draw_poses(maze, judgement) for maze in mazes}
    with GamePool(games, len(games), workers=judgement.workers, halves=1) as pool:
        note(f"Evaluating in {len(mazes)} mazes: {judgement.views + judgement.queries:,} views each.")
        views = _view_features(encoder, pool, list(places.values()))
        walks = _walk_features(encoder, pool, judgement)
    return [
        _row(maze, places[maze.name], seen, walked, judgement)
        for maze, seen, walked in zip(mazes, views, walks, strict=True)
    ]


def _draw_poses(maze: Maze, judgement: EncoderJudgement) -> Array:
    """[V + Q, 3] where the stored views and the queries are seen."""
    name = f"views/{maze.name}"
    rng = spawn(judgement.seed, [name])[name]
    sampler = StartGoalSampler(maze, "random")
    return np.array([sampler.draw_goal(rng) for _ in range(judgement.views + judgement.queries)])


@torch.inference_mode()
def _encode(encoder: FrameEncoder, frames: Array) -> Array:
    """[n, F] features of frames."""
    return np.asarray(encoder(torch.from_numpy(frames).to(encoder.mean.device)).cpu())


def _view_features(encoder: FrameEncoder, pool: GamePool, poses: Sequence[Array]) -> list[Array]:
    """[V + Q, F] for each maze. The start of an episode shows two views: its first frame and its goal."""
    features = [np.empty((len(places), encoder.dim), np.float32) for places in poses]
    asked = [0] * len(poses)
    rows = np.empty((pool.count, 2), np.int64)

    def next_views(game: int) -> GameEpisode | None:
        maze = game // GAMES_PER_MAZE
        first = asked[maze]
        if first >= len(poses[maze]):
            return None
        rows[game] = first, min(first + 1, len(poses[maze]) - 1)
        asked[maze] += 2
        start, goal = (tuple(poses[maze][row]) for row in rows[game])
        return GameEpisode(start, goal)

    while any(count < len(places) for count, places in zip(asked, poses, strict=True)):
        pool.restart(next_views)
        pool.send(0)
        step = pool.receive(0)
        live = np.flatnonzero(step.running)
        both = np.concatenate([step.frames[live], pool.goals(0)[live]])
        for game, row, code in zip(np.tile(live, 2), rows[live].T.ravel(), _encode(encoder, both), strict=True):
            features[game // GAMES_PER_MAZE][row] = code
    return features


def _walk_features(encoder: FrameEncoder, pool: GamePool, judgement: EncoderJudgement) -> list[Array]:
    """[W, T, F] for each maze: the features along random walks."""
    each = walks_per_game(judgement.walks)
    features = np.empty((pool.count, each, judgement.walk_length, encoder.dim), np.float32)
    rngs = judging_generators([places.maze.name for places in pool.samplers[::GAMES_PER_MAZE]], judgement.seed)
    for moments in random_walks(pool, each, judgement.walk_length, rngs):
        features[moments.games, moments.walks, moments.times] = _encode(encoder, moments.frames)
    return list(features.reshape(-1, GAMES_PER_MAZE * each, *features.shape[2:]))


def _row(maze: Maze, poses: Array, views: Array, walks: Array, judgement: EncoderJudgement) -> PlaceRow:
    name = f"pairs/{maze.name}"
    rng = spawn(judgement.seed, [name])[name]
    count = judgement.views
    errors = place_errors(views[count:], views[:count], poses[count:], poses[:count])
    return PlaceRow(
        maze=maze.name,
        unseen=unseen(maze.name),
        pair_accuracy=pair_accuracy(walks, judgement.pairs, rng),
        found=float((errors <= NEAR_PLACE).mean()),
        possible=float(has_near_view(poses[count:], poses[:count]).mean()),
        median_error=float(np.median(errors)),
    )


def place_errors(queries: Array, views: Array, query_poses: Array, view_poses: Array) -> Array:
    """[Q] map units from each query to the stored view with the greatest cosine.

    Shapes: queries [Q, F], views [V, F], poses [Q, 3] and [V, 3].
    """
    cosines = _unit(queries) @ _unit(views).T
    best = view_poses[cosines.argmax(1)]
    return np.asarray(np.linalg.norm(query_poses[:, :2] - best[:, :2], axis=1))


def has_near_view(query_poses: Array, view_poses: Array) -> Array:
    """[Q] bool: some stored view is within 100 units and 45 degrees."""
    away = np.linalg.norm(query_poses[:, None, :2] - view_poses[None, :, :2], axis=2)
    turn = np.abs((query_poses[:, None, 2] - view_poses[None, :, 2] + 180.0) % 360.0 - 180.0)
    return np.asarray(((away <= NEAR_PLACE) & (turn <= NEAR_HEADING)).any(1))


def pair_accuracy(walks: Array, count: int, rng: np.random.Generator) -> float:
    """Share of pairs of moments of walks [W, T, F] rightly called near or far by a threshold on their cosine.

    The threshold is the best one for every second pair; the others are counted.
    """
    draw = ReachabilityDraw(ReachabilityConfig(batch_size=count), np.zeros(len(walks), np.int64), walks.shape[1])
    pairs = draw(rng)
    first, second = (_unit(walks[pairs.walks, times]) for times in pairs.times)
    cosines = (first * second).sum(1)
    threshold = best_threshold(cosines[::2], pairs.near[::2])
    return float(((cosines[1::2] >= threshold) == pairs.near[1::2]).mean())


def best_threshold(cosines: Array, near: Array) -> float:
    """The cosine from which on most pairs are rightly called near: half way between two that occur."""
    order = np.argsort(cosines)
    values, truly = cosines[order], near[order]
    # With the threshold at value k, what lies below is called far: right for the far ones there and the near ones here.
    right = np.cumsum(~truly) - ~truly + np.cumsum(truly[::-1])[::-1]
    best = int(right.argmax())
    return float(values[max(best - 1, 0) : best + 1].mean())


def _unit(features: Array) -> Array:
    """Rows of length 1."""
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1e-8))
