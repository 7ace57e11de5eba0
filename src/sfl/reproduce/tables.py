"""The paper's tables as data.

From top to bottom: the paper's own numbers, each with the place where it stands; what a finished run is measured by;
and which runs fill which rows of which table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sfl.errors import unknown_name
from sfl.run.evaluate import EpisodeRow, summarise
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import read_columns
from sfl.run.report import PERCENT

FILE = Path(__file__).with_name("paper.json")


@dataclass(frozen=True)
class PaperNumber:
    """One cell of the paper."""

    value: float
    error: float | None
    """Standard error over seeds, where the paper gives one."""
    seeds: int | None
    source: str
    """The label of its table, or the section whose text says it."""

    def __str__(self) -> str:
        return f"{self.value:g}" if self.error is None else f"{self.value:g} ± {self.error:g}"


@cache
def paper_numbers() -> dict[tuple[str, str, str, str], PaperNumber]:
    """Every number by table, row, place and measure."""
    found = {}
    for table, blocks in json.loads(FILE.read_text(encoding="utf-8")).items():
        for block in blocks:
            for row, numbers in block["rows"].items():
                errors = numbers.get("errors", [None] * len(numbers["values"]))
                for (place, measure), value, error in zip(block["columns"], numbers["values"], errors, strict=True):
                    number = PaperNumber(float(value), error, block["seeds"], block["source"])
                    found[table, row, place, measure] = number
    return found


def paper_number(table: str, row: str, place: str, measure: str) -> PaperNumber | None:
    """What the paper says of a cell; None where it says nothing."""
    return paper_numbers().get((table, row, place, measure))


ANY_NUMBER = (0.0, math.inf)


@dataclass(frozen=True)
class Measure:
    """How to read one number from a run folder."""

    heading: str
    bounds: tuple[float, float]
    """The values that it can have."""
    read: Callable[[RunFolder], float | None]
    """None: the run does not know."""


def measure_of(name: str) -> Measure:
    """The measure of that name; every other name is a level of the evaluation."""
    heading = {"paper": "the paper's task %", "any": "any task %"}.get(name, f"{name} %")
    return OTHERS.get(name) or Measure(heading, PERCENT, lambda folder: _success(folder, name))


def final_episodes(folder: RunFolder) -> list[EpisodeRow]:
    """The episodes of the last evaluation."""
    rows = read_episodes(folder.episodes)
    last = max((row.env_steps for row in rows), default=0)
    return [row for row in rows if row.env_steps == last]


def last_value(folder: RunFolder, metric: str, table: str = "train.csv") -> float | None:
    """The newest value of a column of train.csv or eval.csv; None where it has none."""
    file = folder.path / table
    values = read_columns(file).get(metric, []) if file.is_file() else []
    return next((value for value in reversed(values) if not math.isnan(value)), None)


def _success(folder: RunFolder, level: str) -> float | None:
    share = summarise(final_episodes(folder)).get(f"eval/success_{level}")
    return None if share is None else 100 * share


def _coverage(folder: RunFolder, metric: str = "explore/coverage") -> float | None:
    share = last_value(folder, metric)
    return None if share is None else 100 * share


OTHERS = {
    "coverage": Measure("coverage %", PERCENT, _coverage),
    "often": Measure("often visited %", PERCENT, lambda folder: _coverage(folder, "explore/coverage_often")),
    "landmarks": Measure("landmarks", ANY_NUMBER, lambda folder: last_value(folder, "graph/landmark_count")),
    "edges": Measure("edges", ANY_NUMBER, lambda folder: last_value(folder, "graph/edge_count")),
    "landmark distance": Measure(
        "distance of landmarks, cells",
        ANY_NUMBER,
        lambda folder: last_value(folder, "graph/landmark_distance", "eval.csv"),
    ),
}
"""Everything that is not success."""


PAPER_SEEDS = 5


@dataclass(frozen=True)
class Column:
    """One number of a row: what is measured, and where."""

    place: str
    measure: str
    """A level of the evaluation (success in percent), or a name of `measures.OTHERS`."""


@dataclass(frozen=True)
class Entry:
    """One row in one place: the runs of all seeds behind it."""

    row: str
    """What the row is called; the same in every place."""
    place: str
    experiment: str
    paper: str = ""
    """The row of the paper's numbers that it is held against; empty: the paper has none."""
    options: tuple[str, ...] = ()
    """Words for `sfl train`; `{runs}` stands for the folder of runs, `{seed}` for `seed-0003` and `{first}` for
    `seed-0000`."""
    name: str = ""
    """What runs with options of their own are called; empty: as the experiment."""
    after: tuple[str, ...] = ()
    """Experiments whose run of the same seed it reads, and which are therefore made first."""
    shared: tuple[str, ...] = ()
    """Experiments whose run of seed 0 serves all of its seeds."""

    @property
    def run(self) -> str:
        """The name of its runs."""
        return self.name or self.experiment

    def sources(self, seed: int) -> list[tuple[str, int]]:
        """Experiment and seed of every run that its run of a seed reads."""
        return [*((name, seed) for name in self.after), *((name, 0) for name in self.shared)]


