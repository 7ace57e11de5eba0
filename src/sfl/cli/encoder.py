"""`sfl encoder`: train an encoder of frames or take one out of a network, and see how well it knows places again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sfl.cli.parsing import parse
from sfl.errors import unknown_name

HELP = """\
usage: sfl encoder COMMAND [OPTIONS]

  train --out FILE.safetensors    learn one from random walks in training mazes; it is evaluated at the end
  extract NETWORKS --out FILE     the encoder of a retrieval network (`sfl network train`), as the paper's SFL has it
  eval ENCODER                    pair accuracy and place recognition, in textures and mazes it has not seen

ENCODER is a shipped one (place, compact) or a .safetensors file that `train` or `extract` wrote.
The paper's mazes are read from --maze-dir or the folder that SFL_MAZES names; without, only our own are used.
`sfl encoder COMMAND --help` shows the options of a command.
"""


def train(args: Sequence[str]) -> int:
    """Train an encoder."""
    from sfl.cli.encoder_options import TrainOptions
    from sfl.pretrain.evaluate import place_cells
    from sfl.pretrain.train import train_encoder
    from sfl.run.log import print_table

    options = parse(TrainOptions, args, "sfl encoder train")
    judgement = options.eval if options.evaluate else None
    rows = train_encoder(options.recipe, options.out, judgement, options.device, options.threads, options.force)
    if rows:
        print_table(place_cells(rows))
    print(options.out)
    return 0


def evaluate(args: Sequence[str]) -> int:
    """Evaluate an encoder."""
    from sfl.cli.encoder_options import EvalOptions
    from sfl.nn.weights import load_encoder
    from sfl.pretrain.evaluate import judge_encoder, place_cells
    from sfl.run.log import print_json, print_table
    from sfl.run.machine import prepare

    options = parse(EvalOptions, args, "sfl encoder eval")
    rows = judge_encoder(load_encoder(options.encoder, prepare(options.device, options.threads)), options)
    if options.json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(place_cells(rows))
    return 0


def extract(args: Sequence[str]) -> int:
    """Take the encoder out of a retrieval network."""
    from sfl.cli.encoder_options import ExtractOptions
    from sfl.pretrain.train import extract_encoder

    options = parse(ExtractOptions, args, "sfl encoder extract")
    extract_encoder(options.networks, options.out, options.kind, options.force)
    print(options.out)
    return 0


COMMANDS = {"train": train, "extract": extract, "eval": evaluate}


def dispatch(args: Sequence[str]) -> int:
    """Run one of the commands of `sfl encoder`."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if args else 2
    if args[0] not in COMMANDS:
        known = [f"encoder {name}" for name in COMMANDS]
        raise unknown_name("command", f"encoder {args[0]}", known, "`sfl encoder` shows all.")
    return COMMANDS[args[0]](args[1:])
