"""`sfl maze`, `sfl encoder` and `sfl network`: what worlds and networks are made with before a run.

Each has commands of its own: their words, whose docstrings are their help, and what they do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from sfl.cli.commands import Command, MachineOptions
from sfl.cli.parsing import parse
from sfl.errors import unknown_name
from sfl.nn import Kind
from sfl.pretrain.config import EncoderJudgement, EncoderRecipe, NetworkJudgement, NetworkRecipe

if TYPE_CHECKING:
    from sfl.worlds.mazes.textures import Textures

# ---- Layouts into WADs, WADs into others, and pictures of mazes.


MAZE_HELP = """\
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
class MazeBuildOptions(_TextureOptions):
    """Make a WAD of a text layout."""

    layout: Positional[str]
    """A .txt file, or one of our layouts by name."""
    out: Path
    """The WAD to write."""
    force: bool = False
    """Replace a file that exists."""

    def execute(self) -> int:
        """Make a WAD of a layout."""
        from sfl.worlds.mazes.load import build_file
        from sfl.worlds.mazes.textures import Textures

        print(build_file(self.layout, self.out, self.chosen() or Textures(), self.force))
        return 0


@dataclass(frozen=True, kw_only=True)
class MazeImportOptions(_TextureOptions):
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

    def execute(self) -> int:
        """Make a WAD of a maze."""
        from sfl.run.log import note
        from sfl.worlds.mazes.load import import_file

        missing = import_file(self.maze, self.out, self.maze_dir, self.chosen(), self.copies, self.force)
        if missing:
            note(f"Left out of the list of textures, because Freedoom has none of that name: {', '.join(missing)}.")
        print(self.out)
        return 0


@dataclass(frozen=True, kw_only=True)
class MazeShowOptions(_TextureOptions):
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

    def execute(self) -> int:
        """Draw a maze."""
        from sfl.show.mazes import draw_maze
        from sfl.worlds.mazes.load import load_maze
        from sfl.worlds.mazes.textures import Textures

        maze = load_maze(self.maze, self.maze_dir, self.chosen() or Textures())
        print(draw_maze(maze, self.out, self.pairs, self.views, self.seed, self.force))
        return 0


# ---- Encoders of frames: training one or taking one out of a network, and how well it knows places again.


ENCODER_HELP = """\
usage: sfl encoder COMMAND [OPTIONS]

  train --out FILE.safetensors    learn one from random walks in training mazes; it is evaluated at the end
  extract NETWORKS --out FILE     the encoder of a retrieval network (`sfl network train`), as the paper's SFL has it
  eval ENCODER                    pair accuracy and place recognition, in textures and mazes it has not seen

ENCODER is a shipped one (place, compact) or a .safetensors file that `train` or `extract` wrote.
The paper's mazes are read from --maze-dir or the folder that SFL_MAZES names; without, only our own are used.
`sfl encoder COMMAND --help` shows the options of a command.
"""


@dataclass(frozen=True, kw_only=True)
class EncoderTrainOptions(MachineOptions, EncoderRecipe):
    """Learn an encoder of frames from random walks, without labels and poses, and evaluate it."""

    out: Path
    """The .safetensors file to write; its loss curve (.csv) and model card (.md) go beside it."""
    force: bool = False
    """Replace files that exist."""
    evaluate: bool = True
    """Evaluate at the end."""
    eval: EncoderJudgement = EncoderJudgement()

    @property
    def recipe(self) -> EncoderRecipe:
        """The part that is about learning."""
        return EncoderRecipe(**{field.name: getattr(self, field.name) for field in fields(EncoderRecipe)})

    def execute(self) -> int:
        """Train an encoder."""
        from sfl.pretrain.evaluate import place_cells
        from sfl.pretrain.train import train_encoder
        from sfl.run.log import print_table

        judgement = self.eval if self.evaluate else None
        rows = train_encoder(self.recipe, self.out, judgement, self.device, self.threads, self.force)
        if rows:
            print_table(place_cells(rows))
        print(self.out)
        return 0


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """Write the encoder of a retrieval network as an encoder of its own."""

    networks: Positional[str]
    """A file of `sfl network train`, or networks.safetensors of a checkpoint."""
    out: Path
    """The .safetensors file to write."""
    kind: Kind = "resnet18"
    """What kind of encoder the network has."""
    force: bool = False
    """Replace a file that exists."""

    def execute(self) -> int:
        """Take the encoder out of a retrieval network."""
        from sfl.pretrain.train import extract_encoder

        extract_encoder(self.networks, self.out, self.kind, self.force)
        print(self.out)
        return 0


@dataclass(frozen=True, kw_only=True)
class EncoderEvalOptions(MachineOptions, EncoderJudgement):
    """See how well an encoder knows places again, in test textures."""

    encoder: Positional[str]
    """A shipped encoder (place, compact) or a .safetensors file."""
    json: bool = False
    """Print JSON instead of a table."""

    def execute(self) -> int:
        """Evaluate an encoder."""
        from sfl.nn.weights import load_encoder
        from sfl.pretrain.evaluate import judge_encoder, place_cells
        from sfl.run.log import print_json, print_table
        from sfl.run.machine import prepare

        rows = judge_encoder(load_encoder(self.encoder, prepare(self.device, self.threads)), self)
        if self.json:
            print_json([asdict(row) for row in rows])
        else:
            print_table(place_cells(rows))
        return 0


