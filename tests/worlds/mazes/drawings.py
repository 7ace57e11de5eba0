"""Small mazes that several tests use, in both formats, written without the code under test."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

PAPER_MAZES = Path(os.environ.get("SFL_MAZES", "no folder"))
needs_paper = pytest.mark.skipif(not (PAPER_MAZES / "sgm-base.wad").is_file(), reason="SFL_MAZES names no such folder")

CORNER = """\
name: corner
cell: 64
heading: 90

########
#...##2#
#.#.##.#
#S#1...#
########
"""


def pwad(*lumps: tuple[str, bytes]) -> bytes:
    """A WAD by hand: header, bodies, directory."""
    bodies = b"".join(body for _, body in lumps)
    directory, place = b"", 12
    for name, body in lumps:
        directory += struct.pack("<ii8s", place, len(body), name.encode())
        place += len(body)
    return struct.pack("<4sii", b"PWAD", len(lumps), 12 + len(bodies)) + bodies + directory


def hexen_room(textures: tuple[str, ...] = ("STONE2",) * 6) -> list[tuple[str, bytes]]:
    """A room of 512 x 256 units from (-256, 0); a thin wall with two sides from (0, 0) to (0, 128) blocks.

    The player starts at (-128, 64) facing north; there are two map spots, (128, 64) and (128, 192).
    """
    corners = [(-256, 0), (-256, 256), (256, 256), (256, 0), (0, 0), (0, 128)]
    lines = [(0, 1, 1, 0, 0xFFFF), (1, 2, 1, 1, 0xFFFF), (2, 3, 1, 2, 0xFFFF), (3, 0, 1, 3, 0xFFFF), (4, 5, 5, 4, 5)]
    things = [(1, -128, 64, 90), (9001, 128, 64, 0), (9001, 128, 192, 0), (44, 0, 200, 0)]
    sides = [struct.pack("<hh8s8s8sH", 0, 0, b"-", b"-", name.encode(), 0) for name in textures]
    return [
        (
            "THINGS",
            b"".join(struct.pack("<7h6B", 0, x, y, 0, angle, kind, 0x707, *[0] * 6) for kind, x, y, angle in things),
        ),
        (
            "LINEDEFS",
            b"".join(struct.pack("<3H6B2H", a, b, flags, *[0] * 6, front, back) for a, b, flags, front, back in lines),
        ),
        ("SIDEDEFS", b"".join(sides)),
        ("VERTEXES", b"".join(struct.pack("<hh", *corner) for corner in corners)),
        ("SECTORS", struct.pack("<hh8s8shhh", 0, 128, b"MFLR8_1", b"MFLR8_1", 190, 0, 0)),
        ("BEHAVIOR", b""),
    ]


def hexen_wad(*maps: str) -> bytes:
    """The room once for each map's name."""
    return pwad(*[lump for name in maps or ("MAP01",) for lump in [(name, b""), *hexen_room()]])


UDMF_ROOM = """\
namespace = "zdoom"; // a comment with a brace {
vertex { x = 0.0; y = 0.0; } vertex { x = 0.0; y = 256.0; }
vertex { x = 256.0; y = 256.0; } vertex { x = 256.0; y = 0.0; }
/* vertex { x = 9.0; y = 9.0; } */
linedef { v1 = 0; v2 = 1; sidefront = 0; } linedef { v1 = 1; v2 = 2; sidefront = 1; }
linedef { v1 = 2; v2 = 3; sidefront = 2; } linedef { v1 = 3; v2 = 0; sidefront = 3; }
linedef { v1 = 0; v2 = 2; sidefront = 4; sideback = 5; twosided = true; }
linedef { v1 = 1; v2 = 3; sidefront = 6; sideback = 7; twosided = true; blockplayers = true; }
sidedef { sector = 0; texturemiddle = "STONE2"; }
sidedef { sector = 0; texturemiddle = "STONE2"; texturetop = "-"; }
sidedef { sector = 0; texturemiddle = "STONE2"; }
sidedef { sector = 0; texturemiddle = "STONE2"; }
sidedef { sector = 0; } sidedef { sector = 0; } sidedef { sector = 0; } sidedef { sector = 0; }
sector { heightceiling = 128; texturefloor = "MFLR8_1"; textureceiling = "MFLR8_1"; comment = "}"; }
thing { x = 64.5; y = 32.0; angle = 270; type = 1; }
"""
