"""`python -m benchmarks.bench`: where the time of a training step goes, and how fast graphs, encoders, mazes and the
browser page are. One row for each figure, and whether it is what it must be.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from benchmarks.bench.doom import DoomBench, doom_bench, measure_doom
from benchmarks.bench.encoders import measure_encoders
from benchmarks.bench.graph import measure_growth
from benchmarks.bench.grids import measure_observation, measure_shares, measure_speed, minigrid_only
from benchmarks.bench.measuring import Row, Sizes, measure_training_memory
from tyro.conf import Positional

from sfl import experiments
from sfl.errors import SflError, unknown_name
from sfl.files import require_replaceable
from sfl.run.log import note, print_rows, write_rows
from sfl.run.machine import prepare
from sfl.run.settings import Experiment

SHARES = ("fourroom-paper", "multiroom-n3-paper", "fourroom-sfl", "multiroom-n3-sfl")
SPEED = ("fourroom-paper", "multiroom-n2-paper", "multiroom-n3-paper", "multiroom-n4-paper")
MEMORY = "fourroom-sfl"


@dataclass(frozen=True)
class BenchOptions:
    """Measure speed and memory."""

    name: Positional[Literal["minigrid", "graph", "encoders", "doom", "studio", "all"]] = "all"
    """minigrid: where a training step's time goes; graph: cost of growing graphs; encoders: frames per second of each
    kind; doom: decisions per second in ViZDoom, of the simulator and of the whole training loop; studio: the server of
    `sfl studio` at rest and at full size. all: everything but studio."""
    out: Path | None = None
    """Also write the rows to this CSV file."""
    seconds: float = 10.0
    """doom, studio: length of each measurement."""
    envs: int | None = None
    """doom: games of the training loop; by default the experiment's, else 64 with a GPU and 8 without."""
    encoder: str | None = None
    """doom: a shipped encoder, a file, or a kind of encoder with random weights; by default the experiment's, else
    place with a GPU and compact without."""
    experiment: str | None = None
    """doom: measure the agent of this experiment in its maze; by default the paper's settings in the maze small."""
    device: str = "auto"
    """doom, encoders: auto, cpu or cuda; everything else is measured on the CPU."""


def bench(
    name: str, known: Mapping[str, Experiment], sizes: Sizes | None = None, doom: DoomBench | None = None
) -> list[Row]:
    """Measure `minigrid`, `graph`, `encoders`, `doom` or `all` with one thread of the CPU.

    Encoders are measured on the device of `doom`.
    """
    sizes, doom = sizes or Sizes(), doom or DoomBench()
    parts = {
        "minigrid": lambda: _minigrid(known, sizes),
        "graph": lambda: measure_growth(sizes),
        "encoders": lambda: measure_encoders(doom.device, sizes),
        "doom": lambda: measure_doom(doom),
    }
    if name not in (*parts, "all"):
        raise unknown_name("benchmark", name, [*parts, "all"], "There are minigrid, graph, encoders, doom and all.")
    prepare("cpu", threads=1)
    return [row for part in (parts if name == "all" else [name]) for row in parts[part]()]


def _minigrid(known: Mapping[str, Experiment], sizes: Sizes) -> list[Row]:
    rows = []
    for name in SPEED:
        note(f"{name}: steps per second beside a plain eager loop")
        rows += measure_speed(minigrid_only(known[name]), sizes)
    for name in SHARES:
        note(f"{name}: shares of a training step")
        rows += measure_shares(minigrid_only(known[name]), sizes)
    for env_id in dict.fromkeys(known[name].env.id for name in SPEED):
        rows += measure_observation(env_id, sizes)
    note(f"{MEMORY}: memory of a run")
    return rows + measure_training_memory(known[MEMORY], sizes)


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    options = tyro.cli(BenchOptions, args=words, prog="python -m benchmarks.bench")
    try:
        if options.out:
            require_replaceable(options.out)  # before minutes are spent
        rows = _measure(options)
        print_rows(rows)
        if options.out:
            write_rows(options.out, rows)
    except SflError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _measure(options: BenchOptions) -> list[Row]:
    if options.name == "studio":
        from benchmarks.bench.studio import measure_studio  # needs the extra of the page

        return measure_studio(options.seconds)
    experiment = None if options.experiment is None else experiments.get(options.experiment)
    doom = doom_bench(options.seconds, options.envs, options.encoder, experiment, options.device)
    return bench(options.name, {name: experiments.get(name) for name in {*SPEED, *SHARES, MEMORY}}, doom=doom)


if __name__ == "__main__":
    sys.exit(main())