@dataclass(frozen=True)
class Table:
    """One table or figure of the paper."""

    name: str
    title: str
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]
    seeds: int = PAPER_SEEDS
    curves: bool = False
    """Also draw success over environment steps."""

    @property
    def rows(self) -> list[str]:
        """The names of its rows, in order."""
        return list(dict.fromkeys(entry.row for entry in self.entries))


RANDOM_LEVELS = ("easy", "medium", "hard")
FIXED_LEVELS = (*RANDOM_LEVELS, "hardest")
GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
OURS, PAPERS = "SFL, our settings", "SFL, the paper's settings"


def _columns(places: Iterable[str], measures: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(place, measure) for place in places for measure in measures)


def _networks_of(run: str, option: str = "--agent.networks") -> tuple[str, ...]:
    """The options of a method that takes the networks of another run."""
    return (option, f"{{runs}}/{run}/checkpoints/last/networks.safetensors")


def _tuned_networks(controller: str) -> tuple[str, ...]:
    """Those of a controller. Its first run serves every seed: networks are tuned once for a maze and a spawn."""
    return _networks_of(f"{controller}/{{first}}")


def _explorer(name: str) -> tuple[str, ...]:
    return ("--agent.memory.explorer", f"{{runs}}/{name}/{{seed}}")


FROZEN = (
    *("--agent.updates-per-step", "0", "--train.steps", "1000"),
    *("--train.env-count", "8", "--train.log-every", "1000"),
)
"""A controller that learns no more: its run is an evaluation, for which 128 games need not be started."""


def _controlled(row: str, maze: str, spawn: str, paper: str) -> Entry:
    """The controller with the networks of its first run in the maze, which every seed evaluates anew."""
    controller = f"{maze}-{spawn}-spawn-controller"
    options = (*_tuned_networks(controller), *FROZEN)
    return Entry(row, maze, controller, paper, options, f"{controller}-tuned", shared=(controller,))


def _tuned(row: str, method: str, maze: str, spawn: str, paper: str) -> Entry:
    """SPTM or SGM with the networks of the controller in the same maze."""
    controller = f"{maze}-{spawn}-spawn-controller"
    experiment = f"{maze}-{spawn}-spawn-{method}"
    return Entry(row, maze, experiment, paper, _tuned_networks(controller), shared=(controller,))


