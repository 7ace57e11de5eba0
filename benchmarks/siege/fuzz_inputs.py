"""Goals and start-goal pairs: what a user hands to `sfl eval` beside a run."""

from __future__ import annotations

import json
import random
from io import BytesIO
from pathlib import Path

from benchmarks.siege import hostile
from benchmarks.siege.case import Family, Room, chance
from benchmarks.siege.forked import copy_run, judge, require_same, sfl, tree
from PIL import Image

BRIEF = ("--episodes", "1", "--device", "cpu")
REAL_EVERY = 13
"""One case in so many is a real command."""


def is_real(seed: int) -> bool:
    """Whether a case is a real command instead of a forked child."""
    return seed % REAL_EVERY == REAL_EVERY - 1


def _goals(seed: int, room: Room) -> str:
    dice = chance("goals", seed)
    run = copy_run(room, dice.choice(("grid-slim", "grid-slim", "gym-slim", "random", "maze-slim")), "run")
    refuse = None
    kind = dice.choice(("pose", "npy", "npy", "npz", "png", "png", "other"))
    if kind == "pose":
        goal = ",".join(hostile.number(dice) for _ in range(dice.choice((0, 1, 2, 2, 3, 3, 3, 4, 50))))
    elif kind in ("npy", "npz"):
        source = (room.base / "files" / dice.choice(("grid.npy", "maze.npy"))).read_bytes()
        goal = str(hostile.write(room.here / f"goal.{kind}", _npy(source, dice)))
    elif kind == "png":
        content, refuse = _png((room.base / "files" / "maze.png").read_bytes(), dice)
        goal = str(hostile.write(room.here / "goal.png", content))
    else:
        goal = _odd_path(room.here, dice)
    words = ["eval", "run", f"--goal={goal}", *BRIEF]
    if dice.random() < 0.3:
        words.append("--start=" + ",".join(hostile.number(dice) for _ in range(dice.choice((1, 2, 3)))))
    before = tree(run)
    ended = sfl(words, room, real=is_real(seed))
    said = judge(ended, refuse)
    require_same(before, tree(run), ended)
    return said


def _npy(source: bytes, dice: random.Random) -> bytes:
    shapes = (
        "(2147483647, 2147483647)",
        "()",
        "(0,)",
        "(-1, 3)",
        "(7, 7, 3)",
        "(25, 25, 3)",
        "(120, 160, 3)",
        "(10**9,)",
        "'x'",
    )
    kinds = ("|u1", "<f8", "<f2", "|O", "<U5", "<c16", "|V8", ">i8", "<M8[s]", "|b1", "<q99", "")
    kind = dice.randrange(4)
    if kind == 0:
        return hostile.damaged(source, dice)
    if kind == 1:
        order = dice.choice(("True", "False", "3"))
        header = f"{{'descr': {dice.choice(kinds)!r}, 'fortran_order': {order}, 'shape': {dice.choice(shapes)}, }}"
        return hostile.npy(
            header,
            dice.randbytes(dice.choice((0, 10, 147, 1875, 57600))),
            dice.choice((b"\1\0", b"\2\0", b"\3\0", b"\x09\0")),
        )
    if kind == 2:
        inner = dice.choice(
            ("[" * 5000, "{'descr': __import__('os').getcwd()}", "{'shape': (1,)}", "\\", "{" * 200, "(" * 90_000)
        )
        return hostile.npy(inner, b"\0" * 100)
    return b"PK\3\4" + hostile.damaged(source, dice)


