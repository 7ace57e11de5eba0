"""Options: every one of every command and experiment, with mad values, twice, without a value, misspelt."""

from __future__ import annotations

import random
import re
from typing import TypeVar

from benchmarks.siege import hostile, names
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.forked import USUAL, Limits, copy_run, judge, sfl, tree
from benchmarks.siege.fuzz_inputs import is_real

T = TypeVar("T")
TINY = ["--tiny", "--device", "cpu", "--train.steps", "120", "--train.eval-every", "120", "--eval.episodes", "1"]
EXPERIMENTS = {
    names.GRID: 4,
    names.GYM: 2,
    names.RANDOM: 1,
    names.MAZE: 3,
    "fourroom-tabular": 1,
    "fourroom-sfl-clustered": 1,
    "fourroom-mss": 1,
    "fourroom-ec": 1,
    "maze-fixed-spawn-random": 1,
    "small-fixed-spawn-ec": 1,
    "test-1-fixed-spawn-mss-oracle": 0.3,
    "test-1-fixed-spawn-sptm": 0.3,
    "test-1-fixed-spawn-sgm": 0.3,
    "test-1-fixed-spawn-controller": 0.3,
}
"""Experiments, one for each set of options, and how often each is drawn. The last ones need the paper's mazes."""
COMMANDS: dict[tuple[str, ...], float] = {
    ("eval", "run", "--episodes", "1"): 3,
    ("report", "run"): 1,
    ("plot", "run"): 0.3,
    ("video", "run"): 0.3,
    ("export", "run", "--out", "copy"): 1,
    ("resume", "run"): 1,
    ("studio", "run", "--export", "page.html"): 0.5,
    ("studio", "run", "--port", "0"): 1,
    ("maze", "build", "small", "--out", "maze.wad"): 1,
    ("maze", "import", "maze.wad", "--out", "other.wad"): 1,
    ("maze", "show", "small", "--out", "maze.png", "--views", "1"): 1,
    ("reproduce", "table-random", "--plan"): 1,
    ("list",): 0.2,
    ("doctor",): 0.1,
    ("demo", "--tiny"): 0.3,
    ("bench", "graph"): 0.2,
    ("encoder", "eval", "compact", "--mazes", "small", "--pairs", "4", "--views", "2", "--queries", "1"): 0.7,
    ("encoder", "train", "--mazes", "small", "--frames", "100", "--steps", "1", "--out", "encoder.safetensors"): 0.7,
    ("encoder", "extract", "networks.safetensors", "--out", "encoder.safetensors"): 0.4,
    (
        *("network", "train", "both", "--mazes", "small", "--frames", "100", "--steps", "1", "--out", "n.safetensors"),
        *("--retrieval.encoder", "compact", "--locomotion.encoder", "compact"),  # 512 pairs in a ResNet take 6 GB
    ): 0.5,
    ("network", "eval", "networks.safetensors"): 0.3,
    ("network", "join", "networks.safetensors", "--out", "joined.safetensors"): 0.3,
    ("network", "plot", "curve.csv", "--out", "curve.png"): 0.3,
}
"""Commands, and how often each is drawn."""

_OPTION = re.compile(r"^│ (--[\w.-]+)(?:, --no-[\w.-]+)?(?: (\S+(?: \[.*?\])?))?")
_WRITES = ("--out", "--runs-dir", "--export")
_PLACES = (
    "",
    " ",
    "x" * 300,
    "a\nb",
    "ü/日本",
    "file",
    "file/below",
    "folder",
    "here.csv",
    "./././x",
    "\udcff",
    "pipe",
    "-x",
    "nul\\x",
)
"""Where to write: in the case's own folder, because some are in its way there."""


def _options(seed: int, room: Room) -> str:
    dice = chance("options", seed)
    start = list(_drawn({tuple([*key]): often for key, often in COMMANDS.items()}, dice))
    _furnish(room, start)
    return _play(start, start, seed, room, dice)


def _settings(seed: int, room: Room) -> str:
    dice = chance("settings", seed)
    experiment = _drawn(EXPERIMENTS, dice)
    (room.here / "file").write_text("", encoding="utf-8")
    return _play(["train", experiment, *TINY], ["train", experiment], seed, room, dice)


def _drawn(often: dict[T, float], dice: random.Random) -> T:
    return dice.choices(list(often), list(often.values()))[0]


