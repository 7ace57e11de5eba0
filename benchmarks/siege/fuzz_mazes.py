"""Text layouts and WADs: what people draw, download and break."""

from __future__ import annotations

import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

from benchmarks.siege import hostile
from benchmarks.siege.case import Family, Room, chance
from benchmarks.siege.forked import Limits, judge, sfl
from benchmarks.siege.fuzz_inputs import is_real

Lumps = list[tuple[bytes, bytes]]
GAMES = Limits(seconds=15)
"""For commands that start games where the maze can be played."""
TRAIN = [
    "train",
    "maze-random-spawn-random",
    "--tiny",
    "--device",
    "cpu",
    "--train.steps",
    "60",
    "--eval.episodes",
    "1",
    "--train.eval-every",
    "60",
]


def _layouts(seed: int, room: Room) -> str:
    dice = chance("layouts", seed)
    source = (room.base / "files" / "layout.txt").read_text(encoding="utf-8")
    content = _layout(source, dice)
    hostile.write(room.here / "maze.txt", content)
    words = dice.choice(
        (
            ["maze", "build", "maze.txt", "--out", "maze.wad"],
            ["maze", "build", "maze.txt", "--out", "maze.wad"],
            ["maze", "show", "maze.txt", "--out", "maze.png", "--views", "0"],
            [*TRAIN, "--env.maze", "maze.txt"],
        )
        if dice.random() < 0.3
        else (["maze", "build", "maze.txt", "--out", "maze.wad"],)
    )
    return judge(sfl(words, room, GAMES, real=is_real(seed)))


def _layout(source: str, dice: random.Random) -> bytes:
    signs = "#. S1234\tX-0o9é█\r,;:"
    others: list[Callable[[], bytes]] = [
        lambda: hostile.damaged(source.encode(), dice),
        lambda: _swapped(source, dice, signs).encode(),
        lambda: _drawn(dice, dice.randint(1, 60), dice.randint(1, 60), "##..S1234 ").encode(),
        lambda: _drawn(dice, dice.choice((1, 3, 500)), dice.choice((1, 3, 500)), "#.").encode(),
        lambda: _drawn(dice, 3000, 2, "S....").encode(),
        lambda: _headed(source, dice).encode("utf-8", "surrogateescape"),
        lambda: source.encode(dice.choice(("utf-16", "utf-32", "utf-8-sig"))),
        lambda: source.replace("\n", dice.choice(("\r", "\r\n", "\n\n", "\0", "\v", "\u2028"))).encode(),
        lambda: source.replace("S", dice.choice(("", "SS", "s", "."))).encode(),
    ]
    return dice.choice(others)()


def _swapped(source: str, dice: random.Random, signs: str) -> str:
    text = list(source)
    for _ in range(dice.choice((1, 2, 5, 20))):
        text[dice.randrange(len(text))] = dice.choice(signs)
    return "".join(text)


def _drawn(dice: random.Random, width: int, height: int, signs: str) -> str:
    inside = ["#" + "".join(dice.choice(signs) for _ in range(width)) + "#" for _ in range(height)]
    return "\n".join(["#" * (width + 2), *inside, "#" * (width + 2)]) + "\n"


def _headed(source: str, dice: random.Random) -> str:
    names = ("cell", "heading", "name", "textures", "start", "x" * 100, "cell cell", "")
    lines = [
        f"{dice.choice(names)}: {dice.choice((hostile.number, hostile.word))(dice)}" for _ in range(dice.randint(1, 3))
    ]
    return "\n".join(lines) + dice.choice(("\n\n", "\n", "")) + source


def _wads(seed: int, room: Room) -> str:
    dice = chance("wads", seed)
    content = _wad(_source(room, dice), dice)
    hostile.write(room.here / "maze.wad", content)
    name = "maze.wad" + (
        dice.choice((":MAP01", ":MAP02", ":", ":" + hostile.word(dice)[:50])) if dice.random() < 0.15 else ""
    )
    commands = (
        ["maze", "import", name, "--out", "other.wad"],
        ["maze", "import", name, "--out", "other.wad", "--texture-seed", "1"],
        ["maze", "show", name, "--out", "maze.png", "--views", "0"],
        ["maze", "show", name, "--out", "maze.png", "--views", "0"],
        ["maze", "show", name, "--out", "maze.png", "--views", "1"],
        [*TRAIN, "--env.maze", name],
    )
    words = commands[dice.choice((0, 0, 1, 2, 3) if dice.random() < 0.9 else (4, 5))]
    return judge(sfl([word.replace("\0", "") for word in words], room, GAMES, real=is_real(seed)))


def _source(room: Room, dice: random.Random) -> bytes:
    """A WAD of ours, or, where the paper's mazes are at hand, one of those."""
    own = room.base / "files" / "maze.wad"
    papers = sorted(Path(os.environ["SFL_MAZES"]).glob("test-*.wad")) if os.environ.get("SFL_MAZES") else []
    return (dice.choice(papers) if papers and dice.random() < 0.4 else own).read_bytes()


def _wad(source: bytes, dice: random.Random) -> bytes:
    lumps = _lumps(source)
    kind = dice.randrange(10)
    if kind < 3:
        return hostile.damaged(source, dice)
    if kind < 5:
        return _table(source, lumps, dice)
    changed = [(name, _body(name, body, dice)) for name, body in lumps]
    return _packed(changed)


def _lumps(source: bytes) -> Lumps:
    count, place = struct.unpack_from("<ii", source, 4)
    entries = list(struct.iter_unpack("<ii8s", source[place : place + 16 * count]))
    return [(name.rstrip(b"\0"), source[begin : begin + size]) for begin, size, name in entries]


