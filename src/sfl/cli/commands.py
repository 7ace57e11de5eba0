"""Each command: its words, whose docstrings are its help, and what it does with them.

First `sfl train`, whose options are those of an experiment; then the others, in the order of `sfl --help`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from tyro.conf import Positional, arg

from sfl.cli.parsing import parse
from sfl.errors import UsageError
from sfl.run.log import note

PARTS = ("env", "agent", "train", "eval")
"""Of an experiment, each with its own options."""


class Command(Protocol):
    """The words of a command."""

    def execute(self) -> int:
        """Do it; returns the exit code."""


@dataclass(frozen=True)
class MachineOptions:
    """Where to compute."""

    device: str = "auto"
    """auto (a GPU if there is one), cpu or cuda."""
    threads: int = 1
    """Threads of the CPU; one is fastest for small networks."""


@dataclass(frozen=True)
class TrainOptions(MachineOptions):
    """Train an agent in a place, into a new run folder."""

    agent_name: Annotated[str | None, arg(name="agent", metavar="NAME")] = None
    """Which agent: sfl (unless said otherwise), paper, random, ...; `sfl list` shows all and where they are."""
    tiny: bool = False
    """Shrink the experiment to seconds, to see that everything works."""
    scale: float = 1.0
    """Multiply the number of training steps."""
    seed: int = 0
    """Seed of all chance in the run."""
    name: str | None = None
    """What the run is called instead of PLACE-AGENT, in its folder and in its rows: a name for settings of yours."""
    runs_dir: Path = Path("runs")
    """The run folder is made in here, as PLACE-AGENT/seed-0000."""
    wandb: bool = False
    """Also log to Weights & Biases."""


def train(args: Sequence[str]) -> int:
    """Train an agent in a place, which comes first: both decide which options there are."""
    if not args or args[0].startswith("-"):
        if {"-h", "--help"} & set(args):
            parse(TrainOptions, ["--help"], "sfl train PLACE")
        raise UsageError("Name the place first: sfl train PLACE [--agent NAME] [OPTIONS]; `sfl list` shows all.")
    experiment, options = configure(args)
    from sfl.run.train import train as run_training  # which brings torch: not for help, and not for wrong words

    folder = run_training(experiment, options.seed, options.runs_dir, options.device, options.threads, options.wandb)
    _print_report(folder.path)
    return 0


def configure(args: Sequence[str]) -> tuple[Any, Any]:
    """The words of `sfl train`, place first, as an experiment and the rest of the options."""
    from sfl import experiments
    from sfl.old_names import new_option

    for old, new in [(word, new_option(word)) for word in args[1:] if new_option(word) != word]:
        note(f"{old} has a new name: {new}")
    args = [args[0], *map(new_option, args[1:])]

    sizes = parse(TrainOptions, [word for word in args[1:] if word not in ("-h", "--help")], "sfl train", strict=False)
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
    return dataclasses.make_dataclass("AllOptions", settings, bases=(TrainOptions,), frozen=True)


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


@dataclass(frozen=True)
class ListOptions:
    """The places and agents there are."""

    def execute(self) -> int:
        """Name every place and every agent."""
        from sfl.experiments.names import overview

        print(*overview(), sep="\n")
        return 0


@dataclass(frozen=True)
class ResumeOptions(MachineOptions):
    """Go on exactly where a run stopped."""

    run: Positional[Path] = dataclasses.field(kw_only=True)
    """The run folder."""
    wandb: bool = False
    """Also log to Weights & Biases."""

    def execute(self) -> int:
        """Go on with a run."""
        from sfl.run.train import resume as resume_training

        folder = resume_training(self.run, self.device, self.threads, self.wandb)
        _print_report(folder.path)
        return 0


@dataclass(frozen=True)
class EvalOptions(MachineOptions):
    """Evaluate a run; its own files stay as they are."""

    run: Positional[Path] = dataclasses.field(kw_only=True)
    """The run folder."""
    goal: str | None = None
    """A saved observation (.npy), a picture (.png), or x,y,degrees; without it the run's own tasks are posed."""
    start: str | None = None
    """Where to start, as x,y,degrees."""
    level: str | None = None
    """Only this level of the run's tasks: paper or any; in a maze easy, medium, hard or hardest; in a world of your own
    near, middle, far or any."""
    episodes: int | None = None
    """Episodes on each level."""
    pairs: str | None = None
    """ViZDoom: evaluate on the start-goal pairs in this JSON file."""
    pairs_seed: int | None = None
    """ViZDoom: evaluate on start-goal pairs drawn from this seed."""
    checkpoint: str = "last"
    """Which checkpoint: last, or a number of steps such as 000020000."""
    json: bool = False
    """Print every episode as JSON instead of a table."""

    def execute(self) -> int:
        """Evaluate a run."""
        from sfl.run.compare import ask, outcome_cells
        from sfl.run.log import print_json, print_table

        words = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        as_json, path = words.pop("json"), words.pop("run")
        asked = ask(path, **words)
        rows, random = asked.rows(), asked.random_rows()
        if as_json:
            print_json([dataclasses.asdict(row) for row in [*rows, *random]])
        else:
            print_table(outcome_cells(rows, random))
        return 0


