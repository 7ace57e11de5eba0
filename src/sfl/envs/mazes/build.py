"""From layouts and WADs to mazes, and from mazes to WADs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from sfl.core.config import require
from sfl.core.errors import UsageError, unknown_name
from sfl.envs.mazes.geometry import Geometry
from sfl.envs.mazes.hexen import read_hexen, retexture_hexen
from sfl.envs.mazes.layout import Layout, read_layout
from sfl.envs.mazes.maze import Maze
from sfl.envs.mazes.textures import PAPER_TEXTURES, Textures
from sfl.envs.mazes.udmf import read_udmf, retexture_udmf, write_udmf
from sfl.envs.mazes.wad import Lump, map_lumps, maps_of, read_wad, write_wad

WALL_LENGTH = 128.0
"""A wall of our own mazes is at most this long before the next texture begins, as in the paper's mazes."""

LAYOUT_LUMP = "SFLMAZE"
"""Our own WADs carry the drawing they were made from, which knows more than the map: cells and goal regions."""


def build_maze(layout: Layout, textures: Textures = PAPER_TEXTURES) -> Maze:
    """A playable maze of a layout."""
    walls = layout.lines(WALL_LENGTH)
    text = write_udmf(walls, textures.walls(len(walls)), textures.flats(), layout.start)
    lumps = [Lump("MAP01"), Lump("TEXTMAP", text.encode()), Lump("ENDMAP"), Lump(LAYOUT_LUMP, layout.text.encode())]
    return Maze(layout.name, write_wad(lumps), "MAP01", walls, layout.start, (), layout.regions, layout.cells)


def read_maze(data: bytes, name: str, source: str, map_name: str | None = None) -> Maze:
    """One map of a WAD as it is; without a name its first. `source` names the file in complaints."""
    lumps = read_wad(data, source)
    names = list(maps_of(lumps))
    require(bool(names), f"{source} holds no map; give a WAD with a map in Hexen or UDMF format.")
    chosen = map_name or names[0]
    if chosen not in names:
        raise unknown_name("map", chosen, names, f"{source} has {_listed(names)}.")
    shape = _geometry(map_lumps(lumps, chosen), f"{chosen} of {source}")
    maze = Maze(name, data, chosen, shape.walls, shape.start, shape.spots, {}, None)
    drawing = _drawing(lumps, name)
    return maze if drawing is None else replace(maze, regions=drawing.regions, cells=drawing.cells)


def retexture(maze: Maze, textures: Textures, names: Sequence[str] = ()) -> Maze:
    """The same maze in other textures, drawn from `names` or, without, from our own set of the kind.

    Equal textures give equal bytes; the floor and ceiling of a WAD that is not ours stay.
    """
    lumps = read_wad(maze.wad, maze.name)
    drawing = _drawing(lumps, maze.name)
    if drawing is not None:
        return replace(build_maze(drawing, textures), name=maze.name)
    draw, source = partial(textures.walls, names=names), f"{maze.map_name} of {maze.name}"
    body = map_lumps(lumps, maze.map_name)
    if body[1].name == "TEXTMAP":
        fresh = [Lump(lump.name, _new_text(lump.body, draw, source)) if lump is body[1] else lump for lump in body]
    else:
        bodies = retexture_hexen({lump.name: lump.body for lump in body}, draw, source)
        fresh = [Lump(name, content) for name, content in bodies.items()]
    return replace(maze, wad=write_wad(fresh))


def bundle(mazes: Iterable[Maze]) -> bytes:
    """One WAD with the map of each maze, as MAP01, MAP02, ..."""
    lumps: list[Lump] = []
    drawing: list[Lump] = []
    for number, maze in enumerate(mazes, 1):
        every = read_wad(maze.wad, maze.name)
        lumps += [Lump(f"MAP{number:02d}"), *map_lumps(every, maze.map_name)[1:]]
        drawing = [lump for lump in every if lump.name == LAYOUT_LUMP]
    return write_wad([*lumps, *drawing])


def _geometry(lumps: Sequence[Lump], source: str) -> Geometry:
    bodies = {lump.name: lump.body for lump in lumps}
    if "TEXTMAP" in bodies:
        return read_udmf(bodies["TEXTMAP"].decode("utf-8", "replace"), source)
    if "BEHAVIOR" not in bodies:
        raise UsageError(f"{source} is in Doom's old format; only maps in Hexen or UDMF format can be read.")
    return read_hexen(bodies, source)


def _drawing(lumps: Sequence[Lump], name: str) -> Layout | None:
    body = next((lump.body for lump in lumps if lump.name == LAYOUT_LUMP), None)
    return None if body is None else read_layout(body.decode("utf-8", "replace"), name)


def _new_text(body: bytes, draw: partial[list[str]], source: str) -> bytes:
    return retexture_udmf(body.decode("utf-8", "replace"), draw, source).encode()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
