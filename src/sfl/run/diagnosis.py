"""What a run's own files say of why it failed: one line, with what it most likely means and which option to try.

`diagnose` is a pure function of facts, with one function for each finding; `read_facts`, further down, gathers the
facts from a run folder. Good runs have no findings. The thresholds are loose on purpose: a finding should be reliable.
docs/reference/troubleshooting.md has a section for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sfl.api import Array
from sfl.errors import CheckpointError, FileError, UsageError
from sfl.files import array_in, arrays_in, read_json
from sfl.run import checkpoint
from sfl.run.chance import RANDOM, Share, interval_text, read_random, share_of, wilson
from sfl.run.evaluate import EpisodeRow
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import read_columns
from sfl.worlds.exam import EXAM_FILE, NEVER_TWICE, read_exam

PAGE = "docs/reference/troubleshooting.md"

FEW = 5
"""Landmarks that a graph should have at least, where it is not known how many states there are."""

STATES_PER_LANDMARK = 20
"""With more distinct states for each landmark the graph is too coarse to lead anywhere."""

START_SHARE = 4
"""Training that is advised is so many times as long as it takes until landmarks are collected."""

OUTSIDE = 0.5
"""Share of landmarks that no edge joins with the largest part of the graph, above which it counts as in pieces."""

LOCALIZED = 0.05
"""Share of an evaluation's decisions; below it the agent counts as never localized."""

UNSEEN = 0.5
"""Share of the exam's goals; above it the exam asks for what training never saw."""


@dataclass(frozen=True)
class Level:
    """Success on one level of tasks, and that of the random policy on the same."""

    name: str
    episodes: int
    percent: float
    interval: tuple[float, float]
    random: Share