def _explored(row: str, method: str, maze: str, paper: str, own_networks: bool = False) -> Entry:
    """SPTM or SGM over a graph that a frozen EC policy fills, with networks trained on FS or on EC's own walks.

    Every seed has an explorer of its own, which fills another graph.
    """
    explorer, controller = f"{maze}-fixed-spawn-ec", f"{maze}-fixed-spawn-controller"
    plain = Entry(row, maze, f"{maze}-fixed-spawn-ec-{method}", paper, _explorer(explorer), after=(explorer,))
    if own_networks:
        options = (*plain.options, *_networks_of(f"{explorer}/{{seed}}"))
        return replace(plain, options=options, name=f"{plain.experiment}-ec-networks")
    return replace(plain, options=(*plain.options, *_tuned_networks(controller)), shared=(controller,))


def _table_random() -> Table:
    mazes, entries = ("sgm", "test-2", "test-6"), []
    for maze in mazes:
        entries += [
            Entry("Random actions", maze, f"{maze}-random-spawn-random", "random"),
            _controlled("Visual controller", maze, "random", "controller"),
            _tuned("SPTM", "sptm", maze, "random", "sptm"),
            _tuned("SGM", "sgm", maze, "random", "sgm"),
            Entry(PAPERS, maze, f"{maze}-random-spawn-paper", "sfl"),
            Entry(OURS, maze, f"{maze}-random-spawn-sfl", "sfl"),
        ]
    title = "ViZDoom, random spawn: success rates"
    return Table("table-random", title, _columns(mazes, RANDOM_LEVELS), tuple(entries))


def _table_fixed() -> Table:
    mazes, entries = ("test-1", "test-4"), []
    for maze in mazes:
        entries += [
            Entry("Random actions", maze, f"{maze}-fixed-spawn-random"),
            Entry("MSS", maze, f"{maze}-fixed-spawn-mss", "mss"),
            _explored("EC + SPTM", "sptm", maze, "ec-sptm"),
            _explored("EC + SGM", "sgm", maze, "ec-sgm"),
            Entry(PAPERS, maze, f"{maze}-fixed-spawn-paper", "sfl"),
            Entry(OURS, maze, f"{maze}-fixed-spawn-sfl", "sfl"),
        ]
    title = "ViZDoom, fixed spawn: success rates"
    return Table("table-fixed", title, _columns(mazes, FIXED_LEVELS), tuple(entries))


def _curves(name: str, title: str, places: Sequence[str], experiment: str, levels: Sequence[str]) -> Table:
    """SFL and MSS over environment steps; `experiment` says how the experiments of a place are called."""
    methods = {"Random actions": "random", "MSS": "mss", PAPERS: "paper", OURS: "sfl"}
    held_against = {"mss": "mss", "paper": "sfl", "sfl": "sfl"}
    entries = tuple(
        Entry(row, place, f"{experiment.format(place)}-{method}", held_against.get(method, ""))
        for place in places
        for row, method in methods.items()
    )
    return Table(name, title, _columns(places, levels), entries, curves=True)


def _ablation_metric() -> Table:
    experiment, controller = "sgm-random-spawn-paper-reachability", "sgm-random-spawn-controller"
    networks = _networks_of(f"{controller}/{{first}}", "--agent.metric.networks")
    entries = (
        Entry("SFS, our settings", "sgm", "sgm-random-spawn-sfl", "sfl"),
        Entry("SFS, the paper's settings", "sgm", "sgm-random-spawn-paper", "sfl"),
        Entry("SPTM's reachability network", "sgm", experiment, "reachability", networks, shared=(controller,)),
    )
    title = "Ablation: the metric, random spawn in SGM-Map"
    return Table("ablation-metric", title, _columns(["sgm"], RANDOM_LEVELS), entries)


def _ablation_exploration() -> Table:
    entries = []
    for kind, whose in (("sfl", "our settings"), ("paper", "the paper's settings")):
        base = f"test-1-fixed-spawn-{kind}"
        entries += [
            Entry(f"Frontiers by inverse visits, {whose}", "test-1", f"{base}-inverse-visits-frontiers", "counts"),
            Entry(f"Uniform frontiers, {whose}", "test-1", f"{base}-uniform-frontiers", "uniform"),
        ]
    title = "Ablation: the choice of frontiers, coverage in test-1 with fixed spawn after 500,000 steps"
    return Table("ablation-exploration", title, _columns(["test-1"], ["coverage", "often"]), tuple(entries))


