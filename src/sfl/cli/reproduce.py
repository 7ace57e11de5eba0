"""`sfl reproduce`: a table of the paper from one command."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from sfl.cli.commands import configure

LONGEST_NAME = 60
"""Letters of a pattern in the name of its report."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Make the runs of a table that are missing, and a report with the paper's numbers beside ours."""

    table: Positional[str]
    """table-random, table-fixed, curves-minigrid, curves-doom, ablation-metric, ablation-exploration,
    ablation-landmarks, ablation-thresholds, ablation-filters, ablation-ec, or all."""
    seeds: int | None = None
    """Seeds of every row, from 0 on; by default 5, of ablation-thresholds and ablation-filters 1."""
    only: str = ""
    """Only rows whose runs or names match this regular expression, such as 'sfl$' or fourroom."""
    scale: float = 1.0
    """Multiply the number of training steps: 0.1 for a tenth of the budget."""
    tiny: bool = False
    """Shrink every run to seconds, to see that everything works."""
    plan: bool = False
    """Make no run: say what is missing, and report what is there."""
    runs_dir: Path | None = None
    """Where the runs are made and looked for; by default runs/reproduce, with --tiny or --scale one of its own."""
    out: Path | None = None
    """Where the report goes; by default TABLE, or with --only TABLE-only-PATTERN, in the folder reports of the runs."""
    engine: Literal["local", "ray"] = "local"
    """local: processes of this machine; ray: a Ray cluster (the extra `cluster`)."""
    address: str = "auto"
    """ray: HOST:PORT of the cluster; auto: the one that this machine is part of."""
    jobs: int | None = None
    """Runs at once; by default as many as cores, memory and GPUs allow."""
    device: str = "auto"
    """auto (mazes on a GPU if there is one, grids on the CPU), cpu or cuda."""


def reproduce(options: ReproduceOptions) -> int:
    """Plan, make, report; 1 when a run failed."""
    from sfl import experiments
    from sfl.reproduce.command import Where, complaint
    from sfl.reproduce.command import reproduce as make
    from sfl.reproduce.plan import Sizes
    from sfl.reproduce.report import main_cells
    from sfl.run.log import print_table

    sizes = Sizes(options.seeds, options.scale, options.tiny)
    runs_dir = options.runs_dir or _default_runs(options)
    out = options.out or runs_dir / "reports" / _report_name(options)
    where = Where(runs_dir, out, options.engine, options.address, options.jobs, options.device)
    made = make(options.table, experiments.names(), _experiment, where, sizes, options.only, options.plan)
    for found in made.summary.tables:
        print(f"{found.table.name}: {found.table.title}")
        print_table(main_cells(found))
    print(*made.files, sep="\n")
    if not made.whole and not options.plan:
        raise complaint(made)
    return 0


def _experiment(words: Sequence[str]) -> Any:
    return configure(words)[0]


def _report_name(options: ReproduceOptions) -> str:
    """Some rows of a table have a report of their own: that of the whole table stays."""
    if not options.only:
        return options.table
    narrowed = re.sub(r"[^A-Za-z0-9]+", "-", options.only).strip("-")
    if narrowed != options.only or len(narrowed) > LONGEST_NAME:  # a folder's name does not tell such patterns apart
        narrowed = f"{narrowed[:LONGEST_NAME]}-{hashlib.sha256(options.only.encode()).hexdigest()[:8]}".strip("-")
    return f"{options.table}-only-{narrowed}"


def _default_runs(options: ReproduceOptions) -> Path:
    """Runs of another size have a folder of their own: they are other runs."""
    scaled = "" if options.scale == 1 else f"-scale-{options.scale:g}"
    return Path("runs") / f"reproduce{scaled}{'-tiny' if options.tiny else ''}"
