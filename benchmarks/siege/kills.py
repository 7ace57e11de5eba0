"""Runs that are killed, again and again, and end as if they had not been.

A case kills one run several times, resumes it each time, and holds the end against a run that was never stopped:
every row without its times, every file of the last checkpoint, the history. After each kill: no checkpoint that is not
what it says it is, no process, shared memory or temporary file left behind.

`python -m benchmarks.siege.kills --kills 1000 --jobs 14` goes on where `benchmarks/results/siege-kills.csv` ends.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.siege import names, warm, watch
from benchmarks.siege.case import Broken, Family, Outcome, Room, chance
from benchmarks.siege.commands import Command, Ended, execute, until
from benchmarks.siege.field import Field
from benchmarks.siege.forked import traceback
from benchmarks.siege.sameness import Parts, parts_of, require_same, require_whole, steps_of

RESULTS = Path(__file__).parents[1] / "results" / "siege-kills.csv"
COLUMNS = ("seed", "kind", "kills", "outcome", "where")
LONGEST = 240.0
"""Seconds that a command may take, however busy the machine."""


# ---- what is killed


@dataclass(frozen=True)
class World:
    """A run of some seconds that saves often."""

    experiment: str
    options: str
    seeds: int
    """Different runs; each needs one that is never stopped."""

    def words(self, seed: int) -> list[str]:
        """The command that begins it."""
        return ["train", self.experiment, "--tiny", "--device", "cpu", "--seed", str(seed), *self.options.split()]


GRID = World(
    names.GRID,
    "--train.steps 2400 --train.checkpoint-every 120 --train.eval-every 400 --train.log-every 80",
    seeds=3,
)
MAZE = World(
    names.MAZE,
    "--train.env-count 2 --train.steps 480 --train.checkpoint-every 60 --train.log-every 40 --train.eval-every 240 "
    "--eval.episodes 1 --eval.parallel 2 --env.max-steps 40 --agent.replay-size 1000",
    seeds=2,
)
_TABLE = "reproduce curves-minigrid --tiny --jobs 2 --device cpu --seeds 1"
TABLE = [*_TABLE.split(" "), "--only", "^(sfl|random)-fourroom"]
TABLE_RUNS = "runs/reproduce-tiny"


@dataclass(frozen=True)
class Reference:
    """What comes out when nobody disturbs it."""

    seconds: float
    runs: dict[str, Parts]
    """By their folders below the folder of runs."""


def reference_of(room: Room, name: str, words: list[str]) -> Reference:
    """Made by the first case that asks, kept beside the base."""
    folder = room.base / "uninterrupted"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / f"{name}.json"
        if not note.exists():
            began = time.monotonic()
            ended = execute(room, [*words, "--runs-dir", "uninterrupted"], LONGEST)
            if ended.code:
                raise RuntimeError(f"the uninterrupted run failed: {ended.err[-500:]}")
            seconds, made = time.monotonic() - began, room.here / "uninterrupted"
            runs = {str(path.parent.relative_to(made)): parts_of(path.parent) for path in made.rglob(names.CONFIG)}
            shutil.rmtree(made)
            note.write_text(json.dumps({"seconds": seconds, "runs": runs}))
        return Reference(**json.loads(note.read_text()))


# ---- a run under siege


class Besieged:
    """One run: begun, struck, resumed, and compared at the end."""

    def __init__(self, room: Room, dice: random.Random, world: World) -> None:
        self.room, self.dice, self.world = room, dice, world
        self.seed = dice.randrange(world.seeds)
        self.words = world.words(self.seed)
        self.folder = names.run_folder(world.experiment, self.seed)
        self.run = room.here / "runs" / self.folder
        self.reference = reference_of(room, f"{world.experiment}-{self.seed}", self.words)
        self.kills = 0
        self.where: list[str] = []

    # ---- going on

    def start(self) -> Command:
        """Begin, or go on."""
        self.before = steps_of(self.run)
        self._tables = self._table_state()
        fresh = not self.run.exists()
        return Command(self.room, self.words if fresh else ["resume", str(self.run), "--device", "cpu"])

    def finished(self, command: Command) -> bool:
        """How a command went that was left alone: True: to the end, False: it must be begun anew, as it said."""
        ended = command.wait(LONGEST)
        command.require_nothing_left()
        if ended.code == names.DONE:
            return True
        said = ended.complaint
        if steps_of(self.run) < 0 and "delete" in said:
            shutil.rmtree(self.run)
            return False
        raise Broken(f"a resume failed with exit code {ended.code}: {said[:300]}")

    def end(self, compare: bool = True) -> None:
        """Go on to the end, undisturbed."""
        while not self.finished(self.start()):
            continue
        if compare:
            require_same(self.run, self.reference.runs[self.folder])
        else:
            require_whole(self.run, finished=True)

    # ---- moments

    def moment(self, command: Command, kind: str) -> bool:
        """Wait for a moment of the run; False when it had ended before."""
        if kind == "any":
            return self._linger(command, self.reference.seconds * 1.1)
        if kind == "loop":
            return until(lambda: self._table_state() != self._tables, command, LONGEST) and self._linger(command)
        if kind == "early":
            return until(self.run.exists, command, LONGEST) and self._linger(command, 0.6)
        return self._saving(command)

    def _linger(self, command: Command, longest: float | None = None) -> bool:
        seconds = self.dice.random() * (longest or self.reference.seconds * 0.6)
        until(lambda: False, command, seconds, pause=0.005)
        return command.running

    def _saving(self, command: Command) -> bool:
        """Inside a save: when the draft has so many files, or the old one has been put aside, or rows are cut."""
        checkpoints, files = self.run / names.CHECKPOINTS, self.dice.randrange(9)
        last = checkpoints / names.LAST_OLD
        skipped = self.dice.randrange(4)  # saves that are let pass
        for _ in range(skipped):
            until(lambda: _drafts(checkpoints) > 0, command, LONGEST)
            until(lambda: _drafts(checkpoints) == 0, command, LONGEST)
        if files == 8:
            return until(last.exists, command, LONGEST, pause=0)
        return until(lambda: _drafts(checkpoints) > files, command, LONGEST, pause=0.001)

    # ---- after a strike

    def note(self) -> None:
        """Count a kill, and where it hit as far as the files tell."""
        self.kills += 1
        drafts = [path.name for path in self.run.glob("checkpoints/*") if path.suffix in names.ENDINGS]
        if drafts:
            where = "save"
        elif list(self.run.glob(f"*{names.DRAFT_ENDING}")):
            where = "rows"
        elif not self.run.exists():
            where = "start"
        elif steps_of(self.run) < 0:
            where = "early"
        else:
            where = "loop" if self._table_state() != self._tables else "start"
        self.where.append(where)
        require_whole(self.run)

    def worked(self) -> bool:
        """Whether the last command has come as far as training: it saved, or wrote rows."""
        return self._table_state() != self._tables and steps_of(self.run) > self.before

    def _table_state(self) -> tuple[int, int]:
        try:
            status = os.stat(self.run / names.TRAIN_ROWS)
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_size)


def _drafts(checkpoints: Path) -> int:
    """Files in drafts of checkpoints, and one for each draft."""
    found = 0
    with suppress(OSError), os.scandir(checkpoints) as entries:
        for entry in entries:
            if entry.name.endswith(names.DRAFT_ENDING):
                found += 1 + len(os.listdir(entry.path))
    return found


# ---- strikes: each ends a command, or leaves it to end by itself

Strike = Callable[[Besieged, Command], None]


def _process(run: Besieged, command: Command) -> None:
    """Only the command itself: its workers must find out by themselves."""
    command.family()
    command.signal(signal.SIGKILL)
    command.process.wait()
    run.note()
    command.require_nothing_left()


def _group(run: Besieged, command: Command) -> None:
    command.family()
    os.killpg(command.process.pid, signal.SIGKILL)
    command.process.wait()
    run.note()
    command.require_nothing_left()


def _everybody(run: Besieged, command: Command) -> None:
    """Main, workers and games, in any order, as the kernel's memory killer does; the next command sweeps."""
    family = list(command.family())
    run.dice.shuffle(family)
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    command.kill_all()
    run.note()
    _sweep(run.room, command)


