"""Mazes by name: our own layouts, the paper's WADs from a folder of the user's, and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfl.core.config import require
from sfl.core.errors import UsageError, unknown_name
from sfl.core.files import read_bytes, read_json, text_in
from sfl.envs.mazes.build import build_maze, read_maze, retexture
from sfl.envs.mazes.freedoom import wall_textures
from sfl.envs.mazes.layout import LEVELS, Layout, read_layout
from sfl.envs.mazes.maze import Disc, Maze
from sfl.envs.mazes.textures import PAPER_TEXTURES, WALLS, Kind, Textures
from sfl.envs.tasks import Pose

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
