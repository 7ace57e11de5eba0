"""Long runs, watched from outside: memory, descriptors, and files outside of the run folder.

    python -m benchmarks.siege.soak --minutes 45 --run fourroom-sfl
    python -m benchmarks.siege.soak --minutes 45 --run laptop-maze-sfl
    python -m benchmarks.siege.soak --minutes 45 --studio 20000

The replay is made so small that it is full in the first minutes. Rows, thinned, are appended to
`benchmarks/results/soak.csv`; the verdict is printed, and the exit code is 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, fields
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
from benchmarks.siege import names, warm
from benchmarks.siege.case import Room
from benchmarks.siege.commands import Command

RESULTS = Path(__file__).parents[1] / "results" / "soak.csv"
EVERY = 5.0
"""Seconds between two looks."""
ROWS = 150
"""Rows of one soak that are kept in the file; the verdict is from all."""
MOST_GROWTH = 20.0
"""MB an hour."""
BYTES_A_STEP = 12
"""What a step of training may keep for ever: where the agent was."""
SETTLED = 0.25
"""Share of the time that is taken for filling caches, beside the filling of the replay."""

REPLAY = 20_000
OPTIONS = {
    names.GRID: "--train.eval-every 20000 --train.checkpoint-every 20000 --train.log-every 1000",
    names.MAZE: "--train.eval-every 10000 --train.checkpoint-every 5000 --train.log-every 500 --eval.episodes 10",
}
"""How often a run evaluates and saves: often, because that is what could leak."""


@dataclass(frozen=True)
class Sample:
    """One look."""

    seconds: float
    steps: int
    """Environment steps, or requests that were answered."""
    main_mb: float
    """Resident memory of the command."""
    others_mb: float
    """Of its workers and games together."""
    processes: int
    descriptors: int
    """Open in the command."""
    other_descriptors: int
    """Open in its workers and games together."""
    outside_files: int
    """Files in its folders for temporary files and for the user, and in shared memory."""
    outside_mb: float


EMPTY = Sample(0.0, 0, 0.0, 0.0, 0, 0, 0, 0, 0.0)
STUDIO = "studio"


def look(command: Command, room: Room, began: float, steps: int) -> Sample:
    """At everything, now."""
    family = [command.process.pid, *command.children()]
    memory = [_resident(pid) for pid in family]
    open_files = [_descriptors(pid) for pid in family]
    outside = list(_outside(command, room))
    return Sample(
        round(time.monotonic() - began, 1),
        steps,
        round(memory[0], 2),
        round(sum(memory[1:]), 2),
        len(family),
        open_files[0],
        sum(open_files[1:]),
        len(outside),
        round(sum(outside) / 1e6, 3),
    )


def _resident(pid: int) -> float:
    """MB; 0 of a process that has just ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    return 0.0