@dataclass(frozen=True)
class Facts:
    """What is known of a run; None where it is not known or does not apply."""

    landmarks: int | None = None
    """Landmarks that the agent may be localized to."""
    edges: int | None = None
    outside: float | None = None
    """Share of the landmarks outside the largest part of the graph."""
    states: int | None = None
    """Distinct states that training met."""
    localized: float | None = None
    """Share of the decisions of the last evaluation."""
    goals_unseen: float | None = None
    """Share of the goals of the tasks that training never came near."""
    levels: tuple[Level, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The run's settings by the names of their options, such as `agent.landmarks.limit`."""
    never_twice: bool = False
    """Observations never come twice, although a goal counts as reached only by an equal one."""


@dataclass(frozen=True)
class Finding:
    """A fact that most likely keeps a run from succeeding."""

    name: str
    says: str
    """The fact, with its number."""
    likely: str
    """What it most likely means."""
    option: str
    """What to try first."""
    page: str
    """Where more is said of it."""


def diagnose(facts: Facts) -> list[Finding]:
    """The findings, the worst first: without a graph nothing that comes after it can work."""
    found = [_graph(facts), _localization(facts), _pieces(facts), _goals(facts), _chance(facts)]
    if facts.never_twice:  # no graph helps
        found.insert(0, found.pop(3))
    return [finding for finding in found if finding is not None]


def finding_line(title: str, findings: Sequence[Finding]) -> str:
    """All of a run's findings in one line: the worst in full, the others by their numbers."""
    first, *others = findings
    also = "".join(f" Also {other.name}: {other.says}." for other in others)
    return (
        f"{title}: {first.name}: {first.says}. Most likely {first.likely}; try {first.option}.{also} See {first.page}"
    )


def _finding(name: str, says: str, likely: str, option: str) -> Finding:
    return Finding(name, says, likely, option, f"{PAGE}#{name.replace(' ', '-')}")


def _graph(facts: Facts) -> Finding | None:
    if facts.landmarks is None or facts.edges is None:
        return None
    says = f"{_count(facts.landmarks, 'landmark')}, {_count(facts.edges, 'edge')}"
    if _has_few(facts, facts.landmarks):
        of = "" if facts.states is None else f" for {_count(facts.states, 'distinct state')}"
        return _finding("few landmarks", says + of, *_few_landmarks(facts, facts.landmarks))
    if facts.edges == 0:
        return _finding("no edges", says, "hardly any way between two landmarks was walked twice", _more_edges(facts))
    return None


def _has_few(facts: Facts, landmarks: int) -> bool:
    """Whether there are too few landmarks for the size of the world; where that is not known, success decides."""
    if landmarks < 2:
        return True
    if facts.states is not None:
        return landmarks * STATES_PER_LANDMARK < facts.states
    return landmarks < FEW and any(not _beats_random(level) for level in facts.levels)


def _few_landmarks(facts: Facts, landmarks: int) -> tuple[str, str]:
    limit, add = (_number(facts, f"agent.landmarks.{name}") for name in ("limit", "add-threshold"))
    if limit is not None and landmarks >= limit:
        return "the limit of landmarks is too low for this world", f"--agent.landmarks.limit {4 * limit}"
    names = ("agent.landmarks.start-step", "agent.landmarks.add-every", "train.steps")
    start, apart, steps = (_number(facts, name) for name in names)
    if start is not None and steps is not None and start + (FEW - 1) * (apart or 0) >= steps:
        longer = f"--train.steps {max(2 * steps, START_SHARE * start)}"
        return f"training ended {'before' if start >= steps else 'soon after'} landmarks are collected", longer
    if add is not None and add < 1:
        higher = 0.9 if add < 0.9 else round((1 + add) / 2, 3)
        return "the states look alike to the agent, so that none counts as new", (
            f"--agent.landmarks.add-threshold {higher}"
        )
    return "training was too short", _more_steps(facts)


def _localization(facts: Facts) -> Finding | None:
    threshold = _number(facts, "agent.landmarks.localize-threshold")
    if facts.localized is None or not facts.landmarks:
        return None
    # With a threshold of 1 only identical observations count, so that few decisions are localized in good runs too.
    if facts.localized >= LOCALIZED or (threshold is not None and threshold >= 1 and facts.localized > 0):
        return None
    add = _number(facts, "agent.landmarks.add-threshold") or 0.0
    option = _more_steps(facts)
    if threshold is not None:
        lower = round((threshold + add) / 2, 3) if add < threshold else round(threshold - 0.1, 3)
        option = f"--agent.landmarks.localize-threshold {lower}"
    says = f"in {100 * facts.localized:.1f}% of the decisions of the evaluation the agent was at a landmark"
    return _finding("nobody localized", says, "what counts as being at a landmark is too strict", option)


def _pieces(facts: Facts) -> Finding | None:
    if facts.outside is None or facts.outside <= OUTSIDE or not facts.edges:
        return None
    says = f"{100 * facts.outside:.0f}% of the landmarks are not joined with the largest part of the graph"
    likely = "too few of the ways between landmarks were walked to count as edges"
    return _finding("graph in pieces", says, likely, _more_edges(facts))


def _goals(facts: Facts) -> Finding | None:
    if facts.goals_unseen is None or facts.goals_unseen <= UNSEEN:
        return None
    says = f"training never came near {100 * facts.goals_unseen:.0f}% of the goals"
    if facts.never_twice:
        return _finding("goals never seen", says, NEVER_TWICE, "--env.goal-test my_module:my_function")
    return _finding(
        "goals never seen", says, "exploration ended too early or does not move outwards", _more_steps(facts)
    )


def _chance(facts: Facts) -> Finding | None:
    lost = [level for level in facts.levels if not _beats_random(level)]
    if not lost:
        return None
    says = ", ".join(
        f"{level.name} {level.percent:.0f}% ({interval_text(level.interval)}), "
        f"random {level.random.percent:.0f}% ({interval_text(level.random.interval)})"
        for level in lost
    )
    if all(_too_easy(level) for level in lost):
        likely = "these tasks are so easy that they tell nothing"
        return _finding("not better than random", says, likely, "a level with goals farther away")
    likely = "training was too short, or the agent does not get from one landmark to the next"
    return _finding("not better than random", says, likely, _more_steps(facts))


def _beats_random(level: Level) -> bool:
    return level.interval[0] > level.random.interval[1]


def _too_easy(level: Level) -> bool:
    """Whether so many episodes could not tell even a method that always succeeds from chance."""
    return (
        wilson(level.episodes, level.episodes)[0] <= level.random.interval[1] and level.percent >= level.random.percent
    )


def _more_edges(facts: Facts) -> str:
    threshold = _number(facts, "agent.edges.threshold")
    if threshold is None:
        return _more_steps(facts)
    dynamic = "--agent.edges.no-dynamic-threshold " if facts.settings.get("agent.edges.dynamic-threshold") else ""
    return f"{dynamic}--agent.edges.threshold 0" if dynamic or threshold > 0 else _more_steps(facts)


def _more_steps(facts: Facts) -> str:
    steps = _number(facts, "train.steps")
    return "more --train.steps" if steps is None else f"--train.steps {2 * steps}"


def _number(facts: Facts, name: str) -> float | None:
    """A setting; None where there is none, or no number: config.json may be another version's, or damaged."""
    value = facts.settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def read_facts(path: Path) -> Facts:
    """The facts in the files of a run folder; a file that is missing or cannot be read leaves its facts unknown."""
    folder = RunFolder(path)
    settings = read_settings(folder)
    own, random = read_episodes(folder.episodes), read_random(path)
    if all(row.agent == RANDOM for row in own):  # the random policy does what it does
        return Facts()
    in_maze = any(row.maze for row in own)  # where no two poses are the same
    unseen = goals_unseen(path)
    graph = _read_arrays(folder, ("graph.npz",) if in_maze else ("graph.npz", "poses.npy"))
    landmarks, edges, outside = _shape(graph)
    return Facts(
        landmarks,
        edges,
        outside,
        _distinct(graph.get("poses")),
        _last(folder.path / "eval.csv", "graph/localized_in_evaluation"),
        unseen,
        levels_of(own, random),
        settings,
        unseen is not None and unseen > UNSEEN and _never_twice(path / EXAM_FILE),
    )


def _never_twice(file: Path) -> bool:
    """Whether the exam of a run says that its observations never come twice."""
    try:
        return NEVER_TWICE in read_exam(file).note
    except UsageError:  # there is none, or it cannot be read: other commands say so
        return False


def run_line(path: Path) -> str | None:
    """The line of one run; None where there is nothing to say."""
    own = read_episodes(RunFolder(path).episodes)
    findings = diagnose(read_facts(path)) if own else []
    return finding_line(run_title(own), findings) if findings else None


def goals_unseen(path: Path) -> float | None:
    """Share of the goals that training never came near, at the last evaluation; None where it is not known."""
    return _last(path / "eval.csv", "explore/goals_unseen")


def levels_of(rows: Sequence[EpisodeRow], random: Sequence[EpisodeRow]) -> tuple[Level, ...]:
    """One run's last evaluation beside the random policy, on each level that both have."""
    last = max((row.env_steps for row in rows), default=0)
    rows = [row for row in rows if row.env_steps == last and row.agent != RANDOM]
    found = []
    for name in dict.fromkeys(row.level for row in rows):
        ours, theirs = (share_of([row for row in part if row.level == name]) for part in (rows, random))
        if ours is not None and theirs is not None:
            found.append(Level(name, ours.episodes, ours.percent, ours.interval, theirs))
    return tuple(found)


def read_settings(folder: RunFolder) -> dict[str, Any]:
    """The numbers among the settings in config.json by the names of their options, also of runs of another version."""
    try:
        experiment = read_json(folder.config)["experiment"]
    except (OSError, FileError, KeyError, TypeError):
        return {}
    return dict(_flat(experiment, ""))


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        key = prefix + name.replace("_", "-")
        if isinstance(inner, dict):
            yield from _flat(inner, f"{key}.")
        elif isinstance(inner, bool | int | float):
            yield key, inner


GRAPH = ("origin", "edge_sources", "edge_targets", "doubted")


def _read_arrays(folder: RunFolder, names: Sequence[str]) -> dict[str, Array]:
    """Landmarks and edges of the last checkpoint, and where it is asked for the poses of training."""
    try:
        _, files = checkpoint.read_files(folder.last, names)
        packed = arrays_in(files["graph.npz"], "graph.npz")
        found = {name: packed[name] for name in GRAPH if name in packed}
        if "poses.npy" in files:
            found["poses"] = array_in(files["poses.npy"], "poses.npy")
        return found
    except (CheckpointError, FileError, OSError, KeyError):
        return {}


def _shape(graph: Mapping[str, Array]) -> tuple[int | None, int | None, float | None]:
    """Landmarks, edges, and the share of landmarks outside the largest part; nothing of a method without a graph."""
    if not {"origin", "edge_sources", "edge_targets"} <= set(graph):
        return None, None, None
    count = len(graph["origin"])
    used = np.ones(count, bool)
    doubted = np.flatnonzero(graph.get("doubted", np.zeros(0, bool)))
    used[doubted[doubted < count]] = False
    sources, targets = graph["edge_sources"].astype(np.int64), graph["edge_targets"].astype(np.int64)
    if not used.any():
        return 0, len(sources), None
    joined = coo_array((np.ones(len(sources)), (sources, targets)), shape=(count, count))
    _, parts = connected_components(joined, directed=True, connection="weak")
    largest = int(np.bincount(parts[used]).max())
    return int(used.sum()), len(sources), 1 - largest / int(used.sum())


def _distinct(poses: Array | None) -> int | None:
    """How many distinct poses are among those of training [N, 3]; None where they are not known."""
    if poses is None:
        return None
    known = poses[np.isfinite(poses).all(1)]
    return len(np.unique(known, axis=0)) if len(known) else None


def _last(file: Path, column: str) -> float | None:
    """The newest number in a column of eval.csv."""
    try:
        values = read_columns(file).get(column, [])
    except OSError:
        return None
    return next((value for value in reversed(values) if not math.isnan(value)), None)


def run_title(rows: Iterable[EpisodeRow]) -> str:
    """What a run is called in its line."""
    first = next(iter(rows))
    return f"{first.experiment or first.agent} seed {first.seed}"
