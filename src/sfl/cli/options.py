"""The words of each command; the docstrings are the help."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class MachineOptions:
    """Where to compute."""

    device: str = "auto"
    """auto (a GPU if there is one), cpu or cuda."""
    threads: int = 1
    """Threads of the CPU; one is fastest for small networks."""


@dataclass(frozen=True)
class ListOptions:
    """The places and agents there are."""


@dataclass(frozen=True)
class DoctorOptions:
    """Check this installation; the exit code is 1 when something is wrong."""


@dataclass(frozen=True)
class SizeOptions(MachineOptions):
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


@dataclass(frozen=True)
class ResumeOptions(MachineOptions):
    """Go on exactly where a run stopped."""

    run: Positional[Path] = dataclasses.field(kw_only=True)
    """The run folder."""
    wandb: bool = False
    """Also log to Weights & Biases."""


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


@dataclass(frozen=True)
class ReportOptions:
    """A table of success over runs: mean over seeds, error and 95% confidence interval, beside the random policy.

    A line under it says of each run that failed what it most likely lacks and which option to try."""

    runs: Positional[tuple[Path, ...]]
    """Run folders, folders of runs, or CSV files of episodes."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class PlotOptions:
    """Draw a run's figures into its folder `figures`."""

    runs: Positional[tuple[Path, ...]]
    """Run folders; several seeds of one experiment share a success curve."""
    paper: bool = False
    """Draw the paper's figures for a manuscript instead: vector graphics with captions, into `figures/paper`."""
    format: Literal["pdf", "svg"] | None = None
    """The kind of vector graphics that --paper draws; by default pdf."""


@dataclass(frozen=True)
class VideoOptions:
    """Record an evaluation episode: the map with the route, what the agent sees, believes and values, and its goal."""

    run: Positional[Path]
    """The run folder."""
    beside: Positional[Path | None] = None
    """A second run in the same world, filmed side by side on the same task."""
    level: str | None = None
    """Of which level the first task is filmed; by default the paper's, in a maze the hardest."""


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


@dataclass(frozen=True)
class DemoOptions(MachineOptions):
    """Train SFL in FourRoom, compare it with the random policy, and draw."""

    seed: int = 0
    """Seed of all chance in the run."""
    runs_dir: Path = Path("runs")
    """The run goes into a new folder demo-DATE-TIME in here."""
    tiny: bool = False
    """Shrink the experiment to seconds."""