def _sweep(room: Room, *commands: Command) -> None:
    ended = execute_listing(room)
    if ended.code:
        raise Broken(f"`sfl list` after a kill of everybody: {ended.err[-200:]!r}")
    for command in commands:
        command.require_nothing_left(1.0)


def execute_listing(room: Room) -> Ended:
    """The cheapest command there is."""
    return Command(room, ["list"]).wait(LONGEST)


def _signal(run: Besieged, command: Command) -> None:
    """A polite one: it saves, says so and ends with 130, unless it was not yet or no longer training."""
    _told_to_stop(run, command, run.dice.choice(POLITE))


def _signals(run: Besieged, command: Command) -> None:
    """Two: the second may come at any time after the first."""
    _told_to_stop(run, command, run.dice.choice(POLITE), run.dice.choice(POLITE))


POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _told_to_stop(run: Besieged, command: Command, *numbers: signal.Signals) -> None:
    for number in numbers:
        command.signal(number)
        time.sleep(run.dice.random() ** 3 * 0.3)
    ended = command.wait(LONGEST)
    run.note()
    said = "+".join(number.name for number in numbers)
    if trace := traceback(ended.err):
        raise Broken(f"{said}: {trace}")
    if ended.code not in (names.STOPPED, names.DONE):
        if run.worked() or ended.code not in [-number for number in numbers]:
            raise Broken(f"{said} ended it with {ended.code}, nothing saved: {ended.last[:200]!r}")
    elif ended.code == names.STOPPED:
        ended.complaint  # noqa: B018  (there is one)
    command.require_nothing_left()


