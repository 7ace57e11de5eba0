"""Landmarks and edges of a checkpoint as the page draws them: from its files alone, no agent is loaded.

Edges are all pairs that the threshold lets through; those `in_force` have passed the filters as well, and planning uses
them. Of SFL's edges it is known how often they were walked as planned, and how often that failed (as far as failures
are remembered, `edges.forget_after`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sfl.api import Array
from sfl.baselines.config import SGMConfig, SPTMConfig
from sfl.baselines.mss.config import MSSConfig
from sfl.errors import CheckpointError, SflError
from sfl.files import array_in, arrays_in
from sfl.method.config import AnySFLConfig, NavigatorConfig, in_force
from sfl.method.edges import EdgeStatistics, edge_threshold, form_edges, pair_key, split_key, unfiltered
from sfl.registry import AgentConfig, field_score
from sfl.run.folder import LAST
from sfl.studio.answers import Document, NotHereError, encode, numbers, shares, whole
from sfl.studio.places import Atlas, Recent
from sfl.studio.runs import Run, fingerprint

FILES = ("graph.npz", "landmark_poses.npy")
COLUMNS = ("visits", "origin", "added_at", "pairs", "failures", "doubted")
EDGE_COLUMNS = ("edge_sources", "edge_targets", "edge_counts", "edge_weights")
HALF = 0.5
"""The frontier: the landmarks that together get this share of the draws, the likeliest first."""


class Graphs:
    """The graphs of all runs' checkpoints."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._parts, self._poses, self._encoded = Recent(8), Recent(2), Recent(16)
        self._squares = Recent(8)

    def encoded(self, run: Run, name: str) -> tuple[str, bytes]:
        """The document as it is sent, and a mark that changes with it; made once for each checkpoint."""
        marks = [run.read(name, ())[2], fingerprint(run.folder.last) or ""]
        mark = "-".join(marks)
        return mark, self._encoded.get((run.id, name, mark), lambda: encode(self.document(run, name)))

    def document(self, run: Run, name: str) -> Document:
        """What is drawn of a checkpoint."""
        header, arrays, poses = self._read(run, name)
        agent = run.facts.experiment.agent
        edges = edge_columns(arrays, agent)
        frontier, rule = frontier_of(arrays.get("visits"), agent)
        return {
            "checkpoint": name,
            "env_steps": int(header["env_steps"]),
            "landmarks": landmark_columns(arrays, poses, edges),
            "edges": _edges_document(edges),
            "frontier": frontier,
            "frontier_rule": rule,
            "thresholds": thresholds(arrays, agent),
            "coverage": self._coverage(run, int(header["env_steps"])),
            "score": field_score(agent),
            "note": _note(arrays, poses),
        }

    def poses(self, run: Run, name: str) -> Array:
        """Where all landmarks were seen, [L, 3]."""
        return self._read(run, name)[2]

    def landmark(self, run: Run, name: str, index: int) -> Array:
        """Where one landmark was seen, [3]."""
        poses = self.poses(run, name)
        if not 0 <= index < len(poses):
            raise NotHereError(f"There is no landmark {index}; checkpoint {name} has {len(poses)}.")
        return np.asarray(poses[index], np.float64)

    def _read(self, run: Run, name: str) -> tuple[Document, dict[str, Array], Array]:
        """Header, the graph's arrays and where its landmarks were seen [L, 3]."""
        _, _, mark = run.read(name, ())
        return self._parts.get((run.id, name, mark), lambda: self._unpack(run, name))

    def _unpack(self, run: Run, name: str) -> tuple[Document, dict[str, Array], Array]:
        header, files, _ = run.read(name, FILES)
        if absent := [file for file in FILES if file not in files]:
            raise CheckpointError(f"The graph of checkpoint {name} cannot be read: it has no {absent[0]}.")
        every = arrays_in(files["graph.npz"], f"graph.npz of checkpoint {name}")
        arrays = {key: every[key] for key in (*COLUMNS, *EDGE_COLUMNS) if key in every}
        return header, arrays, array_in(files["landmark_poses.npy"], f"landmark_poses.npy of checkpoint {name}")

    def _coverage(self, run: Run, env_steps: int) -> Document | None:
        """How often training had been in each square by then: the last checkpoint knows where it was at each step."""
        if run.facts.kind == "other":
            return None
        try:
            poses = self._poses.get((run.id, fingerprint(run.folder.last)), lambda: _trail(run))
            squares = self._squares.get(run.facts.world_key, self._atlas.world(run).squares)
        except SflError:  # there is no last checkpoint just now, or its maze is not on this machine
            return None
        if squares is None or not 0 < env_steps <= len(poses):
            return None
        centre = 0.0 if run.facts.kind == "grid" else 0.5  # a cell's own numbers are its middle
        return {
            "squares": numbers((squares.reachable + centre) * squares.side, 1),
            "side": squares.side,
            "visits": whole(squares.visits(poses[:env_steps])),
        }


