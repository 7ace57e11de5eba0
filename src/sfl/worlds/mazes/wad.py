"""WAD files: a directory of named lumps, the maps among them, and what these say beside their pictures.

First lumps and maps; then `Geometry`, the walls, the start and the spots of a spawn script; then the two formats of
maps: Hexen's binary one, which the paper's mazes have, and UDMF, a text, which is written for our own layouts and read
from any WAD. The engine builds its nodes itself, so three lumps make a playable map: its name, TEXTMAP, ENDMAP.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfl.api import Array
from sfl.errors import FileError, UsageError
from sfl.worlds.mazes.layout import Spot
from sfl.worlds.tasks import Pose

_HEADER = struct.Struct("<4sii")  # magic, lump count, place of the directory
_ENTRY = struct.Struct("<ii8s")  # place, size, name

_BINARY_MAP = frozenset(
    [
        "THINGS",
        "LINEDEFS",
        "SIDEDEFS",
        "VERTEXES",
        "SEGS",
        "SSECTORS",
        "NODES",
        "SECTORS",
        "REJECT",
        "BLOCKMAP",
        "BEHAVIOR",
        "SCRIPTS",
    ]
)


MOST_LUMPS = 100_000
"""Thirty times as many as the game's own WAD has."""


@dataclass(frozen=True)
class Lump:
    """One named piece of a WAD."""

    name: str
    body: bytes = b""


def read_wad(data: bytes, source: str) -> list[Lump]:
    """All lumps in order; `source` names the file in complaints."""
    if len(data) < _HEADER.size or data[:4] not in (b"PWAD", b"IWAD"):
        raise FileError(f"{source} is not a WAD: it does not begin with PWAD or IWAD.")
    _, count, place = _HEADER.unpack_from(data)
    if count < 0 or place < 0 or place + count * _ENTRY.size > len(data):
        raise FileError(f"{source} is cut off: its directory of {count} lumps lies beyond its {len(data)} bytes.")
    if count > MOST_LUMPS:
        raise FileError(f"{source} has {count:,} lumps; a WAD of mazes has at most {MOST_LUMPS:,}.")
    lumps, room = [], 2 * len(data)  # lumps may share bytes; all of them the whole file would be too many
    for begin, size, raw in _ENTRY.iter_unpack(data[place : place + count * _ENTRY.size]):
        name = lump_name(raw)
        if size < 0 or (size and (begin < 0 or begin + size > len(data))):
            raise FileError(f"{source} is cut off: its lump {name} lies beyond its {len(data)} bytes.")
        room -= size
        if room < 0:
            raise FileError(f"{source} is damaged: its lumps hold more than there is in its {len(data)} bytes.")
        lumps.append(Lump(name, data[begin : begin + size] if size else b""))
    return lumps


def lump_name(raw: bytes) -> str:
    """A name of at most eight characters, filled up with zeros."""
    return raw.split(b"\0", 1)[0].decode("latin-1").upper()


def write_wad(lumps: Sequence[Lump]) -> bytes:
    """A PWAD of these lumps: header, bodies, directory."""
    bodies, entries, place = [], [], _HEADER.size
    for lump in lumps:
        entries.append(_ENTRY.pack(place, len(lump.body), lump.name.encode("latin-1")))
        bodies.append(lump.body)
        place += len(lump.body)
    return b"".join([_HEADER.pack(b"PWAD", len(entries), place), *bodies, *entries])


def maps_of(lumps: Sequence[Lump]) -> dict[str, int]:
    """Where each map's marker stands: THINGS or TEXTMAP follows it. Of two maps of one name the later counts."""
    return {
        lumps[number - 1].name: number - 1
        for number, lump in enumerate(lumps)
        if number and lump.name in ("THINGS", "TEXTMAP")
    }


def map_lumps(lumps: Sequence[Lump], map_name: str) -> list[Lump]:
    """The lumps of one map, its marker first; ENDMAP is added where the format asks for it."""
    first = maps_of(lumps)[map_name]
    end = first + 1
    if lumps[end].name == "TEXTMAP":
        while end < len(lumps) and lumps[end].name != "ENDMAP":
            end += 1
        return [*lumps[first:end], Lump("ENDMAP")]
    while end < len(lumps) and lumps[end].name in _BINARY_MAP:
        end += 1
    return list(lumps[first:end])


