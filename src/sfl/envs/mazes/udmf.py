"""Maps as text in UDMF: written for our own layouts, read from any WAD.

The engine builds its nodes itself, so three lumps make a playable map: its name, TEXTMAP, ENDMAP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from sfl.core.errors import FileError
from sfl.data.types import Array
from sfl.envs.mazes.geometry import PLAYER, Geometry, geometry
from sfl.envs.tasks import Pose

WALL_HEIGHT = 128
LIGHT = 190
"""Height and light of the paper's mazes."""

_BLOCKING = ("blocking", "blockplayers", "blockeverything")
_PICTURES = ("texturetop", "texturemiddle", "texturebottom")
_TOKEN = re.compile(
    r"""
    \s++ | //[^\n]*+ | /\*(?:[^*]++|\*(?!/))*+(?:\*/)?+    # spaces and comments, whose end may be missing
    | "(?:[^"\\]++|\\.)*+"?+                             # a string, whose end may be missing
    | [{}=;] | (?:[^\s{}=;"/]++|/(?![/*]))++              # signs; whatever else is in one piece
    """,
    re.DOTALL | re.VERBOSE,
)
"""Every letter belongs to some piece, and no piece is tried twice: a text of any kind is read in one pass."""

MOST_TEXT = 4_000_000
"""Letters of a map; the paper's mazes would have 200,000."""


def write_udmf(walls: Array, textures: list[str], flats: tuple[str, str], start: Pose) -> str:
    """The TEXTMAP of a maze of one sector; each wall [x1, y1, x2, y2] has its free side on the right hand."""
    corners, ends = np.unique(walls.reshape(-1, 2), axis=0, return_inverse=True)
    ends = ends.reshape(-1, 2)
    floor, ceiling = flats
    blocks = [_block("vertex", x=x, y=y) for x, y in corners.tolist()]
    for number, ((begin, end), texture) in enumerate(zip(ends.tolist(), textures, strict=True)):
        blocks.append(_block("linedef", v1=begin, v2=end, sidefront=number, blocking=True))
        blocks.append(_block("sidedef", sector=0, texturemiddle=texture))
    blocks.append(
        _block(
            "sector",
            heightfloor=0,
            heightceiling=WALL_HEIGHT,
            texturefloor=floor,
            textureceiling=ceiling,
            lightlevel=LIGHT,
        )
    )
    x, y, degrees = start
    skills = {f"skill{skill}": True for skill in range(1, 6)}
    # The format counts whole degrees; the environment itself turns the player to the exact heading.
    blocks.append(_block("thing", x=x, y=y, angle=round(degrees) % 360, type=PLAYER, single=True, **skills))
    return 'namespace = "zdoom";\n' + "".join(blocks)


def _block(kind: str, **fields: object) -> str:
    return f"{kind} {{ {' '.join(f'{name} = {_value(value)};' for name, value in fields.items())} }}\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def read_udmf(text: str, source: str) -> Geometry:
    """Walls are lines with one side, and those that block; steps are not looked at."""
    blocks = list(_blocks(_tokens(text, source)))
    try:
        vertices = [(float(block["x"]), float(block["y"])) for kind, block in blocks if kind == "vertex"]
        walls = [
            (*_at(vertices, block["v1"]), *_at(vertices, block["v2"]))
            for kind, block in blocks
            if kind == "linedef" and _is_wall(block)
        ]
        things = [
            (int(block["type"]), float(block["x"]), float(block["y"]), float(block.get("angle", 0)))
            for kind, block in blocks
            if kind == "thing"
        ]
    except (KeyError, ValueError, IndexError) as error:
        raise FileError(f"{source} is damaged: its TEXTMAP lacks a value or holds a wrong one ({error}).") from None
    return geometry(np.array(walls, np.float64).reshape(-1, 4), things, source)


def _at(vertices: list[tuple[float, float]], number: str) -> tuple[float, float]:
    if int(number) < 0:
        raise IndexError(f"vertex {number}")
    return vertices[int(number)]


def retexture_udmf(text: str, draw: Callable[[int], list[str]], source: str) -> str:
    """The same map with one drawn texture on each side; a side's empty parts stay empty, and comments go."""
    count = sum(kind == "sidedef" for kind, _ in _blocks(_tokens(text, source)))
    drawn = iter(draw(count))
    fresh: list[str] = []
    begun = 0  # the number of tokens before the block that is read
    for token in _tokens(text, source):
        fresh.append(" " if _is_comment(token) else token)
        if token == "{" and not begun:
            begun = len(fresh)
        elif token == "}" and begun:
            if _word_before(fresh, begun - 1) == "sidedef":
                fresh[begun:] = _painted(fresh[begun:], next(drawn))
            begun = 0
    return "".join(fresh)


def _word_before(tokens: list[str], place: int) -> str:
    """The last word before a place."""
    while place and tokens[place - 1].isspace():
        place -= 1
    return tokens[place - 1].lower() if place else ""


def _painted(side: list[str], name: str) -> Iterator[str]:
    """The tokens of a side with another texture wherever it has one."""
    words = ["", ""]  # the last two that are no space
    for token in side:
        shown = words[0] in _PICTURES and words[1] == "=" and token.startswith('"') and token.strip('"') != "-"
        yield f'"{name}"' if shown else token
        if not token.isspace():
            words = [words[1], token]


def _tokens(text: str, source: str) -> Iterator[str]:
    """All of a text, piece by piece: spaces, comments, strings, signs and words. Each letter is looked at once."""
    if len(text) > MOST_TEXT:
        raise FileError(f"{source} has a TEXTMAP of {len(text):,} letters; mazes have at most {MOST_TEXT:,}.")
    return (match[0] for match in _TOKEN.finditer(text))


def _is_comment(token: str) -> bool:
    return token.startswith(("//", "/*"))


def _blocks(tokens: Iterator[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Kind and fields of each `kind { name = value; ... }` that is whole."""
    kind, word = "", ""
    statement: list[str] = []
    fields: dict[str, str] | None = None
    for token in tokens:
        if token.isspace() or _is_comment(token):
            continue
        if fields is None:
            if token == "{":
                kind, fields, statement = word.lower(), {}, []
            word = token
        elif token == "}":
            yield kind, fields
            fields, word = None, ""
        elif token == ";":
            if len(statement) > 2 and statement[1] == "=":
                fields[statement[0].lower()] = " ".join(statement[2:]).strip('"')
            statement = []
        else:
            statement.append(token)


def _is_wall(line: dict[str, str]) -> bool:
    return int(line.get("sideback", -1)) < 0 or any(line.get(name) == "true" for name in _BLOCKING)
