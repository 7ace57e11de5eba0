"""One function for each command: a call into `run`, and the result on stdout."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfl.cli.options import (
    BenchOptions,
    DemoOptions,
    DoctorOptions,
    EvalOptions,
    ExportOptions,
    ListOptions,
    PlotOptions,
    ReportOptions,
    ResumeOptions,
    SizeOptions,
    VideoOptions,
)
from sfl.cli.parsing import parse
from sfl.errors import UsageError
from sfl.files import require_replaceable
from sfl.run.log import note

PARTS = ("env", "agent", "train", "eval")  # of an experiment, each with its own options


def list_experiments(options: ListOptions) -> int:
    """Name every place and every agent."""
    from sfl.experiments.names import overview

    print(*overview(), sep="\n")
    return 0


def doctor(options: DoctorOptions) -> int:
    """Look at the installation."""
    from sfl.run.log import print_table
    from sfl.run.machine import examine

    findings = examine()
    print_table([["what", "", "answer"], *([f.name, "ok" if f.fine else "WRONG", f.answer] for f in findings)], True)
    return 0 if all(finding.fine for finding in findings) else 1


def train(args: Sequence[str]) -> int:
    """Train an agent in a place, which comes first: both decide which options there are."""
    if not args or args[0].startswith("-"):
        if {"-h", "--help"} & set(args):
            parse(SizeOptions, ["--help"], "sfl train PLACE")
        raise UsageError("Name the place first: sfl train PLACE [--agent NAME] [OPTIONS]; `sfl list` shows all.")
    from sfl.run.train import train as run_training

    experiment, options = configure(args)
    folder = run_training(experiment, options.seed, options.runs_dir, options.device, options.threads, options.wandb)
    _print_report(folder.path)
    return 0


def configure(args: Sequence[str]) -> tuple[Any, Any]:
    """The words of `sfl train`, place first, as an experiment and the rest of the options."""
    from sfl import experiments

    sizes = parse(SizeOptions, [word for word in args[1:] if word not in ("-h", "--help")], "sfl train", strict=False)
    experiment = experiments.get(args[0], sizes.agent_name)
    if experiments.new_name(args[0]) != args[0]:
        note(f"{args[0]} has a new name: sfl train {shlex.join(experiments.words(experiment.name))}")
    if sizes.tiny:
        experiment = experiments.tiny(experiment)
    experiment = experiments.scaled(experiment, sizes.scale)
    options: Any = parse(_with_settings(experiment), args[1:], f"sfl train {args[0]}")
    settings = {part: getattr(options, part) for part in PARTS}
    return dataclasses.replace(experiment, name=options.name or experiment.name, **settings), options


def _with_settings(experiment: Any) -> type[Any]:
    """The options of `sfl train` with every setting of the experiment, its values as defaults."""
    values = {part: getattr(experiment, part) for part in PARTS}
    settings = [(part, type(value), dataclasses.field(default=value)) for part, value in values.items()]
    return dataclasses.make_dataclass("TrainOptions", settings, bases=(SizeOptions,), frozen=True)


def resume(options: ResumeOptions) -> int:
    """Go on with a run."""
    from sfl.run.train import resume as resume_training

    folder = resume_training(options.run, options.device, options.threads, options.wandb)
    _print_report(folder.path)
    return 0


def _print_report(path: Path) -> None:
    from sfl.run.report import summarise_runs

    _show_report(summarise_runs([path]))
    print(path)


def _show_report(rows: Sequence[Any]) -> None:
    """The table, and under it what must be said of it."""
    from sfl.run.log import print_table
    from sfl.run.report import report_cells, report_lines

    print_table(report_cells(rows))
    for line in report_lines(rows):
        print(line)


def evaluate(options: EvalOptions) -> int:
    """Evaluate a run."""
    from sfl.run.compare import ask, outcome_cells
    from sfl.run.log import print_json, print_table

    words = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    as_json, path = words.pop("json"), words.pop("run")
    asked = ask(path, **words)
    rows, random = asked.rows(), asked.random_rows()
    if as_json:
        print_json([dataclasses.asdict(row) for row in [*rows, *random]])
    else:
        print_table(outcome_cells(rows, random))
    return 0


def report(options: ReportOptions) -> int:
    """Sum up runs."""
    _require_runs(options.runs, "report")
    from sfl.run.log import print_json
    from sfl.run.report import summarise_runs

    rows = summarise_runs(options.runs)
    if options.json:
        print_json([dataclasses.asdict(row) for row in rows])
    else:
        _show_report(rows)
    return 0


def _require_runs(runs: Sequence[Path], command: str) -> None:
    if not runs:
        raise UsageError(f"Name a run: sfl {command} RUN...; runs are folders such as runs/fourroom-sfl/seed-0000.")


def plot(options: PlotOptions) -> int:
    """Draw figures."""
    _require_runs(options.runs, "plot")
    if options.format and not options.paper:
        raise UsageError(f"--format {options.format} is for --paper, which was not given; without it figures are PNG.")
    from sfl.show.draw import draw, draw_paper

    print(*(draw_paper(options.runs, options.format or "pdf") if options.paper else draw(options.runs)), sep="\n")
    return 0


def video(options: VideoOptions) -> int:
    """Record an episode."""
    from sfl.show.video import record

    print(record(options.run, options.level, options.beside))
    return 0


def bench(options: BenchOptions) -> int:
    """Measure."""
    from sfl.run.log import print_rows, write_rows

    if options.out:
        require_replaceable(options.out)  # before minutes are spent
    rows = _studio_rows(options) if options.name == "studio" else _bench_rows(options)
    print_rows(rows)
    if options.out:
        write_rows(options.out, rows)
    return 0


def _studio_rows(options: BenchOptions) -> list[Any]:
    from sfl.cli.studio import require_extra

    require_extra()
    from benchmarks.bench.studio import measure_studio

    return measure_studio(options.seconds)


def _bench_rows(options: BenchOptions) -> list[Any]:
    from benchmarks.bench.__main__ import bench as measure
    from benchmarks.bench.doom import doom_bench

    from sfl import experiments

    experiment = None if options.experiment is None else experiments.get(options.experiment)
    doom = doom_bench(options.seconds, options.envs, options.encoder, experiment, options.device)
    return measure(options.name, experiments.EXPERIMENTS, doom=doom)


def export(options: ExportOptions) -> int:
    """Copy a run."""
    from sfl.run.folder import export as copy_run

    print(copy_run(options.run, options.out, options.history, options.poses).path)
    return 0


def demo(options: DemoOptions) -> int:
    """Show what SFL does."""
    from sfl import experiments
    from sfl.run.log import print_table
    from sfl.show.demo import demonstrate

    experiment = experiments.get("fourroom")
    experiment = experiments.tiny(experiment) if options.tiny else experiment
    shown = demonstrate(experiment, options.seed, options.runs_dir, options.device, options.threads)
    print_table(shown.cells)
    print("Open these:", *shown.files, sep="\n  ")
    return 0
