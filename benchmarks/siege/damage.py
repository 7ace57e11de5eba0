"""Run folders and checkpoints that were damaged: the next command says so in one line, or nothing of it shows.

A case copies a run that was stopped halfway, damages one thing in it, and gives one command. Either the command refuses
with one line and changes nothing, or all comes out as without the damage. Another result without a word is the failure.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.siege import names
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.commands import Command, execute, until
from benchmarks.siege.forked import Ended, Limits, judge, require_same, sfl, tree
from benchmarks.siege.sameness import Parts, parts_of, steps_of

LONG = Limits(seconds=90)

# ---- runs that were stopped halfway

EXPERIMENTS = {"grid": names.GRID, "maze": names.MAZE}

HALF_GRID = ["train", names.GRID, "--tiny", "--device", "cpu", "--agent.replay-size", "2000"]
HALF_MAZE = [
    *("train", names.MAZE, "--tiny", "--device", "cpu", "--train.env-count", "2", "--train.steps", "240"),
    *("--train.checkpoint-every", "60", "--train.eval-every", "120", "--train.log-every", "40", "--eval.episodes", "1"),
    *("--eval.parallel", "2", "--env.max-steps", "40", "--agent.replay-size", "1000"),
]
HALVES = {"grid": (HALF_GRID, 600), "maze": (HALF_MAZE, 120)}


def half(room: Room, kind: str) -> Path:
    """A run that was told to stop after its first evaluation, what becomes of it, and what `sfl eval` says of it."""
    made = room.base / "halves"
    made.mkdir(exist_ok=True)
    with (made / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / kind / "expected.json").exists():
            _make_half(room, kind, made / kind)
    return made / kind


def _make_half(room: Room, kind: str, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    words, steps = HALVES[kind]
    run = room.here / place(kind)
    command = Command(room, words)
    until(lambda: steps_of(run) >= steps, command, 200.0)
    command.signal(signal.SIGTERM)
    command.wait(60.0)
    shutil.copytree(run, to / "run")
    said = execute(room, command_on(kind, "eval"), 200.0).out
    if execute(room, command_on(kind, "resume"), 200.0).code:
        raise RuntimeError("the half of a run cannot be resumed")
    (to / "expected.json").write_text(json.dumps({"said": said, "parts": parts_of(run)}))
    shutil.rmtree(room.here / "runs")


def place(kind: str) -> str:
    """Where the run is in every case, so that no output differs by a name."""
    return f"runs/{names.run_folder(EXPERIMENTS[kind])}"


def copy_half(room: Room, kind: str) -> tuple[Path, Path]:
    """A copy of it in the room, and where it comes from."""
    source, run = half(room, kind), room.here / place(kind)
    shutil.copytree(source / "run", run)
    return run, source


def command_on(kind: str, command: str) -> list[str]:
    """A command as a user would give it about this run."""
    if command == "train":
        return HALVES[kind][0]
    more = {"resume": ["--device", "cpu"], "eval": ["--episodes", "2", "--device", "cpu"], "export": ["--out", "slim"]}
    return [command, place(kind), *more.get(command, [])]


# ---- damages: what was done, in a few words

Damage = Callable[[Path, random.Random, Room], str]


def _cut(path: Path, dice: random.Random, room: Room) -> str:
    size = path.stat().st_size
    length = dice.choice((0, 1, size // 2, size - 1, dice.randrange(size + 1)))
    os.truncate(path, max(0, length))
    return f"cut to {max(0, length)} of {size} bytes"


def _zeroed(path: Path, dice: random.Random, room: Room) -> str:
    size = path.stat().st_size
    first = dice.choice((0, dice.randrange(size + 1)))
    with path.open("r+b") as file:
        file.seek(first)
        file.write(bytes(size - first))
    return f"zeros from byte {first} of {size} on"


def _flipped(path: Path, dice: random.Random, room: Room) -> str:
    content = bytearray(path.read_bytes())
    if not content:
        return "empty as it was"
    places = [dice.randrange(len(content)) for _ in range(dice.choice((1, 1, 40)))]
    for place in places:
        content[place] ^= 1 << dice.randrange(8)
    path.write_bytes(content)
    return f"{len(places)} bits flipped, the first in byte {places[0]}"


def _deleted(path: Path, dice: random.Random, room: Room) -> str:
    _remove(path)
    return "deleted"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _folder(path: Path, dice: random.Random, room: Room) -> str:
    _remove(path)
    path.mkdir()
    if dice.random() < 0.5:
        (path / "something").write_text("else\n")
    return "a folder in its place"


def _file(path: Path, dice: random.Random, room: Room) -> str:
    _remove(path)
    path.write_bytes(dice.choice((b"", b"\n", b"{}", b"[]", b"null", b"no such thing\n", b"\xff\xfe\x00")))
    return f"a file of {path.read_bytes()!r} in its place"


def _link(path: Path, dice: random.Random, room: Room) -> str:
    kind = dice.choice(("nowhere", "itself", "null device", "elsewhere"))
    if kind == "elsewhere":  # as people do who move what is large to another disk
        shutil.move(path, room.here / "elsewhere")
    else:
        _remove(path)
    targets = {"itself": path.name, "null device": os.devnull, "elsewhere": str(room.here / "elsewhere")}
    path.symlink_to(targets.get(kind, "nowhere"))
    return f"a link to {kind} in its place"


def _other(path: Path, dice: random.Random, room: Room) -> str:
    """The file of that name of another run, or of another checkpoint of this one."""
    found = [
        one for one in room.base.glob(f"*/**/{path.name}") if one.is_file() and one.read_bytes() != path.read_bytes()
    ]
    if not found:
        return _deleted(path, dice, room)
    source = dice.choice(sorted(found))
    shutil.copyfile(source, path)
    return f"that of {source.relative_to(room.base)}"


def _more(path: Path, dice: random.Random, room: Room) -> str:
    """Lines lost, doubled or torn, as an editor or a crash leaves them."""
    lines = path.read_bytes().splitlines(keepends=True)
    kind = dice.choice(("dropped", "doubled", "torn", "appended"))
    if kind == "appended" or not lines:
        torn = (bytes(200_000), dice.randbytes(500), b'"' + b"x" * 200_000 + b"\n", b"9" * 5000 + b",\n")
        path.write_bytes(b"".join(lines) + dice.choice((b"\n", b"0,0,0\n", lines[-1] if lines else b"y", *torn)))
        return "something appended"
    at = dice.randrange(len(lines))
    lines[at : at + 1] = {"dropped": [], "doubled": [lines[at]] * 2, "torn": [lines[at][: len(lines[at]) // 2]]}[kind]
    path.write_bytes(b"".join(lines))
    return f"line {at} {kind}"


def _locked(path: Path, dice: random.Random, room: Room) -> str:
    path.chmod(0)
    return "without permissions"


ON_FILES: tuple[Damage, ...] = (_cut, _zeroed, _flipped, _deleted, _folder, _file, _link, _other, _more, _locked)
ON_FOLDERS: tuple[Damage, ...] = (_deleted, _file, _folder, _link, _locked)


# ---- cases


def _one_file(kind: str, seed: int, room: Room) -> str:
    """One file or folder of the run, by the seed, and one command."""
    dice, (run, source) = chance(f"damage-{kind}", seed), copy_half(room, kind)
    paths = sorted(path for path in run.rglob("*") if names.BOARDS not in path.parts)
    path = dice.choice(paths)
    damage = dice.choice(ON_FOLDERS if path.is_dir() else ON_FILES)
    inside = os.path.relpath(path, run)
    done = f"{inside}: {damage(path, dice, room)}"
    command = dice.choice(("resume", "resume", "resume", "eval", "eval", "train", "export", "report"))
    return _judged(room, kind, command, inside, done, source)


def _one_value(kind: str, seed: int, room: Room) -> str:
    """One value in a file of JSON becomes another."""
    dice, (run, source) = chance(f"damage-values-{kind}", seed), copy_half(room, kind)
    last = run / names.CHECKPOINTS / names.LAST
    files = [last / names.FORMAT, last / names.FORMAT, last / names.GENERATORS, run / names.CONFIG, run / names.TASKS]
    path = dice.choice([one for one in files if one.exists()])
    body = json.loads(path.read_text())
    part = body
    if path.name == names.CONFIG:  # how long a run is and how often it is evaluated may be changed later
        part = {name: body["experiment"][name] for name in ("agent", "env")}
    holder, key = dice.choice([place for place in _places(part) if place[0] is not part or part is body])
    before = holder[key]
    done = f"{os.path.relpath(path, run)}: {key!r} "
    if dice.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
        done += "left out"
    else:
        holder[key] = _odd(before, dice)
        done += f"is {str(holder[key])[:60]!r} instead of {str(before)[:60]!r}"
    path.write_text(json.dumps(body))
    command = dice.choice(("resume", "resume", "eval", "export"))
    return _judged(room, kind, command, os.path.relpath(path, run), done, source)


def _places(body: Any) -> list[tuple[Any, Any]]:
    """Every value in it, by what holds it and its key; long lists by some of their entries."""
    found = []
    if isinstance(body, dict | list):
        for key in list(body) if isinstance(body, dict) else range(min(len(body), 3)):
            found += [(body, key), *_places(body[key])]
    return found


def _odd(value: Any, dice: random.Random) -> Any:
    near: list[Any] = []
    if isinstance(value, int | float) and not isinstance(value, bool):
        near = [value + 1, value - 1, -value - 1, value * 2 + 1]
    if isinstance(value, str):
        near = [value + "x", value[:-1], value.upper(), "0" * len(value)]
    if isinstance(value, dict | list):
        near = [type(value)(), [value], {"0": value}]
    strange = [None, True, "", "x", "\ud800", [], {}, [[]], -1, 0, 1e999, float("nan"), 10**400, 10**9, 0.5, "1"]
    return dice.choice(near if near and dice.random() < 0.5 else strange)


def _judged(room: Room, kind: str, command: str, inside: str, done: str, source: Path) -> str:
    expected = json.loads((source / "expected.json").read_text())
    before = tree(room.here)
    ended = sfl(command_on(kind, command), room, LONG)
    try:
        told = judge(ended, refuse=True if command == "train" else None)
        if ended.code:
            require_same(before, tree(room.here), ended)
        elif command == "resume":
            _require_result(room.here / place(kind), expected["parts"], inside, ended)
        elif command == "eval" and ended.out != expected["said"]:
            raise Broken("eval says something else than without the damage")
    except Broken as broken:
        raise Broken(f"{done}; {command}: {broken}") from None
    return f"{done}; {told}"


def _require_result(run: Path, expected: Parts, inside: str, ended: Ended) -> None:
    """As without the damage, but for what was damaged itself where no result is made from it."""
    history = inside.startswith(names.CHECKPOINTS) and not inside.startswith(f"{names.CHECKPOINTS}/{names.LAST}")
    forgiven = inside.removeprefix(f"{names.CHECKPOINTS}/") if history else "\0"
    found = parts_of(run)
    other = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    other = [name for name in other if not (name == forgiven or name.startswith(f"{forgiven}/"))]
    if other and "finished" not in ended.err:
        raise Broken(f"another result without a word: {', '.join(other)[:200]}")
    if other:
        raise Broken(f"is said to be finished, and is not the same: {', '.join(other)[:200]}")


FAMILIES: tuple[Family, ...] = (
    Family(
        "damage-grid",
        "A damaged file or folder of a run: one line and nothing changed, or exactly the same result.",
        partial(_one_file, "grid"),
        weight=3.0,
        limit=240.0,
    ),
    Family(
        "damage-values-grid",
        "A changed value in a checkpoint's JSON or the configuration: one line, or exactly the same result.",
        partial(_one_value, "grid"),
        weight=3.0,
        limit=240.0,
    ),
    Family(
        "damage-maze",
        "The same for a run in a maze.",
        partial(_one_file, "maze"),
        weight=0.3,
        limit=300.0,
        short=0,
    ),
    Family(
        "damage-values-maze",
        "The same for a run in a maze.",
        partial(_one_value, "maze"),
        weight=0.3,
        limit=300.0,
        short=0,
    ),
)