# ---- cases


def _resumed(strike: Strike, world: World, moments: tuple[str, ...], strikes: int, room: Room, run: Besieged) -> None:
    for _ in range(strikes):
        command = run.start()
        if run.moment(command, run.dice.choice(moments)):
            strike(run, command)
        elif run.finished(command):
            break
    run.end()


def _workers(room: Room, run: Besieged) -> None:
    """All workers, all games, or some of them, while the command lives: it goes on, or says why not and is resumed."""
    command = run.start()
    for _ in range(run.dice.randint(1, 3)):
        if not run.moment(command, run.dice.choice(("any", "loop"))):
            break
        victims = command.games() if run.dice.random() < 0.4 else command.children()
        run.dice.shuffle(victims)
        for pid in victims if run.dice.random() < 0.7 else victims[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.kills += bool(victims)
        run.where.append("games" if victims else "none")
    ended = command.wait(LONGEST)
    command.require_nothing_left()
    if ended.code not in (names.DONE, names.FAILED):
        raise Broken(f"exit code {ended.code} after workers were killed: {ended.last[:200]!r}")
    if ended.code == names.FAILED:
        ended.complaint  # noqa: B018  (there is one)
        if steps_of(run.run) < 0:
            shutil.rmtree(run.run, ignore_errors=True)
    run.end(compare=False)
    for name in (names.TRAIN_ROWS, names.EVAL_ROWS, names.EPISODES):
        found, expected = (parts[name].split()[0] for parts in (parts_of(run.run), run.reference.runs[run.folder]))
        if found != expected:
            raise Broken(f"{name} has {found} rows instead of {expected}")


def _neighbour(room: Room, run: Besieged) -> None:
    """One of two runs that share a folder for temporary files is killed with all its games: the other goes on."""
    other = Besieged(room, random.Random(run.seed), MAZE)
    other.seed = (run.seed + 1) % MAZE.seeds
    other.words, other.folder = MAZE.words(other.seed), names.run_folder(MAZE.experiment, other.seed)
    other.run = room.here / "runs" / other.folder
    other.reference = reference_of(room, f"{MAZE.experiment}-{other.seed}", other.words)
    struck, alive = run.start(), other.start()
    if run.moment(struck, "loop"):
        struck.kill_all()
        run.note()
        if execute_listing(room).code:
            raise Broken("`sfl list` failed beside a run")
    if not other.finished(alive):
        raise Broken("the other run did not begin")
    struck.require_nothing_left(1.0)
    require_same(other.run, other.reference.runs[other.folder])
    run.end()


def _table(strike: str, room: Room, dice: random.Random, note: Callable[[str], None]) -> None:
    """`sfl reproduce` is killed, or one of its runs is, or everybody; the same command goes on."""
    reference = reference_of(room, "table", TABLE)
    for _ in range(3):
        command = Command(room, TABLE)
        if not until(lambda: False, command, dice.random() * reference.seconds, pause=0.01) and not command.running:
            break
        if strike == "runs":
            _kill_one(command.children(), dice)
            note("run")
            break
        note("table")
        if strike == "everybody":
            command.kill_all()
            _sweep(room, command)
            continue
        command.signal(signal.SIGKILL if strike == "process" else dice.choice(POLITE))
        ended = command.wait(LONGEST)
        if trace := traceback(ended.err):
            raise Broken(trace)
        command.require_nothing_left(30.0)
    else:
        command = Command(room, TABLE)
    _finished_table(command)
    for folder, parts in reference.runs.items():
        require_same(room.here / TABLE_RUNS / folder, parts)


def _ray_table(room: Room, dice: random.Random, note: Callable[[str], None]) -> None:
    """The same on a Ray cluster: the command is killed, or told to stop, or one of its runs, or the whole cluster."""
    reference = reference_of(room, "table", TABLE)
    words = [*TABLE, "--engine", "ray", "--address"]
    with _one_cluster_at_a_time(room), tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short:
        cluster, address = _cluster(room, short)
        try:
            for _ in range(3):
                command, seconds = Command(room, [*words, address]), 3 + dice.random() * reference.seconds
                if not until(lambda: False, command, seconds, pause=0.01) and not command.running:
                    break
                strike = dice.choice(("process", "signal", "run", "cluster"))
                note(strike)
                if strike == "run":
                    _kill_one(_runs_of(cluster), dice)
                    _finished_table(command)
                    break
                if strike == "cluster":
                    cluster.kill_all()
                    ended = command.wait(LONGEST)
                    if ended.code == names.FAILED:
                        ended.complaint  # noqa: B018  (there is one)
                    elif ended.code != names.DONE:
                        raise Broken(f"the cluster was killed, and the command ended with {ended.code}: {ended.last!r}")
                    cluster, address = _cluster(room, short)
                else:
                    command.signal(signal.SIGKILL if strike == "process" else dice.choice(POLITE))
                    if trace := traceback(command.wait(LONGEST).err):
                        raise Broken(trace)
                command.require_nothing_left(30.0)
            _finished_table(Command(room, [*words, address]))
        finally:
            cluster.kill_all()
            time.sleep(
                1.0
            )  # until its orphans are this process's children: they hide the mark that `kill_all` looks for
            watch.end_all(os.getpid())
    for folder, parts in reference.runs.items():
        require_same(room.here / TABLE_RUNS / folder, parts)


def _finished_table(command: Command) -> None:
    ended = command.wait(LONGEST)
    if ended.code:
        raise Broken(f"the table was not finished: exit code {ended.code}: {ended.last[:300]!r}")
    command.require_nothing_left()


def _kill_one(victims: list[int], dice: random.Random) -> None:
    for pid in dice.sample(victims, min(1, len(victims))):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs_of(cluster: Command) -> list[int]:
    return [pid for pid, line in cluster.family().items() if b"\0sfl\0train\0" in line or b"\0sfl\0resume\0" in line]


@contextmanager
def _one_cluster_at_a_time(room: Room) -> Iterator[None]:
    """Two clusters of one machine are in each other's way."""
    with (room.base / "cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cluster(room: Room, folder: str) -> tuple[Command, str]:
    """A Ray cluster of this machine, its files in a folder whose path is short enough for sockets, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = replace(room, environment={**room.environment, "RAY_TMPDIR": folder, "TMPDIR": folder})
    words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    cluster = Command(where, [*words, "--disable-usage-stats"], (sys.executable, "-m", "ray.scripts.scripts"))
    if not until(lambda: "--block" in cluster.said().out + cluster.said().err, cluster, LONGEST, pause=0.1):
        raise RuntimeError(f"the cluster did not start: {cluster.said().err[-300:]}")
    return cluster, f"127.0.0.1:{port}"


# ---- families

NOTED = re.compile(r"^(\d+) kills \(([a-z ]*)\): (.*)$", re.DOTALL)
"""What a case says: kills, where they hit, outcome."""


def _case(name: str, world: World, play: Callable[[Room, Besieged], None], seed: int, room: Room) -> str:
    run = Besieged(room, chance(name, seed), world)
    try:
        play(room, run)
    except Broken as broken:
        raise Broken(f"{run.kills} kills ({' '.join(run.where)}): {broken}") from None
    return f"{run.kills} kills ({' '.join(run.where)}): same"


RAY = "kill-table-ray"
HAS_RAY = importlib.util.find_spec("ray") is not None
Table = Callable[[Room, random.Random, Callable[[str], None]], None]


def _table_case(name: str, play: Table, seed: int, room: Room) -> str:
    if name == RAY and not HAS_RAY:
        return "0 kills (): Ray is not installed"
    where: list[str] = []
    try:
        play(room, chance(name, seed), where.append)
    except Broken as broken:
        raise Broken(f"{len(where)} kills ({' '.join(where)}): {broken}") from None
    return f"{len(where)} kills ({' '.join(where)}): same"


SHORT = ("kill-grid-save", "kill-maze-everybody")
"""The kinds of the short form: each kill costs the start of a command. The whole siege has all kinds."""


def _family(name: str, about: str, world: World, play: Callable[[Room, Besieged], None], weight: float) -> Family:
    return Family(name, about, partial(_case, name, world, play), weight, limit=LONGEST * 3, short=int(name in SHORT))


def _table_family(name: str, about: str, play: Table) -> Family:
    return Family(name, about, partial(_table_case, name, play), 0.5, limit=LONGEST * 4, short=0)


def _strikes(strike: Strike, world: World, moments: tuple[str, ...], count: int) -> Callable[[Room, Besieged], None]:
    return partial(_resumed, strike, world, moments, count)


_ANY = ("any", "loop", "loop", "early")
_SAME = "and resumed, it ends bit for bit as if nothing had been"
FAMILIES: tuple[Family, ...] = (
    _family("kill-grid", f"Killed at any moment {_SAME}.", GRID, _strikes(_process, GRID, _ANY, 8), 5),
    _family("kill-grid-group", f"Killed with its process group {_SAME}.", GRID, _strikes(_group, GRID, _ANY, 8), 1),
    _family("kill-grid-save", f"Killed inside a save {_SAME}.", GRID, _strikes(_process, GRID, ("save",), 5), 5),
    _family(
        "kill-grid-signal",
        f"Told to stop by TERM, INT or HUP it saves; {_SAME}.",
        GRID,
        _strikes(_signal, GRID, _ANY, 8),
        3,
    ),
    _family("kill-grid-signals", f"Told to stop twice {_SAME}.", GRID, _strikes(_signals, GRID, _ANY, 8), 2),
    _family(
        "kill-maze",
        f"In a maze, killed at any moment {_SAME}; its games end.",
        MAZE,
        _strikes(_process, MAZE, _ANY, 6),
        2,
    ),
    _family(
        "kill-maze-group", f"In a maze, killed with its group {_SAME}.", MAZE, _strikes(_group, MAZE, _ANY, 6), 0.5
    ),
    _family(
        "kill-maze-save", f"In a maze, killed inside a save {_SAME}.", MAZE, _strikes(_process, MAZE, ("save",), 6), 1
    ),
    _family(
        "kill-maze-signal", f"In a maze, told to stop, it saves; {_SAME}.", MAZE, _strikes(_signal, MAZE, _ANY, 6), 0.5
    ),
    _family(
        "kill-maze-everybody",
        f"Main, workers and games killed together {_SAME}; the next command sweeps.",
        MAZE,
        _strikes(_everybody, MAZE, _ANY, 3),
        1,
    ),
    _family(
        "kill-maze-workers", "Workers and games killed while the command lives: they are replaced.", MAZE, _workers, 0.5
    ),
    _family("kill-maze-neighbour", "What is swept is never a living run's.", MAZE, _neighbour, 0.5),
    _table_family("kill-table", "sfl reproduce killed: the same command goes on.", partial(_table, "process")),
    _table_family(
        "kill-table-signal", "sfl reproduce told to stop: the same command goes on.", partial(_table, "signal")
    ),
    _table_family("kill-table-everybody", "sfl reproduce killed with all its runs.", partial(_table, "everybody")),
    _table_family("kill-table-runs", "A run of sfl reproduce is killed: it is resumed.", partial(_table, "runs")),
    _table_family(RAY, "sfl reproduce on Ray: it, a run of it or the cluster is killed.", _ray_table),
)


# ---- the campaign


def campaign(total: int, jobs: int, out: Path = RESULTS) -> int:
    """Kill until so many kills have their rows; the exit code says whether all promises were kept."""
    seeds, kills, broken = _so_far(out)
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(",".join(COLUMNS) + "\n")
    counted, began = [kills], time.monotonic()
    with _field(jobs) as field:
        for outcome in field.run(_cases(seeds, lambda: counted[0] < total)):
            row = _row(outcome)
            counted[0] += int(row[2])
            broken += not outcome.ok
            with out.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            if not outcome.ok:
                print(f"FAILED  {outcome.case.command}\n        {outcome.what}", file=sys.stderr)
            print(f"{counted[0]:,} of {total:,} kills, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{counted[0]:,} kills, {broken:,} failures")
    return 1 if broken else 0


def _so_far(out: Path) -> tuple[set[int], int, int]:
    """Seeds that have a row, kills and failures in them."""
    if not out.exists():
        return set(), 0, 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    failures = sum(row["outcome"] != "same" for row in rows)
    return {int(row["seed"]) for row in rows}, sum(int(row["kills"]) for row in rows), failures


def _cases(done: set[int], wanted: Callable[[], bool]) -> Iterator[tuple[Family, int]]:
    seed = 0
    while wanted():
        if seed not in done and (HAS_RAY or kind_of(seed).name != RAY):  # where Ray is, these are made up for
            yield kind_of(seed), seed
        seed += 1


def kind_of(seed: int) -> Family:
    """Which family a seed of the campaign plays: every 24 seeds have all kinds in the shares of their weights."""
    deck = [family for family in FAMILIES for _ in range(max(1, round(2 * family.weight)))]
    random.Random("deck").shuffle(deck)
    return deck[seed % len(deck)]


def _row(outcome: Outcome) -> tuple[int, str, str, str, str]:
    found = NOTED.match(outcome.what)
    kills, where, said = found.groups() if found else ("0", "", outcome.what)
    return outcome.case.seed, outcome.case.family.removeprefix("kill-"), kills, said[:200], _counted(where.split())


def _counted(where: list[str]) -> str:
    return " ".join(f"{word} {where.count(word)}" for word in dict.fromkeys(where))


def _try(family: Family, options: argparse.Namespace) -> int:
    with _field(options.jobs) as field:
        outcomes = list(field.run((family, seed) for seed in options.seed))
    for outcome in outcomes:
        print(f"{outcome.seconds:4.0f} s  {outcome.case.family} {outcome.case.seed}: {outcome.what}")
    return 0 if all(outcome.ok for outcome in outcomes) else 1


@contextmanager
def _field(jobs: int) -> Iterator[Field]:
    scratch = Path(tempfile.mkdtemp(prefix="siege-kills-"))
    (scratch / "base").mkdir()
    try:
        yield Field(scratch, scratch / "base", warm.quiet_environment(scratch), jobs, None)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> int:
    """The campaign by itself."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.siege.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="rows are appended until there are so many")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="cases at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file")
    parser.add_argument("--family", help="only cases of this kind, one for each seed, and no rows")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="their seeds")
    options = parser.parse_args()
    if options.family:
        return _try(next(family for family in FAMILIES if family.name == options.family), options)
    return campaign(options.kills, options.jobs, options.out)


if __name__ == "__main__":
    sys.exit(main())