@dataclass(frozen=True)
class ReportOptions:
    """A table of success over runs: mean over seeds, error and 95% confidence interval, beside the random policy.

    A line under it says of each run that failed what it most likely lacks and which option to try."""

    runs: Positional[tuple[Path, ...]]
    """Run folders, folders of runs, or CSV files of episodes."""
    json: bool = False
    """Print JSON instead of a table."""

    def execute(self) -> int:
        """Sum up runs."""
        _require_runs(self.runs, "report")
        from sfl.run.log import print_json
        from sfl.run.report import summarise_runs

        rows = summarise_runs(self.runs)
        if self.json:
            print_json([dataclasses.asdict(row) for row in rows])
        else:
            _show_report(rows)
        return 0


def _require_runs(runs: Sequence[Path], command: str) -> None:
    if not runs:
        raise UsageError(f"Name a run: sfl {command} RUN...; runs are folders such as runs/fourroom-sfl/seed-0000.")


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

    def execute(self) -> int:
        """Plan, make, report; 1 when a run failed."""
        from sfl import experiments
        from sfl.reproduce.command import Where, complaint
        from sfl.reproduce.command import reproduce as make
        from sfl.reproduce.plan import Sizes
        from sfl.reproduce.report import main_cells
        from sfl.run.log import print_table

        sizes = Sizes(self.seeds, self.scale, self.tiny)
        runs_dir = self.runs_dir or _default_runs(self)
        out = self.out or runs_dir / "reports" / _report_name(self)
        where = Where(runs_dir, out, self.engine, self.address, self.jobs, self.device)
        made = make(self.table, experiments.names(), _experiment, where, sizes, self.only, self.plan)
        for found in made.summary.tables:
            print(f"{found.table.name}: {found.table.title}")
            print_table(main_cells(found))
        print(*made.files, sep="\n")
        if not made.whole and not self.plan:
            raise complaint(made)
        return 0


def _experiment(words: Sequence[str]) -> Any:
    return configure(words)[0]


LONGEST_NAME = 60
"""Letters of a pattern in the name of its report."""


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


@dataclass(frozen=True)
class PlotOptions:
    """Draw a run's figures into its folder `figures`."""

    runs: Positional[tuple[Path, ...]]
    """Run folders; several seeds of one experiment share a success curve."""
    paper: bool = False
    """Draw the paper's figures for a manuscript instead: vector graphics with captions, into `figures/paper`."""
    format: Literal["pdf", "svg"] | None = None
    """The kind of vector graphics that --paper draws; by default pdf."""

    def execute(self) -> int:
        """Draw figures."""
        _require_runs(self.runs, "plot")
        if self.format and not self.paper:
            raise UsageError(f"--format {self.format} is for --paper, which was not given; without it figures are PNG.")
        from sfl.show.draw import draw, draw_paper

        print(*(draw_paper(self.runs, self.format or "pdf") if self.paper else draw(self.runs)), sep="\n")
        return 0


@dataclass(frozen=True)
class VideoOptions:
    """Record an evaluation episode: the map with the route, what the agent sees, believes and values, and its goal."""

    run: Positional[Path]
    """The run folder."""
    beside: Positional[Path | None] = None
    """A second run in the same world, filmed side by side on the same task."""
    level: str | None = None
    """Of which level the first task is filmed; by default the paper's, in a maze the hardest."""

    def execute(self) -> int:
        """Record an episode."""
        from sfl.show.video import record

        print(record(self.run, self.level, self.beside))
        return 0


