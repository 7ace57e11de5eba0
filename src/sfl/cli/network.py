"""`sfl network`: train the retrieval and the locomotion network that controller, SPTM, SGM and EC start from."""

from __future__ import annotations

from collections.abc import Sequence

from sfl.cli.parsing import parse
from sfl.core.errors import unknown_name

HELP = """\
usage: sfl network train retrieval|locomotion --out FILE.safetensors [OPTIONS]

  train retrieval      R: are two frames a few decisions apart?
  train locomotion     L: which action leads from one frame to the other?

Both learn from random walks in the training mazes, as `sfl encoder train` does. Agents read both from one file:
--join FILE takes over the network that FILE holds. The paper's mazes are read from --maze-dir or the folder that
SFL_MAZES names; without, only our own are used. `sfl network train --help` shows all options.
"""


def train(args: Sequence[str]) -> int:
    """Train a network."""
    from sfl.cli.encoder_options import NetworkOptions
    from sfl.run.encoder.network import train_network

    options = parse(NetworkOptions, args, "sfl network train")
    machine = (options.device, options.threads, options.force)
    train_network(options.network, options.recipe, options.out, options.join, *machine)
    print(options.out)
    return 0


COMMANDS = {"train": train}


def dispatch(args: Sequence[str]) -> int:
    """Run one of the commands of `sfl network`."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if args else 2
    if args[0] not in COMMANDS:
        raise unknown_name("command", f"network {args[0]}", ["network train"], "`sfl network` shows all.")
    return COMMANDS[args[0]](args[1:])