def _descriptors(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _outside(command: Command, room: Room) -> Iterator[int]:
    """The sizes of files that are the command's and not in its run folder."""
    shared = Path(names.SHARED_MEMORY)
    found = [path for path in shared.glob("*") if any(path.name.endswith(one) for one in command.engines)]
    for path in [*found, *_below(room.tmp), *_below(room.home)]:
        with suppress(OSError):
            if path.is_file():
                yield path.stat().st_size


def _below(folder: Path) -> Iterator[Path]:
    """Its files; folders come and go meanwhile, which `Path.rglob` does not bear."""
    for where, _, files in os.walk(folder):
        yield from (Path(where) / file for file in files)


# ---- verdict


def verdict(samples: Sequence[Sample], full_at: int, kept: int) -> list[str]:
    """One line for each promise; a broken one begins with BROKEN. `kept`: bytes that a step may keep."""
    later = settled(samples, full_at)
    if len(later) < 8:
        return ["BROKEN: too few samples after the replay was full"]
    return [
        _memory("the command", growth(later, kept)),
        _memory("workers and games", growth(later, 0, others=True)),
        _constant("descriptors of the command", [one.descriptors for one in later]),
        _constant("descriptors of workers and games", [one.other_descriptors for one in later]),
        _constant("files outside of the run folder", [one.outside_files for one in later]),
        _constant("MB outside of the run folder", [one.outside_mb for one in later], 1.0),
    ]


def settled(samples: Sequence[Sample], full_at: int) -> list[Sample]:
    """Those after the replay was full and caches were filled."""
    warm_up = SETTLED * samples[-1].seconds
    return [one for one in samples if one.steps >= full_at and one.seconds >= warm_up]


def growth(samples: Sequence[Sample], kept: int, others: bool = False) -> float:
    """MB an hour, beyond what steps may keep: the slope between medians of pieces of the time.

    A save or an evaluation does not move the median of a piece. `others`: of workers and games, not of the command.
    """
    points = [(one.seconds, one.others_mb if others else one.main_mb - kept * one.steps / 1e6) for one in samples]
    pieces = [
        np.median(np.array(piece), axis=0) for piece in np.array_split(np.array(points), min(12, len(points) // 2))
    ]
    slopes = [3600 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(pieces, 2)]
    return float(np.median(slopes))


def _memory(whose: str, grown: float) -> str:
    said = f"memory of {whose}: {grown:+.1f} MB an hour, of {MOST_GROWTH:g} allowed"
    return said if grown < MOST_GROWTH else f"BROKEN: {said}"


def _constant(what: str, values: Sequence[float], slack: float = 0.0) -> str:
    """The least of the last third is not above that of the first.

    More are open while an evaluation or a request is under way, and evaluations take their share of the time.
    """
    third = max(1, len(values) // 3)
    first, last = (sorted(part) for part in (values[:third], values[-third:]))
    said = f"{what}: {_spread(first)} in the first third, {_spread(last)} in the last"
    grown = last[0] > first[0] + slack
    return f"BROKEN: {said}" if grown else said


def _spread(ordered: Sequence[float]) -> str:
    return f"{ordered[0]:g} to {ordered[-1]:g}, mostly {ordered[len(ordered) // 2]:g}"


# ---- what is watched


def train(experiment: str, minutes: float, room: Room, seed: int) -> tuple[str, list[Sample], list[str]]:
    """A training run with more steps than it can make in that time; then it is told to stop, and saves."""
    words = ["train", experiment, "--device", "cpu", "--seed", str(seed), "--train.steps", "1000000000"]
    words += ["--agent.replay-size", str(REPLAY), *OPTIONS[experiment].split()]
    run = room.here / "runs" / names.run_folder(experiment, seed)
    command, began = Command(room, words), time.monotonic()
    samples = []
    while time.monotonic() - began < 60 * minutes and command.running:
        time.sleep(EVERY)
        samples.append(look(command, room, began, _steps(run)))
        _thin_history(run)
    command.signal(signal.SIGTERM)
    ended = command.wait(300)
    lines = verdict(samples, REPLAY, BYTES_A_STEP)
    if ended.code != names.STOPPED:
        lines.append(f"BROKEN: it ended with {ended.code}: {ended.err[-300:]!a}")
    command.require_nothing_left()
    return "sfl " + " ".join(words), samples, lines


def _steps(run: Path) -> int:
    """By the last whole row of its table."""
    with suppress(OSError, IndexError, ValueError), (run / names.TRAIN_ROWS).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        return int(file.read().rpartition(b"\n")[0].rpartition(b"\n")[2].split(b",")[0])
    return 0


def _thin_history(run: Path) -> None:
    """All but the newest old checkpoints go: hundreds of them would fill the disk of whoever looks on."""
    old = sorted(path for path in (run / names.CHECKPOINTS).glob("*") if path.name.isdecimal())
    for path in old[:-3]:
        shutil.rmtree(path, ignore_errors=True)


def studio(requests: int, minutes: float, room: Room) -> tuple[str, list[Sample], list[str]]:
    """The page's requests, spread over the time."""
    run = f"runs/{names.run_folder(names.GRID)}"
    made = Command(room, ["train", names.GRID, "--tiny", "--device", "cpu"]).wait(300)
    if made.code:
        raise SystemExit(made.err)
    words = ["studio", run, "--port", "0", "--no-open"]
    command, began = Command(room, words), time.monotonic()
    port = _port(command)
    _ask(port, "POST", "/api/runs/r0/fields", {"checkpoint": "last"})
    while b'"making"' in _ask(port, "GET", "/api/runs/r0/fields?checkpoint=last", None)[1]:
        time.sleep(0.1)
    samples, answers, told = [look(command, room, began, 0)], {}, time.monotonic()
    for number, (method, path, body) in enumerate(itertools.islice(_page(port), requests), 1):
        status = _ask(port, method, path, body)[0]
        answers[status] = answers.get(status, 0) + 1
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            samples.append(look(command, room, began, number))
        time.sleep(max(0.0, began + 60 * minutes * number / requests - time.monotonic()))
    command.signal(signal.SIGINT)
    ended = command.wait(60)
    lines = verdict(samples, 0, 0)
    lines.append("answers: " + ", ".join(f"{status} {count:,}x" for status, count in sorted(answers.items())))
    if set(answers) - {200, 204} or ended.code not in (names.DONE, names.STOPPED):
        lines.append(f"BROKEN: answers {answers}, exit code {ended.code}: {ended.err[-300:]!a}")
    command.require_nothing_left()
    return "sfl " + " ".join(words), samples, lines


def _port(command: Command) -> int:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and command.running:
        if "http://127.0.0.1:" in (said := command.said().out):
            return int(said.rpartition("http://127.0.0.1:")[2].partition("/")[0])
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {command.said().err[-300:]}")


Asked = tuple[str, str, object]


def _page(port: int) -> Iterator[Asked]:
    """What the page asks for, again and again: itself, maps, graphs, fields, curves, and an episode."""
    for number in itertools.count():
        for path in ("/", "/api/runs", "/api/runs/r0/map", "/api/runs/r0/graph?checkpoint=last"):
            yield "GET", path, None
        yield "GET", "/api/runs/r0/graph?checkpoint=000000600", None
        yield "GET", "/api/runs/r0/fields?checkpoint=last", None
        yield "GET", "/api/curves?runs=r0", None
        yield "GET", "/api/config?runs=r0", None
        place = {"x": 1 + number % 3, "y": 1 + number // 3 % 3, "degrees": 90 * (number % 4)}
        yield "POST", "/api/runs/r0/field", {"checkpoint": "last", **place}
        if number % 10 == 0:
            yield from _episode(port, number)


def _episode(port: int, number: int) -> Iterator[Asked]:
    """A live episode, heard to its end; every third is left alone and stopped."""
    task = {"start": [1, 1, 0], "goal": [7, 7, 0], "budget": 12, "seed": number}
    status, told = _ask(port, "POST", "/api/live", {"players": [{"run": "r0", "checkpoint": "last"}], **task})
    if status != 200:
        return
    name = json.loads(told)["id"]
    order = {"do": "stop"} if number % 3 == 0 else {"do": "play", "speed": 60}
    yield "POST", f"/api/live/{name}", order
    yield "GET", f"/api/live/{name}/events", None


def _ask(port: int, method: str, path: str, body: object) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()


# ---- rows


def write(out: Path, name: str, samples: Sequence[Sample]) -> None:
    """Append the rows of one soak, as many as are kept."""
    fresh = not out.exists()
    out.parent.mkdir(parents=True, exist_ok=True)
    step = max(1, -(-len(samples) // ROWS))
    with out.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(["soak", *(field.name for field in fields(Sample))])
        writer.writerows([name, *astuple(one)] for one in samples[::step])


def sample(row: dict[str, str]) -> Sample:
    """What was seen, from its row."""
    return Sample(*(type(kind)(row[name]) for name, kind in asdict(EMPTY).items()))


def main() -> int:
    """Watch one thing for some time."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.siege.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=45.0, help="how long")
    parser.add_argument("--run", choices=sorted(OPTIONS), help="train this experiment")
    parser.add_argument("--studio", type=int, metavar="REQUESTS", help="serve the page, and ask so often")
    parser.add_argument("--seed", type=int, default=0, help="of the run")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file")
    options = parser.parse_args()
    if (options.run is None) == (options.studio is None):
        parser.error("give either --run or --studio")
    scratch = Path(tempfile.mkdtemp(prefix="soak-"))
    room = Room(scratch, scratch, warm.quiet_environment(scratch))
    for folder in (room.here, room.tmp, room.home):
        folder.mkdir()
    room = Room(scratch, scratch, {**room.environment, "TMPDIR": str(room.tmp), "HOME": str(room.home)})
    try:
        if options.run:
            command, samples, lines = train(options.run, options.minutes, room, options.seed)
        else:
            command, samples, lines = studio(options.studio, options.minutes, room)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    write(options.out, options.run or STUDIO, samples)
    last = samples[-1]
    print(f"{command}\n{last.seconds / 60:.1f} minutes, {last.steps:,} steps or requests, {len(samples)} looks")
    print(*lines, sep="\n")
    return 1 if any(line.startswith("BROKEN") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