@dataclass(frozen=True)
class StudioOptions:
    """Look at runs in the browser, during training as well as after it; or write the page into one file."""

    runs: Positional[tuple[Path, ...]] = ()
    """Run folders, or folders of runs."""
    port: int = 8765
    """Where the server listens; 0: any port that is free."""
    host: str = "127.0.0.1"
    """The address it listens on: this machine alone, unless another is given. Another one always has a token."""
    token: str | None = None
    """What whoever opens the page has to know: letters and digits, 8 or more. It is part of the address printed."""
    open: bool = True
    """Open the page in the browser."""
    export: Path | None = None
    """Write the recorded parts into this HTML file, which needs no server, and end."""
    demo: bool = False
    """Show a small trained agent that comes with sfl, before the runs given."""
    device: str = "cpu"
    """Where agents compute: cpu, cuda or auto."""

    def execute(self) -> int:
        """Serve the page until Ctrl-C, or export it."""
        if not self.runs and not self.demo:
            raise UsageError("Name a run: sfl studio RUN..., or `sfl studio --demo` to see one that comes with sfl.")
        require_studio()
        if self.export is not None:
            from sfl.studio.export import export

            print(export(self.runs, self.export, self.device, self.demo))
            return 0
        from sfl.studio.serve import serve
        from sfl.studio.shared import Studio

        behind = Studio(self.runs, self.device, self.demo)
        serve(behind, self.host, self.port, self.token, self.open)
        return 0


STUDIO_NEEDS = ("starlette", "uvicorn")


def require_studio() -> None:
    """What the server needs beside sfl itself must be installed."""
    if missing := [name for name in STUDIO_NEEDS if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"sfl studio needs {' and '.join(missing)}; install them with: pip install {' '.join(missing)}"
        )


@dataclass(frozen=True)
class ExportOptions:
    """A slim copy of a run that eval, plot, video and report still read."""

    run: Positional[Path]
    """The run folder."""
    out: Path | None = None
    """Where to; by default PLACE-AGENT-seed-0000 in this folder."""
    history: int = 0
    """Also so many of the small checkpoints of its history, spread over the run; for the slider of `sfl studio`."""
    poses: bool = False
    """Also where the agent was at each step of training, for maps of coverage."""

    def execute(self) -> int:
        """Copy a run."""
        from sfl.run.folder import export as copy_run

        print(copy_run(self.run, self.out, self.history, self.poses).path)
        return 0


@dataclass(frozen=True)
class DemoOptions(MachineOptions):
    """Train SFL in FourRoom, compare it with the random policy, and draw."""

    seed: int = 0
    """Seed of all chance in the run."""
    runs_dir: Path = Path("runs")
    """The run goes into a new folder demo-DATE-TIME in here."""
    tiny: bool = False
    """Shrink the experiment to seconds."""

    def execute(self) -> int:
        """Show what SFL does."""
        from sfl import experiments
        from sfl.run.log import print_table
        from sfl.show.demo import demonstrate

        experiment = experiments.get("fourroom")
        experiment = experiments.tiny(experiment) if self.tiny else experiment
        shown = demonstrate(experiment, self.seed, self.runs_dir, self.device, self.threads)
        print_table(shown.cells)
        print("Open these:", *shown.files, sep="\n  ")
        return 0


@dataclass(frozen=True)
class DoctorOptions:
    """Check this installation; the exit code is 1 when something is wrong."""

    def execute(self) -> int:
        """Look at the installation."""
        from sfl.run.log import print_table
        from sfl.run.machine import examine

        findings = examine()
        print_table(
            [["what", "", "answer"], *([f.name, "ok" if f.fine else "WRONG", f.answer] for f in findings)], True
        )
        return 0 if all(finding.fine for finding in findings) else 1


COMMANDS: dict[str, type[Command]] = {
    "list": ListOptions,
    "resume": ResumeOptions,
    "eval": EvalOptions,
    "report": ReportOptions,
    "reproduce": ReproduceOptions,
    "plot": PlotOptions,
    "video": VideoOptions,
    "studio": StudioOptions,
    "export": ExportOptions,
    "demo": DemoOptions,
    "doctor": DoctorOptions,
}
"""All but `train` and those that have commands of their own (`tools`)."""
