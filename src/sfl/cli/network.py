"""`sfl network`: train and evaluate the retrieval and the locomotion network that controller, SPTM, SGM and EC use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sfl.cli.parsing import parse
from sfl.errors import unknown_name

HELP = """\
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


def train(args: Sequence[str]) -> int:
    """Train a network."""
    from sfl.cli.encoder_options import NetworkOptions
    from sfl.pretrain.networks import NETWORKS, train_networks

    options = parse(NetworkOptions, args, "sfl network train")
    machine = (options.device, options.threads, options.force)
    names = NETWORKS if options.network == "both" else (options.network,)
    train_networks(names, options.recipe, options.out, *machine)
    print(options.out)
    return 0


def join(args: Sequence[str]) -> int:
    """Put networks into one file."""
    from sfl.cli.encoder_options import JoinOptions
    from sfl.pretrain.networks import join_networks

    options = parse(JoinOptions, args, "sfl network join")
    join_networks(options.files, options.out, options.force)
    print(options.out)
    return 0


def evaluate(args: Sequence[str]) -> int:
    """Evaluate the networks of a file."""
    from sfl.cli.encoder_options import NetworkEvalOptions
    from sfl.pretrain.networks import judge_networks, network_cells
    from sfl.run.log import print_json, print_table
    from sfl.run.machine import prepare

    options = parse(NetworkEvalOptions, args, "sfl network eval")
    rows = judge_networks(options.file, options.networks, options, prepare(options.device, options.threads))
    if options.json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(network_cells(rows))
    return 0


def plot(args: Sequence[str]) -> int:
    """Draw loss curves."""
    from sfl.cli.encoder_options import NetworkPlotOptions
    from sfl.show.curves import draw_learning

    options = parse(NetworkPlotOptions, args, "sfl network plot")
    draw_learning(options.curves, options.out, options.force)
    print(options.out)
    return 0


COMMANDS = {"train": train, "join": join, "eval": evaluate, "plot": plot}


def dispatch(args: Sequence[str]) -> int:
    """Run one of the commands of `sfl network`."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if args else 2
    if args[0] not in COMMANDS:
        known = [f"network {name}" for name in COMMANDS]
        raise unknown_name("command", f"network {args[0]}", known, "`sfl network` shows all.")
    return COMMANDS[args[0]](args[1:])
