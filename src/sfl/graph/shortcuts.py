"""SPTM's graph: neighbours in time are joined, and so are the moments that look most like each other's company."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sfl.data.types import Array
from sfl.graph.edges import Edges, pair_key, split_key


def temporal_pairs(walks: Array) -> Array:
    """[P, 2] nodes and the next ones of the same walk; `walks` [N] is sorted, in a walk nodes lie in time order."""
    first = np.flatnonzero(walks[1:] == walks[:-1])
    return np.stack([first, first + 1], axis=1)


def smoothed(scores: Array, walks: Array, rows: range, window: int) -> Array:
    """Scores of some rows with all columns, [R, N]: the median along both walks at once.

    Of nodes i and j these are the scores of i + k and j + k for k from -window to window, as far as both lie in the
    walks of i and j. Two walks that pass the same places keep a high score; a single view that two places share does
    not. The rows must lie in one walk.
    """
    begin, end = np.searchsorted(walks, walks[rows.start]), np.searchsorted(walks, walks[rows.start], side="right")
    starts, stops = (np.searchsorted(walks, walks, side=side) for side in ("left", "right"))
    nodes, here = np.arange(len(walks)), np.arange(rows.start, rows.stop)
    seen = np.full((2 * window + 1, len(here), len(walks)), np.inf, scores.dtype)
    for place, shift in enumerate(range(-window, window + 1)):
        across = np.flatnonzero((nodes + shift >= starts) & (nodes + shift < stops))
        down = np.flatnonzero((here + shift >= begin) & (here + shift < end))
        if len(down):
            seen[place][np.ix_(down, across)] = scores[np.ix_(here[down] + shift, across + shift)]
    count = np.isfinite(seen).sum(0)
    seen.sort(axis=0)
    low, high = (np.take_along_axis(seen, at[None], axis=0)[0] for at in ((count - 1) // 2, count // 2))
    return np.asarray((low + high) / 2)


def find_shortcuts(scores: Array, walks: Array, window: int, distance: int, count: int) -> Array:
    """[S, 2] the `count` pairs i < j with the highest smoothed scores, of different walks or `distance` nodes apart.

    `scores` [N, N] is made symmetric first. The pairs are sorted. A median of few is no median: where one walk ends as
    the other begins hardly any pair lies in both, and the best of thousands such would beat every sound one.
    """
    even = (scores + scores.T) / 2
    nodes = np.arange(len(walks))
    starts, stops = (np.searchsorted(walks, walks, side=side) for side in ("left", "right"))
    before, after = nodes - starts, stops - 1 - nodes  # nodes of the same walk
    best_scores, best_keys = np.zeros(0, even.dtype), np.zeros(0, np.int64)
    for begin, end in _walk_ranges(walks):
        median = smoothed(even, walks, range(begin, end), window)
        apart = nodes - nodes[begin:end, None]
        seen = 1 + sum(np.minimum(np.minimum.outer(ends[begin:end], ends), window) for ends in (before, after))
        enough = np.minimum((np.minimum(stops - starts, end - begin) + 1) // 2, window + 1)
        allowed = (apart > 0) & ((walks != walks[begin]) | (apart >= distance)) & (seen >= enough)
        below, across = np.nonzero(allowed)
        best_scores = np.append(best_scores, median[below, across])
        best_keys = np.append(best_keys, pair_key(below + begin, across))
        order = np.lexsort((best_keys, -best_scores))[:count]  # equal scores: the earlier pair
        best_scores, best_keys = best_scores[order], best_keys[order]
    return np.stack(split_key(np.sort(best_keys)), axis=1)


def _walk_ranges(walks: Array) -> list[tuple[int, int]]:
    changes = np.flatnonzero(walks[1:] != walks[:-1]) + 1
    return list(pairwise([0, *changes.tolist(), len(walks)])) if len(walks) else []


def unit_edges(size: int, pairs: Array) -> Edges:
    """Edges of weight 1 in both directions for pairs [P, 2], each once."""
    both = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int64)
    keys = np.unique(pair_key(both[:, 0], both[:, 1]))
    sources, targets = split_key(keys)
    return Edges(size, sources, targets, np.ones(len(keys), np.int64), np.ones(len(keys)))
