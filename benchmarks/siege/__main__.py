"""`python -m benchmarks.siege`: lay siege to sfl; exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.siege import base, warm, watch
from benchmarks.siege.case import Family, Room
from benchmarks.siege.field import Field
from benchmarks.siege.report import Report

MODULES = (
    "fuzz_options",
    "fuzz_inputs",
    "fuzz_mazes",
    "fuzz_runs",
    "fuzz_weights",
    "fuzz_surroundings",
    "fuzz_studio",
    "fuzz_library",
    "kills",
    "damage",
    "disks",
    "streams",
)
"""Each has a tuple FAMILIES."""
CASES = 7000
RESULTS = Path(__file__).parents[1] / "results" / "siege.csv"


def families() -> list[Family]:
    """Every family there is."""
    found: list[Family] = []
    for name in MODULES:
        if importlib.util.find_spec(f"benchmarks.siege.{name}") is not None:
            found += importlib.import_module(f"benchmarks.siege.{name}").FAMILIES
    return found


def main() -> int:
    """Make the base, play the cases, tell."""
    options = _options()
    every = families()
    if unknown := set(options.family) - {family.name for family in every}:
        print(f"No family {', '.join(sorted(unknown))}; there are {', '.join(f.name for f in every)}.", file=sys.stderr)
        return 2
    chosen = [family for family in every if not options.family or family.name in options.family]
    scratch = Path(tempfile.mkdtemp(prefix="siege-"))
    watch.adopt_orphans()
    began = time.monotonic()
    try:
        report = _siege(chosen, options, scratch)
    finally:
        watch.end_all(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
    print("\n".join(report.lines(time.monotonic() - began)), flush=True)
    if options.out is not None:
        report.write(options.out)
    return 1 if report.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.siege", description=__doc__)
    parser.add_argument("--family", action="append", default=[], help="only this family; may be given again")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of every family")
    parser.add_argument("--cases", type=int, default=CASES, help="how many, shared out by weight")
    parser.add_argument("--only", action="store_true", help="one case of each family: the seed given")
    parser.add_argument("--short", action="store_true", help="a few cases of most families, in 90 seconds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="cases at the same time")
    parser.add_argument("--keep", type=Path, help="copy the rooms of failed cases to this folder")
    parser.add_argument("--base", type=Path, help="keep the runs that cases copy in this folder, and use them again")
    parser.add_argument("--out", type=Path, help="write rows to this CSV file")
    return parser.parse_args()


def _siege(chosen: Sequence[Family], options: argparse.Namespace, scratch: Path) -> Report:
    kept = scratch / "base" if options.base is None else options.base.resolve()
    kept.mkdir(parents=True, exist_ok=True)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    environment = warm.quiet_environment(scratch)
    warm.load_libraries()
    _make_base(chosen, Field(scratch, kept, environment, options.workers, None))
    field = Field(scratch, kept, environment, options.workers, options.keep)
    if not options.only:  # a single case imports for itself
        warm.load(field.room("warm"))
    report = Report(chosen, options.seed)
    began = told = time.monotonic()
    plan = list(_plan(chosen, options))
    for number, outcome in enumerate(field.run(plan), 1):
        report.add(outcome)
        if not outcome.ok:
            print(f"FAILED  {outcome.case.command}\n        {outcome.what}", file=sys.stderr, flush=True)
        elif options.only:
            print(outcome.what, file=sys.stderr)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{number:,} of {len(plan):,} cases, {told - began:.0f} s", file=sys.stderr, flush=True)
    return report


def _make_base(chosen: Sequence[Family], field: Field) -> None:
    """The runs that cases copy, side by side as far as one is not made of another."""
    left = base.wanted([need for family in chosen for need in family.needs])
    while left:
        ready = [name for name in left if not set(base.MATERIALS[name].after) & set(left)]
        failed = [outcome for outcome in field.run((_maker(name), 0) for name in ready) if not outcome.ok]
        if failed:
            raise SystemExit(f"{failed[0].case.family} cannot be made: {failed[0].what}")
        left = [name for name in left if name not in ready]


def _maker(name: str) -> Family:
    def run(_: int, room: Room) -> str:
        base.make(name, room)
        return "made"

    return Family(f"base-{name}", "", run, limit=600)


def _plan(chosen: Sequence[Family], options: argparse.Namespace) -> Iterator[tuple[Family, int]]:
    """Which cases are played: families take turns, so that slow ones do not come together at the end."""
    total = sum(family.weight for family in chosen)
    counts = {
        family.name: 1 if options.only else family.short if options.short else _share(family, options.cases, total)
        for family in chosen
    }
    turns = [
        ((number + 0.5) / counts[family.name], family, options.seed + number)
        for family in chosen
        for number in range(counts[family.name])
    ]
    for _, family, seed in sorted(turns, key=lambda turn: turn[0]):
        yield family, seed


def _share(family: Family, cases: int, total: float) -> int:
    return max(1, round(cases * family.weight / total))


if __name__ == "__main__":
    sys.exit(main())
