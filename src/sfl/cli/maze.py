"""`sfl maze`: layouts into WADs, WADs into others, and pictures of mazes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from sfl.cli.parsing import parse
from sfl.errors import unknown_name

if TYPE_CHECKING:
    from sfl.worlds.mazes.textures import Textures

HELP = """\
usage: sfl maze COMMAND [OPTIONS]

  build LAYOUT --out FILE.wad     a text layout becomes a WAD that ViZDoom plays
  import MAZE --out FILE.wad      a maze of the paper, or any WAD of its kind, as it is or in other textures
  show MAZE --out FILE.png        draw a maze from above, with its goals and some views

MAZE is a name (small, rooms, ..., sgm, test-1, test-2, test-4, test-6), a .txt layout, or a .wad file, whose second map
is FILE.wad:MAP02. The paper's mazes are read from --maze-dir or the folder that SFL_MAZES names.
`sfl maze COMMAND --help` shows the options of a command.
"""


@dataclass(frozen=True)
class _TextureOptions:
    """How the walls look."""

    texture_seed: int | None = None
    """Equal seeds give equal walls."""
    texture_kind: Literal["train", "test"] | None = None
    """The set to draw from: train or test; test unless said otherwise."""
    texture_density: Literal["dense", "sparse"] | None = None
    """dense (unless said otherwise): every wall its own texture; sparse: one texture, and now and then another."""

    def chosen(self) -> Textures | None:
        """The textures asked for; None: nothing was."""
        from sfl.worlds.config import asked_textures

        return asked_textures(self.texture_kind, self.texture_density, self.texture_seed)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(_TextureOptions):
    """Make a WAD of a text layout."""

    layout: Positional[str]
    """A .txt file, or one of our layouts by name."""
    out: Path
    """The WAD to write."""
    force: bool = False
    """Replace a file that exists."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions(_TextureOptions):
    """Make a WAD of a maze, as it is or in other textures."""

    maze: Positional[str]
    """A maze of the paper, or a WAD."""
    out: Path
    """The WAD to write; its maps are MAP01, MAP02, ..."""
    copies: int = 1
    """One map for each of so many texture seeds, from --texture-seed on."""
    maze_dir: Path | None = None
    """The folder with the paper's mazes and texture lists; by default what SFL_MAZES names."""
    force: bool = False
    """Replace a file that exists."""


@dataclass(frozen=True, kw_only=True)
class ShowOptions(_TextureOptions):
    """Draw a maze from above, with its start, its goals by level, and some views of a player's."""

    maze: Positional[str]
    """A name, a .txt layout or a .wad file."""
    out: Path
    """The picture to write."""
    pairs: Path | None = None
    """Show the goals of this file of start-goal pairs; by default goals are drawn at random."""
    views: int = 6
    """How many views to show; the first is the one at the start."""
    seed: int = 0
    """Seed of the goals and the places of the views."""
    maze_dir: Path | None = None
    """The folder with the paper's mazes; by default what SFL_MAZES names."""
    force: bool = False
    """Replace a file that exists."""


def build(options: BuildOptions) -> int:
    """Make a WAD of a layout."""
    from sfl.worlds.mazes.load import build_file
    from sfl.worlds.mazes.textures import Textures

    print(build_file(options.layout, options.out, options.chosen() or Textures(), options.force))
    return 0


def import_(options: ImportOptions) -> int:
    """Make a WAD of a maze."""
    from sfl.run.log import note
    from sfl.worlds.mazes.load import import_file

    missing = import_file(options.maze, options.out, options.maze_dir, options.chosen(), options.copies, options.force)
    if missing:
        note(f"Left out of the list of textures, because Freedoom has none of that name: {', '.join(missing)}.")
    print(options.out)
    return 0


def show(options: ShowOptions) -> int:
    """Draw a maze."""
    from sfl.show.mazes import draw_maze
    from sfl.worlds.mazes.load import load_maze
    from sfl.worlds.mazes.textures import Textures

    maze = load_maze(options.maze, options.maze_dir, options.chosen() or Textures())
    print(draw_maze(maze, options.out, options.pairs, options.views, options.seed, options.force))
    return 0


COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "build": (BuildOptions, build),
    "import": (ImportOptions, import_),
    "show": (ShowOptions, show),
}


def dispatch(args: Sequence[str]) -> int:
    """Run one of the commands of `sfl maze`."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if args else 2
    if args[0] not in COMMANDS:
        raise unknown_name("command", f"maze {args[0]}", [f"maze {name}" for name in COMMANDS], "`sfl maze` shows all.")
    words, command = COMMANDS[args[0]]
    return command(parse(words, args[1:], f"sfl maze {args[0]}"))