def _trail(run: Run) -> Array:
    """Where the agent was at each step [N, 3]; empty in slim copies."""
    _, files, _ = run.read(LAST, ("poses.npy",))
    if "poses.npy" not in files:
        return np.zeros((0, 3), np.float32)
    return array_in(files["poses.npy"], "poses.npy of the last checkpoint")


def edge_columns(arrays: Mapping[str, Array], agent: AgentConfig) -> dict[str, Array]:
    """All edges sorted by source and target, with their counts, weights, whether in force, and success [E]."""
    used = [np.asarray(arrays.get(name, np.zeros(0))) for name in EDGE_COLUMNS]
    keys = pair_key(used[0].astype(np.int64), used[1].astype(np.int64))
    order = np.argsort(keys)
    keys, counts, weights = keys[order], used[2][order], used[3][order]
    if not isinstance(agent, AnySFLConfig) or "pairs" not in arrays:
        sources, targets = split_key(keys)
        unknown = np.full(len(keys), np.nan)
        return _named(sources, targets, counts, weights, np.ones(len(keys), bool), unknown)
    statistics = EdgeStatistics()
    statistics.load_state({name: arrays[name] for name in ("pairs", "failures")})
    config = in_force(agent).edges
    everything = form_edges(statistics, unfiltered(config), len(arrays["origin"]))
    passed = pair_key(everything.sources, everything.targets)
    # Counts go on after edges were formed: one in force may have fallen below the median since.
    rows, all_keys = np.flatnonzero(~np.isin(passed, keys)), np.union1d(passed, keys)
    merged = np.argsort(np.concatenate([keys, passed[rows]]))
    counts = np.concatenate([counts, everything.counts[rows]])[merged]
    weights = np.concatenate([weights, everything.weights[rows]])[merged]
    success = _success(statistics, config.directed, all_keys)
    return _named(*split_key(all_keys), counts, weights, np.isin(all_keys, keys), success)


def _named(
    sources: Array, targets: Array, counts: Array, weights: Array, used: Array, success: Array
) -> dict[str, Array]:
    names = ("source", "target", "count", "weight", "in_force", "success")
    return dict(zip(names, (sources, targets, counts, weights, used, success), strict=True))


def _success(statistics: EdgeStatistics, directed: bool, keys: Array) -> Array:
    """Share of the times that an edge was meant to be walked and was [E]; NaN where it never was."""
    known, _, _, _, walked, failed = statistics.table(directed)
    tries = walked + failed
    share = np.full(len(keys), np.nan)
    rows = np.searchsorted(known, keys)
    inside = np.flatnonzero(rows < len(known))
    inside = inside[(known[rows[inside]] == keys[inside]) & (tries[rows[inside]] > 0)]
    share[inside] = walked[rows[inside]] / tries[rows[inside]]
    return share


