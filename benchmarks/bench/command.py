"""`sfl bench`: where the time of a training step goes, how fast it is, and what growing graphs and encoders cost."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.bench.doom import DoomBench, doom_bench, measure_doom
from benchmarks.bench.encoders import measure_encoders
from benchmarks.bench.growth import measure_growth
from benchmarks.bench.loops import minigrid_only
from benchmarks.bench.memory import measure_training_memory
from benchmarks.bench.rows import Row, Sizes
from benchmarks.bench.shares import measure_shares
from benchmarks.bench.speed import measure_observation, measure_speed

from sfl.errors import unknown_name
from sfl.run.log import note
from sfl.run.machine import prepare
from sfl.run.settings import Experiment

__all__ = ["MEMORY", "SHARES", "SPEED", "DoomBench", "bench", "doom_bench"]

SHARES = ("paper-fourroom", "paper-multiroom-n3", "sfl-fourroom", "sfl-multiroom-n3")
SPEED = ("paper-fourroom", "paper-multiroom-n2", "paper-multiroom-n3", "paper-multiroom-n4")
MEMORY = "sfl-fourroom"


def bench(
    name: str, experiments: Mapping[str, Experiment], sizes: Sizes | None = None, doom: DoomBench | None = None
) -> list[Row]:
    """Measure `minigrid`, `graph`, `encoders`, `doom` or `all` with one thread of the CPU; one row for each figure.

    Encoders are measured on the device of `doom`.
    """
    sizes, doom = sizes or Sizes(), doom or DoomBench()
    parts = {
        "minigrid": lambda: _minigrid(experiments, sizes),
        "graph": lambda: measure_growth(sizes),
        "encoders": lambda: measure_encoders(doom.device, sizes),
        "doom": lambda: measure_doom(doom),
    }
    if name not in (*parts, "all"):
        raise unknown_name("benchmark", name, [*parts, "all"], "There are minigrid, graph, encoders, doom and all.")
    prepare("cpu", threads=1)
    return [row for part in (parts if name == "all" else [name]) for row in parts[part]()]


def _minigrid(experiments: Mapping[str, Experiment], sizes: Sizes) -> list[Row]:
    rows = []
    for name in SPEED:
        note(f"{name}: steps per second beside a plain eager loop")
        rows += measure_speed(minigrid_only(experiments[name]), sizes)
    for name in SHARES:
        note(f"{name}: shares of a training step")
        rows += measure_shares(minigrid_only(experiments[name]), sizes)
    for env_id in dict.fromkeys(experiments[name].env.id for name in SPEED):
        rows += measure_observation(env_id, sizes)
    note(f"{MEMORY}: memory of a run")
    return rows + measure_training_memory(experiments[MEMORY], sizes)
