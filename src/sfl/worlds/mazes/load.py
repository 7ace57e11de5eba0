"""Mazes by name, from layouts and WADs, and into files.

First names: our own layouts, the paper's WADs from a folder of the user's, and files. Then how a layout or a WAD
becomes a `Maze`, and a maze gets other textures. Last the files that `sfl maze` writes: whole or not at all, and never
in place of another file unless told so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sfl.config import require
from sfl.errors import UsageError, unknown_name
from sfl.files import read_bytes, read_json, require_replaceable, text_in, write_bytes
from sfl.worlds.mazes.layout import LEVELS, Disc, Layout, Maze, read_layout
from sfl.worlds.mazes.textures import PAPER_TEXTURES, WALLS, Kind, Textures, wall_textures
from sfl.worlds.mazes.wad import (
    Geometry,
    Lump,
    map_lumps,
    maps_of,
    read_hexen,
    read_udmf,
    read_wad,
    retexture_hexen,
    retexture_udmf,
    write_udmf,
    write_wad,
)
from sfl.worlds.tasks import Pose

FOLDER_VARIABLE = "SFL_MAZES"
LAYOUTS = Path(__file__).parent / "layouts"

PAPER: dict[str, tuple[str, str]] = {
    "sgm": ("sgm-base.wad", "MAP01"),
    "test-1": ("test-1.wad", "MAP05"),
    "test-2": ("test-2.wad", "MAP05"),
    "test-4": ("test-4.wad", "MAP05"),
    "test-6": ("test-6.wad", "MAP05"),
}
"""File and map of the paper's mazes."""

PAPER_STARTS: dict[str, Pose] = {"test-1": (128.0, -64.0, 0.0)}
"""Where the paper's episodes begin, when that is not the player start of the map."""


def own_mazes() -> list[str]:
    """The layouts that come with the package."""
    return sorted(path.stem for path in LAYOUTS.glob("*.txt"))


def load_maze(name: str, maze_dir: Path | None = None, textures: Textures = PAPER_TEXTURES) -> Maze:
    """A maze by name: a layout of ours, a maze of the paper, or a file (.txt layout, .wad, .wad:MAP02).

    The paper's lie in `maze_dir` or the folder that the environment variable SFL_MAZES names. WADs that come with
    textures (all but `sgm`) keep them unless `textures` is other than the default.
    """
    if name in own_mazes():
        return build_maze(_read_drawing(LAYOUTS / f"{name}.txt"), textures)
    if name in PAPER:
        return _paper_maze(name, maze_folder(name, maze_dir), textures)
    if name.lower().endswith(".txt"):
        return build_maze(_read_drawing(Path(name)), textures)
    file, _, map_name = name.rpartition(":") if _names_map(name) else (name, "", None)
    if not file.lower().endswith(".wad"):
        hint = f"There are {', '.join([*own_mazes(), *PAPER])}; or give a .txt or .wad file."
        raise unknown_name("maze", name, [*own_mazes(), *PAPER], hint)
    path = Path(file)
    maze = read_maze(_read_bytes(path, "maze"), path.stem, str(path), map_name)
    return maze if textures == PAPER_TEXTURES else retexture(maze, textures, texture_set(textures.kind, maze_dir).names)


def files_of(name: str, maze_dir: Path | None, kind: Kind = PAPER_TEXTURES.kind) -> dict[str, Path]:
    """What `load_maze` reads that does not come with the package, and the paper's pairs, by where copies of it belong.

    Names that begin with `maze-dir/` are places in a folder of mazes; any other is the maze's own file.
    """
    if name in own_mazes():
        return {}
    if name.lower().endswith(".txt"):
        return {Path(name).name: Path(name)}
    given = maze_dir or os.environ.get(FOLDER_VARIABLE)
    files = {} if name in PAPER else {(own := maze_file(name)[0]).name: own}
    if given:
        pairs = [f"pairs/{name}-{ending}.json" for ending in ("fixed-regions", "fixed", "random")]
        wanted = [f"textures-{kind}.txt", *((PAPER[name][0], *pairs) if name in PAPER else ())]
        files |= {f"maze-dir/{place}": file for place in wanted if (file := Path(given) / place).is_file()}
    return files


def maze_file(name: str) -> tuple[Path, str]:
    """The file of a maze that was named by it, and what stands behind it: `:MAP02` or nothing."""
    file, colon, map_name = name.rpartition(":") if _names_map(name) else (name, "", "")
    return Path(file), colon + map_name