def _ablation_landmarks() -> Table:
    columns: tuple[Column, ...] = (Column("multiroom-n3", "paper"), Column("fourroom", "landmark distance"))
    entries = []
    for kind, whose in (("sfl", "our settings"), ("paper", "the paper's settings")):
        for place in (column.place for column in columns):
            base = f"{place}-{kind}"
            entries += [
                Entry(f"Progressive landmarks, {whose}", place, base, "progressive"),
                Entry(f"Clustered landmarks, {whose}", place, f"{base}-clustered", "clustered"),
            ]
    for place, experiment, preset in (
        ("multiroom-n3", "multiroom-n3-mss", 30),
        ("test-1", "test-1-fixed-spawn-mss", 250),
    ):
        entries.append(Entry("MSS", place, experiment))
        for times in (2, 4):
            # As many more candidates, too: else farthest points would be all that there are.
            options = ("--agent.map.landmarks", str(times * preset), "--agent.map.candidates", str(times * 1_000))
            name = f"{experiment}-{times * preset}-landmarks"
            entries.append(Entry(f"MSS, {times} times as many landmarks", place, experiment, "", options, name))
    columns += _columns(["test-1"], FIXED_LEVELS)
    title = "Ablation: how landmarks are formed, in three rooms and FourRoom; more landmarks for MSS"
    return Table("ablation-landmarks", title, columns, tuple(entries))


def _ablation_thresholds() -> Table:
    """The paper's settings are add 0.80 and localize 0.90: those two rows are the plain experiment."""
    changes = [("add", "0.70"), ("add", "0.80"), ("add", "0.90")]
    changes += [("localize", "0.80"), ("localize", "0.90"), ("localize", "0.95")]
    changes += [("learning-rate", "1e-3"), ("learning-rate", "1e-4"), ("learning-rate", "1e-5")]
    options = {setting: f"--agent.landmarks.{setting}-threshold" for setting in ("add", "localize")}
    options["learning-rate"] = "--agent.successor.learning-rate"
    preset = {("add", "0.80"), ("localize", "0.90"), ("learning-rate", "1e-4")}
    entries = []
    for kind, whose in (("paper", "the paper's settings"), ("sfl", "our settings")):
        base = f"sgm-random-spawn-{kind}"
        for setting, value in changes:
            paper = "" if setting == "learning-rate" else f"{setting}-{value}"
            entry = Entry(f"{setting} {value}, {whose}", "sgm", base, paper)
            if kind == "sfl" or (setting, value) not in preset:
                entry = replace(entry, options=(options[setting], value), name=f"{base}-{setting}-{value}")
            entries.append(entry)
        if kind == "sfl":
            entries.append(Entry("as it is, our settings", "sgm", base))
    entries.append(_tuned("SGM", "sgm", "sgm", "random", "sgm"))
    title = "Ablation: thresholds and learning rate, random spawn in SGM-Map"
    return Table("ablation-thresholds", title, _columns(["sgm"], RANDOM_LEVELS), tuple(entries), seeds=1)


