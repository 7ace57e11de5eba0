"""`sfl reproduce`: plan, say so, make what is missing, report."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sfl.config import require
from sfl.errors import SflError
from sfl.reproduce.cluster import ClusterLostError, RayEngine
from sfl.reproduce.engine import Engine, Failure, LocalEngine, Machine, estimate, look_at, most_at_once, this_machine
from sfl.reproduce.plan import (
    Configure,
    Plan,
    PlannedRun,
    Progress,
    Sizes,
    make_plan,
    refuse_other_settings,
    runs_without_sources,
)
from sfl.reproduce.report import Summary, summarise_plan, write_report
from sfl.reproduce.tables import chosen_tables
from sfl.run.log import note
from sfl.run.machine import require_known, resolve
from sfl.run.stopping import RunStoppedError


@dataclass(frozen=True)
class Where:
    """Where runs are made, and where things are written."""

    runs_dir: Path
    out: Path
    engine: str = "local"
    address: str = "auto"
    jobs: int | None = None
    device: str = "auto"


@dataclass(frozen=True)
class Reproduced:
    """What came of it."""

    files: tuple[Path, ...]
    summary: Summary

    @property
    def whole(self) -> bool:
        """Every planned run is finished."""
        return not self.summary.failures and not self.summary.unfinished


def reproduce(
    name: str,
    known: Collection[str],
    configure: Configure,
    where: Where,
    sizes: Sizes,
    only: str = "",
    plan_only: bool = False,
) -> Reproduced:
    """Make the runs of a table that are missing and write its report, also when some of them fail.

    `plan_only` says what would be made, and reports what is there.
    """
    tables = chosen_tables(name)
    title = shlex.join(["sfl", "reproduce", name, *_words(sizes, only)])
    with contextlib.closing(_engine(where)) as engine:
        plan = make_plan(tables, known, configure, where.runs_dir, sizes, only)
        refuse_other_settings(plan.runs)
        states = look_at(plan.runs)
        require_writable(where.out)
        _announce(plan, states, where, engine.room())
        left = [run for run in plan.runs if states[run.path] is not Progress.FINISHED]
        try:
            if left and not plan_only:
                engine.make(left)
        except (RunStoppedError, ClusterLostError) as stopped:
            files = _report(title, sizes, plan, engine.failures, where.out)[0]
            done = sum(state is Progress.FINISHED for state in look_at(plan.runs).values())
            said = f"{stopped} {done} of {len(plan.runs)} runs are finished; see {files[0]}."
            raise type(stopped)(said) from None
    files, summary = _report(title, sizes, plan, engine.failures, where.out)
    return Reproduced(tuple(files), summary)


def require_writable(out: Path) -> None:
    """What cannot be written to is found out before the runs are made."""
    out.mkdir(parents=True, exist_ok=True)
    draft = out / ".draft"
    draft.touch()
    draft.unlink()


def _engine(where: Where) -> Engine:
    """An engine that cannot work is refused before anything is planned."""
    if where.engine == "ray":
        require_known(where.device)
        return RayEngine(where.runs_dir, where.address, where.device, where.jobs)
    require(
        where.address == "auto", f"--address {where.address} is for a Ray cluster; add --engine ray or leave it out."
    )
    resolve(where.device)
    return LocalEngine(where.runs_dir, this_machine(), where.device, where.jobs)


def _announce(plan: Plan, states: dict[Path, Progress], where: Where, machine: Machine) -> None:
    """Say beforehand how many runs there are and about how long they take."""
    left: list[PlannedRun] = [run for run in plan.runs if states[run.path] is not Progress.FINISHED]
    device = "cpu" if where.device == "auto" and not machine.gpus else where.device
    at_once = most_at_once(left, machine, device, where.jobs)
    if plan.lacking:
        rows = len({(lack.table, lack.entry.row) for lack in plan.lacking})
        note(f"{rows} rows have no experiment yet; the report names them.")
    note(f"{estimate(plan.runs, states, at_once, device)} Up to {at_once} at once, in {plan.runs_dir}.")
    if where.engine == "local":  # the nodes of a cluster have files of their own
        for reason, runs in runs_without_sources(left).items():
            note(f"{len(runs)} of them will fail, first {runs[0].title}: {reason}")


def _words(sizes: Sizes, only: str) -> list[str]:
    """The options that decide what stands in the report."""
    seeds = [] if sizes.seeds is None else ["--seeds", str(sizes.seeds)]
    return [*seeds, *(["--only", only] if only else []), *sizes.words()]


def _report(title: str, sizes: Sizes, plan: Plan, failures: list[Failure], out: Path) -> tuple[list[Path], Summary]:
    summary = summarise_plan(plan, look_at(plan.runs), failures)
    return write_report(out, title, summary, sizes.remark), summary


def complaint(made: Reproduced) -> SflError:
    """One line about the runs that failed."""
    failures = made.summary.failures
    first = f"{failures[0].run.title}: {failures[0].reason}" if failures else made.summary.unfinished[0].title
    count = len(failures) or len(made.summary.unfinished)
    left = "1 run is not finished" if count == 1 else f"{count} runs are not finished, the first"
    return SflError(f"{left}, {first.removesuffix('.')}; the others are kept, the report names all.")