PLAYER = 1
MAP_SPOT = 9001
"""The editor numbers of the things that matter here."""

FARTHEST = 32_768  # where Doom's coordinates end
MOST_WALLS = 20_000
"""Twenty times as many as the largest of the paper's mazes has."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """The parts of a map that decide where a player can be."""

    walls: Array  # [N, 4] x1, y1, x2, y2
    start: Pose
    spots: tuple[Spot, ...]


def geometry(walls: Array, things: Iterable[tuple[int, float, float, float]], source: str) -> Geometry:
    """Pick the start and the spots out of the things (type, x, y, degrees) of a map."""
    things = list(things)
    numbers = np.append(walls.ravel(), np.array([thing[1:] for thing in things], np.float64).ravel())
    if not (np.abs(numbers) <= FARTHEST).all():
        raise FileError(f"{source} is damaged: it has a place beyond the {FARTHEST:,} units at which Doom's maps end.")
    if len(walls) > MOST_WALLS:
        raise FileError(f"{source} has {len(walls):,} walls; mazes have at most {MOST_WALLS:,}.")
    start = next(((x, y, degrees % 360) for kind, x, y, degrees in things if kind == PLAYER), None)
    if start is None:
        raise UsageError(f"{source} has no player start (a thing of type {PLAYER}).")
    return Geometry(walls, start, tuple((x, y) for kind, x, y, _ in things if kind == MAP_SPOT))


_THING = np.dtype(
    [("id", "<i2"), ("x", "<i2"), ("y", "<i2"), ("z", "<i2"), ("angle", "<i2"), ("type", "<i2"), ("rest", "V8")]
)
_LINE = np.dtype(
    [("begin", "<u2"), ("end", "<u2"), ("flags", "<u2"), ("special", "V6"), ("front", "<u2"), ("back", "<u2")]
)
_SIDE = np.dtype([("offset", "<i2", 2), ("upper", "S8"), ("lower", "S8"), ("middle", "S8"), ("sector", "<u2")])
_VERTEX = np.dtype(("<i2", 2))

_HEXEN_BLOCKING = 0x0001 | 0x4000 | 0x8000  # everyone, players, everything
_NO_SIDE = 0xFFFF

Lumps = dict[str, bytes]
"""The lumps of one map by name."""


def read_hexen(lumps: Lumps, source: str) -> Geometry:
    """Walls are lines with one side, and those that block; steps are not looked at, the paper's mazes are flat."""
    lines, vertices = _records(lumps, "LINEDEFS", _LINE, source), _records(lumps, "VERTEXES", _VERTEX, source)
    if len(lines) and max(lines["begin"].max(), lines["end"].max()) >= len(vertices):
        raise UsageError(f"{source} is damaged: a line ends at a vertex that does not exist.")
    blocks = lines[(lines["flags"] & _HEXEN_BLOCKING > 0) | (lines["back"] == _NO_SIDE)]
    walls = np.concatenate([vertices[blocks["begin"]], vertices[blocks["end"]]], axis=1).astype(np.float64)
    things = _records(lumps, "THINGS", _THING, source)
    rows = zip(*(things[name].tolist() for name in ("type", "x", "y", "angle")), strict=True)
    return geometry(walls, ((kind, float(x), float(y), float(angle)) for kind, x, y, angle in rows), source)


def retexture_hexen(lumps: Lumps, draw: Callable[[int], list[str]], source: str) -> Lumps:
    """The same map with one drawn texture on each side; a side's empty parts stay empty."""
    sides = _records(lumps, "SIDEDEFS", _SIDE, source).copy()
    drawn = np.array(draw(len(sides)), "S8")
    for part in ("upper", "lower", "middle"):
        sides[part] = np.where(sides[part] == b"-", sides[part], drawn)
    return {**lumps, "SIDEDEFS": sides.tobytes()}


def _records(lumps: Lumps, name: str, record: np.dtype[np.void], source: str) -> Array:
    body = lumps.get(name, b"")
    size = record.itemsize
    if len(body) % size:
        raise UsageError(f"{source} is not a map in Hexen format: its {name} are no records of {size} bytes.")
    return np.frombuffer(body, record)


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
