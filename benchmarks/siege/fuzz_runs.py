"""Run folders as disks and hands damage them, and every command that reads one (resume has a family of its own)."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from benchmarks.siege import hostile, names
from benchmarks.siege.case import Family, Room, chance
from benchmarks.siege.forked import Limits, copy_run, judge, require_same, sfl, tree
from benchmarks.siege.fuzz_inputs import is_real

RUNS = ("grid-slim", "grid-slim", "gym-slim", "random", "maze-slim")
LONG = Limits(seconds=40)
REPORT, EVAL, PLOT = ["report", "run"], ["eval", "run", "--episodes", "1", "--device", "cpu"], ["plot", "run"]
EXPORT, VIDEO = ["export", "run", "--out", "copy"], ["video", "run"]
MADE = (names.FIGURES, names.FIELDS)
"""What commands put into a run."""
PAGE = ["studio", "run", "--export", "page.html"]


def _rows(seed: int, room: Room) -> str:
    dice = chance("csv", seed)
    run = copy_run(room, dice.choice(RUNS), "run")
    name = dice.choice((names.EPISODES, names.EPISODES, names.EPISODES, names.TRAIN_ROWS, names.EVAL_ROWS))
    path = run / name
    content = _table(path.read_bytes(), dice)
    if name == names.EPISODES and dice.random() < 0.35:
        path.unlink()
        packed = gzip.compress(content, mtime=0)
        hostile.write(path.with_name(f"{name}.gz"), packed if dice.random() < 0.3 else hostile.damaged(packed, dice))
    else:
        hostile.write(path, content)
    if name == names.EPISODES:
        target = next(each.name for each in (path, path.with_name(f"{name}.gz")) if each.exists())
        commands = [REPORT, REPORT, REPORT, ["report", "run", "--json"], ["report", f"run/{target}"], EXPORT]
    else:
        commands = [REPORT, PAGE, PAGE, EXPORT]
    return _read(dice.choice(commands if dice.random() < 0.85 else [PLOT, PAGE]), run, room, seed)


def _table(content: bytes, dice: random.Random) -> bytes:
    lines = content.decode("utf-8").splitlines()
    others: list[Callable[[], bytes]] = [
        lambda: hostile.damaged(content, dice),
        lambda: hostile.damaged(content, dice),
        lambda: _cells(lines, dice),
        lambda: _cells(lines, dice),
        lambda: _cells(lines, dice),
        lambda: "\n".join(lines[1:]).encode(),
        lambda: "\n".join(dice.sample(lines, len(lines))).encode(),
        lambda: "\n".join([*lines, '"' + "x" * 200_000]).encode(),
        lambda: "\n".join([*lines, lines[0]]).encode(),
        lambda: "\n".join(",".join(reversed(line.split(","))) for line in lines).encode(),
        lambda: content.replace(b",", dice.choice((b";", b"\t", b",,", b'","', b'"')), dice.choice((1, -1))),
        lambda: content.decode().encode(dice.choice(("utf-16", "utf-32", "utf-8-sig"))),
        lambda: content.replace(b"sfl", dice.choice((b"\xff\xfe", b"\0", b"\xc3\x28", "😀".encode(), b"a\nb"))),
        lambda: "\n".join([lines[0], *lines[1:2] * dice.choice((0, 1, 3000))]).encode(),
    ]
    return dice.choice(others)()


def _cells(lines: list[str], dice: random.Random) -> bytes:
    cells = [line.split(",") for line in lines]
    for _ in range(dice.choice((1, 1, 2, 8))):
        row = dice.choice(cells)
        row[dice.randrange(len(row))] = dice.choice((hostile.number, hostile.number, hostile.word))(dice)
    return "\n".join(",".join(row) for row in cells).encode("utf-8", "surrogateescape")


def _notes(seed: int, room: Room) -> str:
    """The JSON files of a run."""
    dice = chance("configs", seed)
    run = copy_run(room, dice.choice(RUNS), "run")
    last = f"{names.CHECKPOINTS}/{names.LAST}"
    choices = [names.CONFIG] * 5 + [
        names.SYSTEM,
        f"{last}/{names.FORMAT}",
        f"{last}/{names.FORMAT}",
        f"{last}/{names.GENERATORS}",
    ]
    if (run / names.TASKS).exists():
        choices += [names.TASKS] * 2
    path = run / dice.choice(choices)
    document = json.loads(path.read_text(encoding="utf-8"))
    changed = hostile.changed_json(document, dice, dice.choice((1, 1, 1, 2, 4)))
    hostile.write(path, hostile.json_text(changed, dice))
    commands = [REPORT, EVAL, EVAL, EVAL, EXPORT, EXPORT]
    return _read(dice.choice(commands if dice.random() < 0.85 else [PLOT, PAGE, VIDEO]), run, room, seed)


def _checkpoints(seed: int, room: Room) -> str:
    """Any file of a run: damaged, gone, a folder, a link; and archives inside of which something is odd."""
    dice = chance("checkpoints", seed)
    run = copy_run(room, dice.choice(RUNS), "run")
    files = sorted(path for path in run.rglob("*") if path.is_file() and names.BOARDS not in path.parts)
    last = [path for path in files if path.parent.name == names.LAST]
    path = dice.choice(last if dice.random() < 0.7 else files)
    before = path.read_bytes()
    _spoil(path, dice)
    words = dice.choice([EVAL, EVAL, EVAL, EXPORT] if dice.random() < 0.8 else [PLOT, PAGE, VIDEO, REPORT])
    listed = (
        json.loads((run / names.CHECKPOINTS / names.LAST / names.FORMAT).read_text("utf-8")) if _readable(run) else {}
    )
    known = path.parent.name == names.LAST and path.name in listed.get("files", {})
    same = path.is_file() and not path.is_symlink() and path.read_bytes() == before
    return _read(words, run, room, seed, True if known and not same and words == EVAL else None)


def _readable(run: Path) -> bool:
    try:
        return isinstance(json.loads((run / names.CHECKPOINTS / names.LAST / names.FORMAT).read_text("utf-8")), dict)
    except (OSError, ValueError, RecursionError):
        return False


def _spoil(path: Path, dice: random.Random) -> None:
    content = path.read_bytes()
    kind = dice.randrange(10)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.unlink()
        path.mkdir()
    elif kind == 2:
        path.unlink()
        path.symlink_to(dice.choice(("nowhere", path.name, "/dev/null", "..")))
    elif kind == 3 and path.suffix == ".npz":
        path.write_bytes(_archive(content, dice))
    elif kind == 4 and path.suffix == ".npy":
        path.write_bytes(hostile.npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", content))
    elif kind == 5:
        other = dice.choice(sorted(each for each in path.parent.iterdir() if each.is_file()))
        path.write_bytes(other.read_bytes())
    elif kind == 6 and path.parent.name == names.LAST:
        shutil.rmtree(path.parent)
        if dice.random() < 0.5:
            path.parent.mkdir()
    else:
        path.write_bytes(hostile.damaged(content, dice))


def _archive(content: bytes, dice: random.Random) -> bytes:
    """An npz whose arrays are cut, odd, missing or very many."""
    target = BytesIO()
    if dice.random() < 0.1:  # a gigabyte of zeros
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            array = hostile.npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1073741824,), }", b"")
            with archive.open("goals.npy", "w") as file:
                for block in (array, *[bytes(1 << 24)] * 64):
                    file.write(block)
        return target.getvalue()
    try:
        with zipfile.ZipFile(BytesIO(content)) as source:
            arrays = {name: source.read(name) for name in source.namelist()}
    except zipfile.BadZipFile:
        return hostile.damaged(content, dice)
    with zipfile.ZipFile(target, "w", dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, body in arrays.items():
            if dice.random() < 0.2:
                continue
            archive.writestr(name, hostile.damaged(body, dice) if dice.random() < 0.4 else body)
    return target.getvalue()


def _read(words: list[str], run: Path, room: Room, seed: int, refuse: bool | None = None) -> str:
    """A command over a damaged run: whatever it says, the run's own files stay."""
    before = tree(run, MADE)
    ended = sfl(words, room, LONG, real=is_real(seed))
    said = judge(ended, refuse)
    require_same(before, tree(run, MADE), ended)
    drafts = sorted(os.fsdecode(path.relative_to(room.here)) for path in room.here.rglob("*") if _is_draft(path))
    require_same({}, dict.fromkeys(drafts, ""), ended)
    return said


def _is_draft(path: Path) -> bool:
    return path.suffix in (".tmp", ".part", ".draft") or (
        path.parent.name == names.FIGURES and path.is_file() and not path.stat().st_size
    )


FAMILIES = (
    Family(
        "csv",
        "Tables of a run with any content are read or refused in one line.",
        _rows,
        weight=110,
        needs=RUNS,
        short=2,
    ),
    Family(
        "configs",
        "The JSON files of a run, with values of other types and sizes, are read or refused in one line.",
        _notes,
        weight=110,
        needs=RUNS,
        short=2,
    ),
    Family(
        "checkpoints",
        "A damaged checkpoint is never evaluated: it is refused in one line, and stays as it is.",
        _checkpoints,
        weight=90,
        needs=RUNS,
        short=2,
    ),
)
