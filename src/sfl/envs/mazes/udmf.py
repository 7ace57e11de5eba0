"""Maps as text in UDMF: written for our own layouts, read from any WAD.

The engine builds its nodes itself, so three lumps make a playable map: its name, TEXTMAP, ENDMAP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from sfl.core.errors import UsageError
from sfl.data.types import Array
from sfl.envs.mazes.geometry import PLAYER, Geometry, geometry
from sfl.envs.tasks import Pose

WALL_HEIGHT = 128
LIGHT = 190
"""Height and light of the paper's mazes."""

_BLOCKING = ("blocking", "blockplayers", "blockeverything")
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLOCK = re.compile(rf'(\w+)\s*\{{((?:{_STRING}|[^}}"])*)\}}')
_FIELD = re.compile(rf"(\w+)\s*=\s*({_STRING}|[^;]*?)\s*;")
_PICTURE = re.compile(r'(texture(?:top|middle|bottom)\s*=\s*")([^"]*)(")')


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
    blocks = [(match[1].lower(), _fields(match[2])) for match in _BLOCK.finditer(_plain(text))]
    try:
        vertices = [(float(block["x"]), float(block["y"])) for kind, block in blocks if kind == "vertex"]
        walls = [
            (*vertices[int(block["v1"])], *vertices[int(block["v2"])])
            for kind, block in blocks
            if kind == "linedef" and _is_wall(block)
        ]
        things = [
            (int(block["type"]), float(block["x"]), float(block["y"]), float(block.get("angle", 0)))
            for kind, block in blocks
            if kind == "thing"
        ]
    except (KeyError, ValueError, IndexError) as error:
        raise UsageError(f"{source} is damaged: its TEXTMAP lacks a value or holds a wrong one ({error}).") from None
    return geometry(np.array(walls, np.float64).reshape(-1, 4), things, source)


def retexture_udmf(text: str, draw: Callable[[int], list[str]]) -> str:
    """The same map with one drawn texture on each side; a side's empty parts stay empty."""
    text = _plain(text)
    drawn: Iterator[str] = iter(draw(sum(match[1].lower() == "sidedef" for match in _BLOCK.finditer(text))))

    def replace(match: re.Match[str]) -> str:
        if match[1].lower() != "sidedef":
            return match[0]
        name = next(drawn)
        return _PICTURE.sub(lambda part: part[0] if part[2] == "-" else f"{part[1]}{name}{part[3]}", match[0])

    return _BLOCK.sub(replace, text)


def _plain(text: str) -> str:
    """The text without its comments."""
    return _COMMENTS.sub(lambda match: match[1] or " ", text)


def _is_wall(line: dict[str, str]) -> bool:
    return int(line.get("sideback", -1)) < 0 or any(line.get(name) == "true" for name in _BLOCKING)


def _fields(body: str) -> dict[str, str]:
    return {name.lower(): value.strip('"') for name, value in _FIELD.findall(body)}
