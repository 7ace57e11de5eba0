"""The textures that the engine has: those of Freedoom, which comes with ViZDoom."""

from __future__ import annotations

import struct
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sfl.core.errors import SflError
from sfl.envs.mazes.wad import lump_name, read_wad


@cache
def wall_textures() -> frozenset[str]:
    """The names in the TEXTURE1 lump of the game's own WAD."""
    spec = find_spec("vizdoom")
    folder = Path(next(iter(spec.submodule_search_locations or ())) if spec else "")
    path = folder / "freedoom2.wad"
    if not path.is_file():
        raise SflError("Freedoom's WAD is missing; `pip install vizdoom` brings freedoom2.wad.")
    lumps = {lump.name: lump.body for lump in read_wad(path.read_bytes(), path.name)}
    body = lumps["TEXTURE1"]
    (count,) = struct.unpack_from("<i", body)
    places = struct.unpack_from(f"<{count}i", body, 4)
    return frozenset(lump_name(body[place : place + 8]) for place in places)