# ---- The retrieval and the locomotion network that controller, SPTM, SGM and EC use.


NETWORK_HELP = """\
usage: sfl network COMMAND [OPTIONS]

  train retrieval --out FILE.safetensors      R: are two frames a few decisions apart?
  train locomotion --out FILE.safetensors     L: which action leads from one frame to the other?
  train both --out FILE.safetensors           both from the same walks, in one file, which is what agents read
  join FILE FILE --out FILE.safetensors       networks of several files in one
  eval FILE                                   how often they are right, in textures and mazes they have not seen
  plot CURVE.csv... --out FILE.png            draw how they learned

Both learn from random walks in the training mazes, as `sfl encoder train` does, and write loss curves (.csv) and
a model card (.md) beside the file.
The paper's mazes are read from --maze-dir or the folder that SFL_MAZES names; without, only our own are used.
`sfl network COMMAND --help` shows the options of a command.
"""


@dataclass(frozen=True, kw_only=True)
class NetworkTrainOptions(MachineOptions, NetworkRecipe):
    """Learn a network from random walks, or both from the same, without labels and poses."""

    network: Positional[Literal["retrieval", "locomotion", "both"]]
    """Which; both: one after the other, each for half of the time that collecting leaves."""
    out: Path
    """The .safetensors file to write; loss curves (.csv) and a model card (.md) go beside it."""
    force: bool = False
    """Replace files that exist."""

    @property
    def recipe(self) -> NetworkRecipe:
        """The part that is about learning."""
        return NetworkRecipe(**{field.name: getattr(self, field.name) for field in fields(NetworkRecipe)})

    def execute(self) -> int:
        """Train a network."""
        from sfl.pretrain.networks import NETWORKS, train_networks

        machine = (self.device, self.threads, self.force)
        names = NETWORKS if self.network == "both" else (self.network,)
        train_networks(names, self.recipe, self.out, *machine)
        print(self.out)
        return 0


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """Write networks of several files into one, which is what agents read."""

    files: Positional[tuple[str, ...]]
    """Files of `sfl network train`, each with another network."""
    out: Path
    """The .safetensors file to write."""
    force: bool = False
    """Replace a file that exists."""

    def execute(self) -> int:
        """Put networks into one file."""
        from sfl.pretrain.networks import join_networks

        join_networks(self.files, self.out, self.force)
        print(self.out)
        return 0


@dataclass(frozen=True, kw_only=True)
class NetworkEvalOptions(MachineOptions, NetworkJudgement):
    """See how often networks are right, in textures and mazes that they have not seen, with chance beside it."""

    file: Positional[str]
    """A file of `sfl network train`, or networks.safetensors of a checkpoint."""
    networks: tuple[Literal["retrieval", "locomotion"], ...] = ()
    """Which; by default those that the file holds."""
    json: bool = False
    """Print JSON instead of a table."""

    def execute(self) -> int:
        """Evaluate the networks of a file."""
        from sfl.pretrain.networks import judge_networks, network_cells
        from sfl.run.log import print_json, print_table
        from sfl.run.machine import prepare

        rows = judge_networks(self.file, self.networks, self, prepare(self.device, self.threads))
        if self.json:
            print_json([asdict(row) for row in rows])
        else:
            print_table(network_cells(rows))
        return 0


@dataclass(frozen=True, kw_only=True)
class NetworkPlotOptions:
    """Draw how networks learned."""

    curves: Positional[tuple[Path, ...]]
    """Loss curves (.csv), as `sfl network train` and `sfl encoder train` write them; each is drawn under its name."""
    out: Path
    """The .png file to write."""
    force: bool = False
    """Replace a file that exists."""

    def execute(self) -> int:
        """Draw loss curves."""
        from sfl.show.curves import draw_learning

        draw_learning(self.curves, self.out, self.force)
        print(self.out)
        return 0


FAMILIES: dict[str, tuple[str, dict[str, type[Command]]]] = {
    "maze": (MAZE_HELP, {"build": MazeBuildOptions, "import": MazeImportOptions, "show": MazeShowOptions}),
    "encoder": (ENCODER_HELP, {"train": EncoderTrainOptions, "extract": ExtractOptions, "eval": EncoderEvalOptions}),
    "network": (
        NETWORK_HELP,
        {
            "train": NetworkTrainOptions,
            "join": JoinOptions,
            "eval": NetworkEvalOptions,
            "plot": NetworkPlotOptions,
        },
    ),
}


def dispatch(family: str, args: Sequence[str]) -> int:
    """Run one of the commands of a family."""
    page, commands = FAMILIES[family]
    if not args or args[0] in ("-h", "--help", "help"):
        print(page, end="")
        return 0 if args else 2
    if args[0] not in commands:
        known = [f"{family} {name}" for name in commands]
        raise unknown_name("command", f"{family} {args[0]}", known, f"`sfl {family}` shows all.")
    return parse(commands[args[0]], args[1:], f"sfl {family} {args[0]}").execute()
