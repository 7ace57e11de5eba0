"""What landmarks cost when there are many: localizing, edges, routes, memory."""

from __future__ import annotations

import gc
from statistics import median

import numpy as np
import torch
from benchmarks.bench.measuring import Action, Row, Sizes, in_fresh_process, median_ratio, repeats_for, row, take_turns
from torch import Tensor
from torch.nn import functional

from sfl.method.config import EdgeConfig, LandmarkConfig
from sfl.method.edges import EdgeStatistics, form_edges
from sfl.method.landmarks import Landmarks, LandmarkSet
from sfl.method.planner import Planner
from sfl.run.log import note
from sfl.run.machine import resident_megabytes
from sfl.seeding import draw_seed, spawn

ENVIRONMENTS = 8
WINDOW = 8
STRIDES = (1, -1, 7, -7, 31, -31)
"""Each landmark has an edge to the one this much further round: six edges, and routes of a realistic length."""


def measure_growth(sizes: Sizes) -> list[Row]:
    """Times for each number of landmarks, and the memory of the largest."""
    rows = []
    for count in sizes.landmarks:
        note(f"{count:,} landmarks of {sizes.features:,} features")
        rows += _localizing(count, sizes) + _planning(count, sizes)
    largest = max(sizes.landmarks)
    megabytes = in_fresh_process(_weigh_landmarks, largest, sizes.features)
    return [*rows, row("graph", f"{largest} landmarks: memory", megabytes, "MB", at_most=150)]


def _localizing(count: int, sizes: Sizes) -> list[Row]:
    """SFS and its median over the bare product of the same states with the same landmarks, a row for each landmark.

    Keys are kept with a column for each landmark, which is faster for few states; the bare product in that layout is
    reported beside.
    """
    psi, known = _random_unit(ENVIRONMENTS, sizes.features, "states"), filled_landmarks(count, sizes.features)
    envs, columns, rows = np.arange(ENVIRONMENTS), known.keys.mT, known.keys.contiguous()
    with torch.no_grad():
        actions: dict[str, Action] = {
            "product": lambda: psi @ rows.mT,
            "columns": lambda: psi @ columns,
            "localize": lambda: known.medians.slide(known.similarity(psi), envs),
        }
        for _ in range(2 * WINDOW):
            actions["localize"]()
        repeats = repeats_for(actions["localize"], sizes.turn_seconds)
        seconds = take_turns(actions, 3 * sizes.rounds, repeats)
    ratio = median_ratio(seconds["localize"], seconds["product"])
    return [
        row("graph", f"{count} landmarks: product", 1e6 * median(seconds["product"]), "us"),
        row("graph", f"{count} landmarks: product by columns", 1e6 * median(seconds["columns"]), "us"),
        row("graph", f"{count} landmarks: SFS and median", 1e6 * median(seconds["localize"]), "us"),
        row("graph", f"{count} landmarks: ratio", ratio, "times", at_most=1.5),
        row(
            "graph",
            f"{count} landmarks: ratio to columns",
            median_ratio(seconds["localize"], seconds["columns"]),
            "times",
        ),
    ]


def _planning(count: int, sizes: Sizes) -> list[Row]:
    statistics, config = ring_statistics(count), EdgeConfig()
    edges = form_edges(statistics, config, count)
    actions: dict[str, Action] = {
        "form edges": lambda: form_edges(statistics, config, count),
        "one route": lambda: Planner(edges).route(0, count // 2),
    }
    seconds = take_turns(actions, sizes.rounds, repeats=1)
    return [row("graph", f"{count} landmarks: {name}", 1e3 * median(seconds[name]), "ms") for name in actions]


def filled_landmarks(count: int, features: int) -> Landmarks:
    """Random landmarks, and environments that have seen enough for medians."""
    known = Landmarks(LandmarkConfig(window=WINDOW), features, torch.device("cpu"))
    known.set_keys(_random_unit(count, features, "landmarks"), same_landmarks=False)
    for env in range(ENVIRONMENTS):
        known.begin_episode(env)
    for _ in range(WINDOW):
        known.medians.slide(known.similarity(_random_unit(ENVIRONMENTS, features, "states")), np.arange(ENVIRONMENTS))
    return known


def ring_statistics(count: int) -> EdgeStatistics:
    """Six pairs for each landmark, each seen twice."""
    statistics = EdgeStatistics()
    for source in range(count):
        for stride in STRIDES:
            for random in (True, False):
                statistics.record(source, (source + stride) % count, steps=abs(stride), random=random)
    return statistics


def _weigh_landmarks(count: int, features: int) -> float:
    """Megabytes that landmarks, their medians and their transitions add to a process."""
    filled_landmarks(2, features)  # what torch loads on first use is not the landmarks'
    gc.collect()
    before = resident_megabytes("VmRSS")
    landmarks, known, statistics = LandmarkSet(count), filled_landmarks(count, features), ring_statistics(count)
    for index in range(count):
        landmarks.add(origin=index, step=index)
    gc.collect()
    after = resident_megabytes("VmRSS")
    assert landmarks.count == len(known.keys) == len(form_edges(statistics, EdgeConfig(), count).matrix().indptr) - 1
    return after - before


def _random_unit(count: int, features: int, name: str) -> Tensor:
    generator = torch.Generator().manual_seed(draw_seed(spawn(0, [name])[name]))
    return functional.normalize(torch.randn(count, features, generator=generator), dim=1)
