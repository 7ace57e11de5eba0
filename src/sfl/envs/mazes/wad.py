"""WAD files: a directory of named lumps, and the maps among them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sfl.core.errors import FileError

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
