"""Where commands run: locales, variables, terminals; folders with odd names, rights and things in their way."""

from __future__ import annotations

import os
import random
from pathlib import Path

from benchmarks.siege import hostile, names
from benchmarks.siege.case import Family, Room, chance
from benchmarks.siege.forked import Limits, copy_run, judge, require_same, sfl, tree
from benchmarks.siege.fuzz_inputs import is_real

LONG = Limits(seconds=40)
VARIABLES: dict[str, tuple[str | None, ...]] = {
    "LANG": ("C", "POSIX", "", "de_DE.ISO-8859-1", "xx_XX", None),
    "LC_ALL": ("C", "POSIX", "tr_TR.UTF-8", "nonsense", ""),
    "PYTHONIOENCODING": ("ascii", "latin-1", "utf-8:strict", "ascii:strict", "cp1252", ":replace"),
    "PYTHONUTF8": ("0", "1"),
    "COLUMNS": ("1", "0", "-1", "2", "10", "100000", "x", "", None),
    "LINES": ("0", "1", "x"),
    "TERM": ("dumb", "", "nonsense", "xterm-256color", None),
    "NO_COLOR": ("1",),
    "FORCE_COLOR": ("1", "0"),
    "HOME": (None, "/nowhere", ""),
    "TMPDIR": ("/nowhere", ""),
    "USER": (None, ""),
    "TZ": ("nonsense", "Asia/Kathmandu"),
    "SFL_MAZES": ("", "/nowhere", "/dev/null", None),
    "OMP_NUM_THREADS": ("0", "-1", "x", "1000"),
    "DISPLAY": (":99", ""),
    "MPLBACKEND": ("nonsense", "TkAgg"),
    "PYTHONWARNINGS": ("ignore", "default"),
    "PYTHONHASHSEED": ("1", "random"),
    "CUDA_VISIBLE_DEVICES": ("", "7"),
    "PATH": ("", "/nowhere"),
}
"""What environments hold, or not (None)."""
MADE = (names.FIGURES, names.FIELDS, "random-", "grid-", "run-", "sfl-", "runs")
"""What commands put into a run, or into the current folder where that is the run."""
COMMANDS = (
    ["list"],
    ["train", names.GRID, "--help"],
    ["train", names.RANDOM, "--tiny", "--device", "cpu"],
    ["report", "run"],
    ["report", "run", "--json"],
    ["eval", "run", "--episodes", "1"],
    ["eval", "run", "--goal", "ü.npy"],
    ["plot", "run"],
    ["maze", "--help"],
    ["report", "日本語"],
    ["trian", "fourroom-sfl"],
    ["--version"],
    ["export", "run", "--out", "é ü"],
)


def _environments(seed: int, room: Room) -> str:
    """All of these are real commands: most of it happens while Python starts."""
    dice = chance("environments", seed)
    copy_run(room, "grid-slim", "run")
    chosen = dice.sample(sorted(VARIABLES), dice.choice((1, 1, 1, 2, 4)))
    given = {name: dice.choice(VARIABLES[name]) for name in chosen}
    words = dice.choice(COMMANDS)
    ended = sfl(words, room, LONG, real=True, given=given)
    refused = None if words[0] not in ("trian",) else True
    for folder in (room.home, room.tmp):
        for path in folder.iterdir():
            if path.name in (".config", ".cache"):  # matplotlib's own, where its variable was not heeded
                path.rename(room.path / f"{folder.name}{path.name}")
    return judge(ended, refused) + f" with {given}"


def _paths(seed: int, room: Room) -> str:
    dice = chance("paths", seed)
    folder, outside = _folder(room.here, dice)
    run = folder / dice.choice(("run", "a run", "ü", "a\nb", "-run", "日本語", "x" * 100, "%s", "'"))
    room_run = copy_run(room, dice.choice(("grid-slim", "random")), "run")
    run.parent.mkdir(parents=True, exist_ok=True)
    room_run.rename(run)
    cwd = dice.choice((room.here, folder, run))
    place = dice.choice(
        (str(run), os.path.relpath(run, cwd), str(run) + "/", f"{run}/../{run.name}", f"./{os.path.relpath(run, cwd)}")
    )
    hindered = _hinder(run, dice)
    commands = (
        ["report", place],
        ["report", place],
        ["eval", place, "--episodes", "1"],
        ["export", place, f"--out={outside}"],
        ["export", place, f"--out={outside}"],
        ["export", place],
        ["plot", place],
        ["studio", place, f"--export={outside}.html"],
        ["maze", "build", "small", f"--out={outside}.wad"],
        ["train", names.RANDOM, "--tiny", "--device", "cpu", "--train.steps", "60", f"--runs-dir={outside}"],
    )
    words = [
        "./" + word if word.startswith("-") and "/" in word and "=" not in word else word
        for word in dice.choice(commands)
    ]
    before = tree(run, MADE)
    ended = sfl(words, room, LONG, real=is_real(seed), cwd=cwd)
    said = judge(ended) + hindered
    require_same(before, tree(run, MADE), ended)
    return said


def _folder(here: Path, dice: random.Random) -> tuple[Path, str]:
    """A folder to play in, and a place to write to."""
    folder = here / dice.choice(
        ("a b", "ü日本", "x" * 200, "a\nb", "deep/er/and/deeper", "..x", "~", "$HOME", "[a]*?", "\udcfe")
    )
    folder.mkdir(parents=True)
    hostile.write(folder / "file", "in the way")
    (folder / "link").symlink_to("file")
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere/at/all")
    (folder / "here").mkdir()
    (folder / "locked").mkdir(mode=0o500)
    os.mkfifo(folder / "pipe")
    spots = (
        "new",
        "file",
        "link",
        "loop",
        "gone",
        "here",
        "locked/x",
        "pipe",
        "file/x",
        "no/such/folder",
        "x" * 300,
        "",
        "ü\n",
        ".",
        "..",
    )
    return folder, str(folder / dice.choice(spots))


def _hinder(run: Path, dice: random.Random) -> str:
    """Something in the way of what commands write into a run."""
    kind = dice.randrange(8)
    if kind == 0:
        hostile.write(run / names.FIGURES, "a file in the place of a folder")
    elif kind == 1:
        (run / names.FIGURES).symlink_to("nowhere/at/all")
    elif kind == 2:
        run.chmod(0o500)
    elif kind == 3:
        (run / names.EPISODES).chmod(0)
    elif kind == 4:
        (run / names.CONFIG).unlink()
        (run / names.CONFIG).symlink_to(names.CONFIG)
    elif kind == 5:
        moved = run.with_name("moved")
        run.rename(moved)
        run.symlink_to("moved")
    return f" (hindered: {kind})"


FAMILIES = (
    Family(
        "environments",
        "In any locale, terminal and environment commands do their work or say in one line why not.",
        _environments,
        weight=40,
        needs=("grid-slim",),
        short=2,
    ),
    Family(
        "paths",
        "Folders of any name are read and written; what is in the way is said in one line and stays.",
        _paths,
        weight=60,
        needs=("grid-slim", "random"),
        short=3,
    ),
)