def landmark_columns(arrays: Mapping[str, Array], poses: Array, edges: Mapping[str, Array]) -> Document:
    """One entry for each landmark; null where something is not known."""
    count = len(poses)
    unknown = np.full(count, np.nan)
    return {
        "x": numbers(poses[:, 0], 1),
        "y": numbers(poses[:, 1], 1),
        "degrees": numbers(poses[:, 2], 0),
        "visits": _counted(arrays.get("visits", unknown)),
        "added": _counted(arrays.get("added_at", arrays.get("origin", unknown))),
        "component": whole(components(edges, count)),
    }


def _counted(values: Array) -> list[int | None]:
    return [None if not np.isfinite(value) else int(value) for value in np.asarray(values).tolist()]


def components(edges: Mapping[str, Array], count: int) -> Array:
    """[L] which landmarks have routes to each other, there and back; 0 is the largest such set, and so on."""
    used = edges["in_force"].astype(bool)
    ends = edges["source"][used], edges["target"][used]
    joined = coo_array((np.ones(int(used.sum())), ends), shape=(count, count))
    _, labels = connected_components(joined, directed=True, connection="strong")
    sizes = np.bincount(labels, minlength=1)
    ranks = np.empty(len(sizes), np.int64)
    ranks[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.asarray(ranks[labels])


def frontier_of(visits: Array | None, agent: AgentConfig) -> tuple[list[int], str]:
    """The landmarks that trips of training mostly go to, and the rule in words."""
    settings = in_force(agent) if isinstance(agent, AnySFLConfig) else agent
    config: NavigatorConfig | None = getattr(settings, "navigator", None)
    if config is None or visits is None:
        return [], "This method has no frontier."
    if config.frontier == "uniform":
        return [], "Trips of training go to any landmark, each as likely as the others."
    odds = 1.0 / np.maximum(1, visits)
    order = np.argsort(-odds, kind="stable")
    needed = int(np.searchsorted(np.cumsum(odds[order]), HALF * odds.sum())) + 1
    among = "" if config.frontier_among == "all" else " that routes lead to, there and back,"
    rule = (
        f"Trips of training go to a landmark{among} drawn with odds 1 / max(1, visits). "
        "Marked are the least visited, which together get half of the draws."
    )
    return whole(order[:needed]), rule


def thresholds(arrays: Mapping[str, Array], agent: AgentConfig) -> Document:
    """Of the score, at which a view becomes a landmark and at which the agent is at one; and of edges."""
    found: Document = {"add": None, "localize": None, "edge": None}
    if isinstance(agent, AnySFLConfig):
        config = in_force(agent)
        found |= {"add": config.landmarks.add_threshold, "localize": config.landmarks.localize_threshold}
        if "pairs" in arrays:
            pairs = arrays["pairs"]
            counts = pairs[:, 2] + pairs[:, 3] if config.edges.count_traverse else pairs[:, 2]
            found["edge"] = edge_threshold(counts[counts > 0], config.edges)
    elif isinstance(agent, SGMConfig):
        found["localize"] = agent.localize_threshold
    elif isinstance(agent, SPTMConfig):
        found["localize"] = agent.guide.global_threshold
    elif isinstance(agent, MSSConfig):
        found |= {"localize": agent.map.clip, "edge": agent.map.clip}
    return found


def _edges_document(edges: Mapping[str, Array]) -> Document:
    return {
        "source": whole(edges["source"]),
        "target": whole(edges["target"]),
        "count": numbers(edges["count"], 2),
        "weight": numbers(edges["weight"], 4),
        "in_force": whole(edges["in_force"]),
        "success": shares(edges["success"], 3),
    }


def _note(arrays: Mapping[str, Array], poses: Array) -> str:
    if not len(arrays.get("origin", ())):
        return "There are no landmarks yet." if arrays else "This method has no landmarks."
    unknown = int((~np.isfinite(poses).all(1)).sum())
    doubted = int(np.sum(arrays.get("doubted", 0)))
    notes = [f"Where {unknown} of {len(poses)} landmarks were seen is not known."] if unknown else []
    notes += [f"{doubted} landmarks are in doubt: nobody is localized to them."] if doubted else []
    return " ".join(notes)