def _furnish(room: Room, start: list[str]) -> None:
    if "run" in start:
        copy_run(room, "grid" if "resume" in start else "grid-slim", "run")
    if "maze.wad" in start and "build" not in start:
        hostile.write(room.here / "maze.wad", (room.base / "files" / "maze.wad").read_bytes())
    if "curve.csv" in start:
        hostile.write(room.here / "curve.csv", "step,loss,accuracy\n1,0.5,0.5\n2,0.4,0.6\n")
    if "networks.safetensors" in start:
        source = room.base / "grid-slim" / names.CHECKPOINTS / names.LAST / names.NETWORKS
        hostile.write(room.here / "networks.safetensors", source.read_bytes())
    hostile.write(room.here / "file", "")
    (room.here / "folder").mkdir()


def _play(start: list[str], asking: list[str], seed: int, room: Room, dice: random.Random) -> str:
    """A command with mad options; without a value of its own it goes on for ever, so Ctrl-C may end it."""
    helped = sfl([*_command(asking), "--help"], room)
    known = _known(helped.out)
    if helped.code or not known:
        return judge(helped)
    words, nonsense = list(start), False
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        option, kind = dice.choice(known)
        given, wrong = _given(option, kind, dice)
        words += given
        nonsense |= wrong
    if dice.random() < 0.05:
        words[dice.randrange(len(words))] = dice.choice(_PLACES)
    before = tree(room.here)
    limits = Limits(seconds=40, stop_after=4 if not is_real(seed) else 10, memory=2 * USUAL.memory)
    ended = sfl(words, room, limits, real=is_real(seed))
    if "doctor" in words or ("studio" in words and ended.code == 0):
        nonsense = False
    said = judge(ended, True if nonsense and not {"-h", "--help"} & set(words) else None)
    if ended.code == names.WRONG_USE and (new := sorted(tree(room.here).keys() - before.keys())):
        raise Broken(f"wrong use leaves {', '.join(map(ascii, new[:4]))} behind <- {ended.shown}")
    return said


def _command(words: list[str]) -> list[str]:
    """The words that name a command, without its arguments."""
    return words[:2] if words[0] in ("train", "maze", "encoder", "network") else words[:1]


def _known(text: str) -> list[tuple[str, str]]:
    """The options that a help names, with the kind of their values (empty: a flag)."""
    found = [_OPTION.match(line) for line in text.splitlines()]
    return [(match[1], match[2] or "") for match in found if match and match[1] != "--help"]


def _given(option: str, kind: str, dice: random.Random) -> tuple[list[str], bool]:
    """Words for an option; True where they can only be refused."""
    value, wrong = _value(option, kind, dice)
    form = dice.randrange(12)
    if form == 0:
        return [option], bool(kind) and not kind.startswith("[")
    if form == 1:
        return [option + dice.choice("xz-."), value], True
    if form == 2:
        return [option, value, option, _value(option, kind, dice)[0]], False
    if form == 3:
        return [option.replace("-", "_").replace("__", "--", 1), value], False
    if not kind:
        return [f"{option}={value}" if form == 4 else option], False
    return ([f"{option}={value}"] if form % 2 else [option, value]), wrong and not value.startswith("-")


def _value(option: str, kind: str, dice: random.Random) -> tuple[str, bool]:
    if option in _WRITES:
        return dice.choice(_PLACES), False
    if "FLOAT" in kind:
        value = hostile.number(dice)
        return value, value.lower() in ("nan",)
    if "INT" in kind:
        value = hostile.number(dice) if dice.random() < 0.8 else hostile.word(dice)
        return value, "STR" not in kind and not re.fullmatch(r"\s*[+-]?[\d_]+\s*|None", value)
    if kind.startswith("{") and "STR" not in kind and "None" not in kind:
        value = hostile.word(dice)
        return value, True
    return (hostile.number if dice.random() < 0.2 else hostile.word)(dice), False


FAMILIES = (
    Family(
        "options",
        "Every option of every command, with a mad value, is obeyed or refused in one line; wrong use leaves nothing.",
        _options,
        weight=130,
        needs=("grid", "grid-slim", "files"),
        short=6,
    ),
    Family(
        "settings",
        "Every setting of every experiment, with a mad value, trains or is refused in one line before training.",
        _settings,
        weight=120,
        short=5,
    ),
)