def maze_folder(name: str, maze_dir: Path | None) -> Path:
    """The folder with the paper's mazes; the maze `name` is what it is wanted for."""
    given = maze_dir or os.environ.get(FOLDER_VARIABLE)
    if not given:
        raise UsageError(
            f"The maze {name!r} is the paper's: name the folder that holds {PAPER[name][0]} by {FOLDER_VARIABLE}, "
            f"or by --maze-dir where a command has it; mazes of our own are {', '.join(own_mazes())}."
        )
    folder = Path(given)
    if not folder.is_dir():
        named = "--maze-dir" if maze_dir else FOLDER_VARIABLE
        raise UsageError(f"No folder {folder} to read the paper's mazes from; correct {named}.")
    return folder


@dataclass(frozen=True)
class TextureSet:
    """The wall textures to draw from."""

    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Names on the list that Freedoom does not have: they are left out."""


def texture_set(kind: Kind, maze_dir: Path | None) -> TextureSet:
    """The paper's list of the kind where the folder with its mazes has one, else our own set."""
    given = maze_dir or os.environ.get(FOLDER_VARIABLE)
    path = Path(given or "") / f"textures-{kind}.txt"
    if not given or not path.is_file():
        return TextureSet(WALLS[kind])
    listed = [line.strip().upper() for line in read_bytes(path).decode("utf-8", "replace").splitlines() if line.strip()]
    known = wall_textures()
    names = tuple(name for name in dict.fromkeys(listed) if name in known)
    if not names:
        raise UsageError(f"{path} lists no texture that Freedoom has.")
    return TextureSet(names, tuple(name for name in listed if name not in known))


def _paper_maze(name: str, folder: Path, textures: Textures) -> Maze:
    file, map_name = PAPER[name]
    path = folder / file
    maze = read_maze(_read_bytes(path, f"maze {name!r}"), name, str(path), map_name)
    if name in PAPER_STARTS:
        maze = replace(maze, start=PAPER_STARTS[name])
    if name == "sgm" or textures != PAPER_TEXTURES:
        maze = retexture(maze, textures, texture_set(textures.kind, folder).names)
    return replace(maze, regions=_read_regions(folder / "pairs" / f"{name}-fixed-regions.json"))


def _read_regions(path: Path) -> Mapping[str, tuple[Disc, ...]]:
    """Level -> discs; {} without a file."""
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
        regions = {level: tuple((float(x), float(y), float(r)) for x, y, r in content[level]) for level in content}
    except (LookupError, TypeError, ValueError):  # JSON of another shape
        regions = {"": ()}
    levels = tuple(LEVELS.values())
    require(set(regions) <= set(levels), f"{path} must hold lists of [x, y, radius] by level: {', '.join(levels)}.")
    return regions


def _read_drawing(path: Path) -> Layout:
    return read_layout(text_in(_read_bytes(path, "layout"), str(path)), path.stem)


def _read_bytes(path: Path, what: str) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UsageError(f"Cannot read the {what} from {path}: {error.strerror}.") from error


def _names_map(name: str) -> bool:
    return ".wad:" in name.lower()


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


MOST_COPIES = 999  # a map's name has eight letters and the engine's are MAP01, MAP02, ...


def check_free(path: Path, force: bool) -> None:
    """Refuse a file that exists already, before any work is done for it."""
    require_replaceable(path)
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; choose another place with --out, or replace it with --force.")


def write_whole(path: Path, data: bytes, force: bool = False) -> Path:
    """Write a file; its folder is made, and what it held stays whole until the new content is."""
    check_free(path, force)
    return write_bytes(path, data)


def build_file(layout: str, out: Path, textures: Textures, force: bool = False) -> Path:
    """A WAD of a layout: a text file, or one of ours by name."""
    if layout not in own_mazes() and not layout.lower().endswith(".txt"):
        raise UsageError(
            f"{layout!r} is no layout: give a .txt file or one of {', '.join(own_mazes())}; "
            "for WADs there is `sfl maze import`."
        )
    check_free(out, force)
    return write_whole(out, load_maze(layout, textures=textures).wad, force)


def import_file(
    name: str, out: Path, maze_dir: Path | None, textures: Textures | None, copies: int, force: bool = False
) -> tuple[str, ...]:
    """A WAD of one maze as MAP01, MAP02, ..., a map for each of the `copies` seeds from that of `textures` on.

    Without textures it is one map, as it is. Returns the listed textures that Freedoom does not have.
    """
    require(1 <= copies <= MOST_COPIES, f"copies must be 1 to {MOST_COPIES}, got {copies}.")
    require(textures is not None or copies == 1, "Copies differ by their textures: give the first --texture-seed.")
    check_free(out, force)
    maze = load_maze(name, maze_dir)
    if textures is None:
        write_whole(out, bundle([maze]), force)
        return ()
    known = texture_set(textures.kind, maze_dir)
    seeds = range(textures.seed, textures.seed + copies)
    write_whole(out, bundle(retexture(maze, replace(textures, seed=seed), known.names) for seed in seeds), force)
    return known.missing