def _png(source: bytes, dice: random.Random) -> tuple[bytes, bool | None]:
    kind = dice.randrange(5)
    if kind == 0:
        return hostile.damaged(source, dice), None
    if kind == 1:  # small as a file, huge as pixels
        side = dice.choice((5_000, 9_000, 13_000, 16_000, 25_000, 40_000))
        return hostile.png(side, side, dice, dice.choice((0, 2, 3, 4, 6))), True
    if kind == 2:
        huge = dice.choice((2**31 - 1, 2**31, 2**32 - 1, 0))
        return hostile.png(dice.choice((huge, 1)), dice.choice((huge, 160)), dice, rows=1) if huge < 10 else _lying(
            huge, dice
        ), True
    if kind == 3:
        size = dice.choice(((160, 120), (1, 1), (19 * 8, 19 * 8), (19 * 32, 19 * 32), (1, 20_000), (20_000, 1), (0, 0)))
        return hostile.png(*size, dice, dice.choice((0, 2, 3, 4, 6, 7)), dice.choice((1, 2, 4, 8, 16))), None
    if dice.random() < 0.3:
        return _with_notes(source, dice), None
    return dice.choice(
        (b"GIF89a" + source, b"\xff\xd8\xff\xe0" + source, b"BM" + source, b"<svg/>", b"P6\n99999 99999\n255\n")
    ), None


def _with_notes(source: bytes, dice: random.Random) -> bytes:
    """A JPEG whose Exif is damaged."""
    file = BytesIO()
    Image.open(BytesIO(source)).save(file, "JPEG")
    notes = b"Exif\0\0" + dice.choice((b"II*\0", b"MM\0*", b"")) + dice.randbytes(dice.choice((0, 4, 200)))
    length = (len(notes) + 2).to_bytes(2, "big")
    return file.getvalue()[:2] + b"\xff\xe1" + length + notes + file.getvalue()[2:]


def _lying(huge: int, dice: random.Random) -> bytes:
    content = bytearray(hostile.png(160, 120, dice))
    content[16:20] = huge.to_bytes(4, "big")
    return bytes(content)


def _odd_path(folder: Path, dice: random.Random) -> str:
    (folder / "a folder.npy").mkdir()
    (folder / "to nowhere.png").symlink_to("nowhere")
    (folder / "loop.npy").symlink_to("loop.npy")
    return dice.choice(
        (
            "a folder.npy",
            "to nowhere.png",
            "loop.npy",
            hostile.word(dice),
            hostile.word(dice),
            "nowhere.txt",
            "x" * 300 + ".npy",
        )
    )


def _pairs(seed: int, room: Room) -> str:
    dice = chance("pairs", seed)
    run = copy_run(room, "maze-slim", "run")
    document = json.loads((room.base / "files" / "tasks.json").read_text(encoding="utf-8"))
    if dice.random() < 0.3:
        document = _of_authors(dice)
    content = hostile.json_text(hostile.changed_json(document, dice, dice.choice((0, 1, 1, 1, 2, 5))), dice)
    hostile.write(room.here / "pairs.json", content)
    commands = (
        ["eval", "run", "--pairs=pairs.json", *BRIEF],
        ["eval", "run", "--pairs=pairs.json", *BRIEF],
        ["maze", "show", "small", "--out", "small.png", "--pairs", "pairs.json", "--views", "1"],
        ["eval", "run", f"--pairs={hostile.word(dice)}", *BRIEF],
        ["eval", "run", f"--pairs-seed={hostile.number(dice)}", *BRIEF],
    )
    before = tree(run)
    ended = sfl(dice.choice(commands), room, real=is_real(seed))
    said = judge(ended)
    require_same(before, tree(run), ended)
    return said


def _of_authors(dice: random.Random) -> object:
    spot = [[dice.uniform(0, 2000), dice.uniform(0, 2000)], dice.uniform(-7, 7)]
    pair = dice.choice(([spot, spot], spot, {"start": spot, "goal": spot}, [1, 2, 3], [[1e9, 0, 0], [0, 0, 0]]))
    return dice.choice(
        ({"easy": [pair]}, [pair], {"pairs": [pair]}, {"hard": pair}, {"easy": [], "medium": []}, {"other": [pair] * 3})
    )


FAMILIES = (
    Family(
        "goals",
        "A goal that is none is refused in one line, quickly and in little memory, and the run stays as it is.",
        _goals,
        weight=90,
        needs=("grid-slim", "gym-slim", "random", "maze-slim", "files"),
        short=4,
    ),
    Family(
        "pairs",
        "Start-goal pairs of any shape are played or refused in one line.",
        _pairs,
        weight=40,
        needs=("maze-slim", "files"),
        short=2,
    ),
)
