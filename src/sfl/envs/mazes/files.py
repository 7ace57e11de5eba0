"""Mazes into files: whole or not at all, and never in place of another file unless told so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sfl.core.config import require
from sfl.core.errors import UsageError
from sfl.core.files import require_replaceable, write_bytes
from sfl.envs.mazes.build import bundle, retexture
from sfl.envs.mazes.library import load_maze, own_mazes, texture_set
from sfl.envs.mazes.textures import Textures

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