def _packed(lumps: Lumps) -> bytes:
    bodies, entries, place = [], [], 12
    for name, body in lumps:
        entries.append(struct.pack("<ii8s", place, len(body), name))
        bodies.append(body)
        place += len(body)
    return b"".join([struct.pack("<4sii", b"PWAD", len(entries), place), *bodies, *entries])


def _table(source: bytes, lumps: Lumps, dice: random.Random) -> bytes:
    """The table of lumps: entries gone, doubled, renamed, in another order; numbers in it that lie."""
    number = dice.randrange(len(lumps))
    kind = dice.randrange(8)
    if kind == 0:
        return _packed(lumps[:number] + lumps[number + 1 :])
    if kind == 1:
        return _packed(lumps * dice.choice((2, 3, 2000)))
    if kind == 2:
        return _packed(dice.sample(lumps, len(lumps)))
    if kind == 3:
        names = (b"TEXTMAP", b"THINGS", b"MAP01", b"ENDMAP", b"\xff" * 8, b"", b"LINEDEFS", b"BEHAVIOR")
        return _packed([*lumps[:number], (dice.choice(names), lumps[number][1]), *lumps[number + 1 :]])
    if kind == 4:
        return _packed([*lumps[:number], (lumps[number][0], b""), *lumps[number + 1 :]])
    content = bytearray(source)
    place = 4 if kind == 5 else struct.unpack_from("<i", source, 8)[0] + 16 * number + 4 * dice.randrange(2)
    struct.pack_into("<i", content, place, dice.choice((-1, 0, 2**31 - 1, -(2**31), 10**6, len(source), 1)))
    return bytes(content)


def _body(name: bytes, body: bytes, dice: random.Random) -> bytes:
    if name == b"TEXTMAP":
        return _textmap(body.decode("latin-1"), dice).encode("latin-1", "replace")
    if body and dice.random() < 0.4:
        return _records(body, dice)
    return body


def _records(body: bytes, dice: random.Random) -> bytes:
    """Numbers of 16 bits in a binary lump."""
    content = bytearray(body)
    for _ in range(dice.choice((1, 1, 3, 30))):
        if len(content) >= 2:
            number = dice.choice((0, 1, -1, 32767, -32768, dice.randint(-32768, 32767)))
            struct.pack_into("<h", content, 2 * dice.randrange(len(content) // 2), number)
    return bytes(content[: len(content) - dice.choice((0, 0, 0, 1, 5))])


def _textmap(text: str, dice: random.Random) -> str:
    """UDMF with odd words: numbers, blocks, quotes, comments, and very long runs of them."""
    blocks = re.findall(r"\w+\s*\{[^{}]*\}", text) or [text]
    block = dice.choice(blocks)
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text) or ["0"]
    many = dice.choice((3_000, 60_000, 300_000))
    others: list[Callable[[], str]] = [
        lambda: _number_changed(text, dice.choice(numbers), dice),
        lambda: _number_changed(text, dice.choice(numbers), dice),
        lambda: re.sub(r"(?<= = )-?\d+(\.\d+)?", lambda m: m[0] if dice.random() < 0.9 else hostile.number(dice), text),
        lambda: re.sub(
            r"\b[xy] = -?\d+",
            lambda m: m[0][:4] + str(dice.choice((65535, -65535, 32767, 10**6, 10**9))),
            text,
            count=dice.choice((1, 4)),
        ),
        lambda: text.replace(block, ""),
        lambda: text.replace(block, block * dice.choice((2, 100, 5000))),
        lambda: text.replace("}", "", 1),
        lambda: text.replace("{", "{" * dice.choice((2, 1000)), 1),
        lambda: text.replace(";", dice.choice(("", ";;", ",", ":")), dice.choice((1, -1))),
        lambda: text.replace("=", dice.choice(("", "==", " ")), dice.choice((1, -1))),
        lambda: text + "/*" + " " * many,
        lambda: text + "/*" * many,
        lambda: text + "x" * many,
        lambda: text + '"' * many,
        lambda: text + '"' + "\\" * many,
        lambda: text + "vertex {" + " " * many,
        lambda: text + "a = " * many,
        lambda: text + ("vertex { x = 1 " * (many // 10)),
        lambda: text + "\n" * many + "{",
        lambda: text + "//" * many,
        lambda: text + "1" * many,
        lambda: text + "vertex{x=" + "0" * many,
        lambda: text + "_" * many + " " * many + "=",
        lambda: text[: dice.randrange(len(text))],
        lambda: text.replace("vertex", dice.choice(("VERTEX", "vert", "sector", "thing")), dice.choice((1, -1))),
        lambda: text.replace('"', "", 1),
        lambda: re.sub(r'"[^"]*"', f'"{hostile.word(dice)[:200]}"', text, count=dice.choice((1, 0))),
        lambda: text.replace("namespace", dice.choice(("", "namespace namespace", "x")), 1),
    ]
    return dice.choice(others)()


def _number_changed(text: str, number: str, dice: random.Random) -> str:
    return text.replace(number, hostile.number(dice), dice.choice((1, 1, 5, -1)))


FAMILIES = (
    Family(
        "layouts",
        "A text layout is built, or refused in one line that says where it is wrong.",
        _layouts,
        weight=60,
        needs=("files",),
        short=3,
    ),
    Family(
        "wads",
        "A WAD is imported and shown, or refused in one line, quickly and in little memory.",
        _wads,
        weight=140,
        needs=("files",),
        short=5,
    ),
)