def _ablation_filters() -> Table:
    no_cleanup = ("--agent.edges.failure-limit", "0")
    no_price = ("--agent.edges.failure-steps", "0", "--agent.edges.doubt", "0")
    all_off = ("--agent.edges.temporal", "0", "--agent.edges.k-nearest", "0")
    off: dict[str, dict[str, tuple[str, ...]]] = {
        "paper": {
            "no filter": all_off,
            "no cleanup of failed edges": no_cleanup,
            "neither filter nor cleanup": (*all_off, *no_cleanup),
        },
        "sfl": {
            "no filter": all_off,
            "failures cost nothing": no_price,
            "neither filter nor price": (*all_off, *no_price),
        },
    }
    entries = []
    for kind, whose in (("paper", "the paper's settings"), ("sfl", "our settings")):
        for place, spawn in (("test-1", "fixed"), ("sgm", "random")):
            base = f"{place}-{spawn}-spawn-{kind}"
            entries.append(Entry(f"all, {whose}", place, base, "all"))
            for row, options in off[kind].items():
                paper = "none" if row.startswith("neither") else ""
                name = f"{base}-{row.replace(' ', '-')}"
                entries.append(Entry(f"{row}, {whose}", place, base, paper, options, name))
    columns = (*_columns(["test-1"], (*FIXED_LEVELS, "landmarks", "edges")), *_columns(["sgm"], RANDOM_LEVELS))
    return Table("ablation-filters", "Ablation: filters and cleanup of edges", columns, tuple(entries), seeds=1)


def _ablation_ec() -> Table:
    """Rows are called graph / networks / method, as the paper's: who filled the graph, who walked for the networks."""
    maze, entries = "test-1", []
    controller, anywhere = "test-1-fixed-spawn-controller", "test-1-random-spawn-controller"
    entries.append(_controlled("- / FS / controller", maze, "fixed", "controller-fs"))
    explorer = "test-1-fixed-spawn-ec"
    of_walks, of_explorer = _tuned_networks(anywhere), _networks_of(f"{explorer}/{{seed}}")
    rs, ec = (Entry(f"- / {who} / controller", maze, controller, f"controller-{who.lower()}") for who in ("RS", "EC"))
    entries += [
        replace(rs, options=(*of_walks, *FROZEN), name=f"{controller}-rs-networks", shared=(anywhere,)),
        replace(ec, options=(*of_explorer, *FROZEN), name=f"{controller}-ec-networks", after=(explorer,)),
    ]
    for method in ("sptm", "sgm"):
        shown = method.upper()
        walked = Entry(f"RS / RS / {shown}", maze, f"test-1-fixed-spawn-{method}-random-spawn-walks", f"rs-rs-{method}")
        entries += [
            _tuned(f"FS / FS / {shown}", method, maze, "fixed", f"fs-fs-{method}"),
            replace(walked, options=_tuned_networks(anywhere), shared=(anywhere,)),
            _explored(f"EC / FS / {shown}", method, maze, f"ec-fs-{method}"),
            _explored(f"EC / EC / {shown}", method, maze, f"ec-ec-{method}", own_networks=True),
        ]
    entries += [
        Entry("MSS", maze, "test-1-fixed-spawn-mss", "mss"),
        Entry(PAPERS, maze, "test-1-fixed-spawn-paper", "sfl"),
        Entry(OURS, maze, "test-1-fixed-spawn-sfl", "sfl"),
    ]
    title = "Ablation: who fills the graph and who trains the networks, fixed spawn in test-1"
    return Table("ablation-ec", title, _columns([maze], FIXED_LEVELS), tuple(entries))


def _all_tables() -> dict[str, Table]:
    tables = (
        _table_random(),
        _table_fixed(),
        _curves("curves-minigrid", "MiniGrid: success over environment steps", GRIDS, "{}", ("paper", "any")),
        _curves(
            "curves-doom",
            "ViZDoom, fixed spawn: success over environment steps",
            ("test-1", "test-4"),
            "{}-fixed-spawn",
            FIXED_LEVELS,
        ),
        _ablation_metric(),
        _ablation_exploration(),
        _ablation_landmarks(),
        _ablation_thresholds(),
        _ablation_filters(),
        _ablation_ec(),
    )
    return {table.name: table for table in tables}


TABLES = _all_tables()
ALL = "all"


def chosen_tables(name: str) -> list[Table]:
    """The table of that name, or every one for `all`; another name is answered with the nearest."""
    if name == ALL:
        return list(TABLES.values())
    if name not in TABLES:
        raise unknown_name("table", name, [*TABLES, ALL], f"There are {', '.join(TABLES)} and {ALL}.")
    return [TABLES[name]]
