"""The encoder inside a retrieval network: the paper's SFL sees through the encoder of SPTM's R."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sfl.core.config import require
from sfl.core.errors import CheckpointError
from sfl.envs.mazes.files import check_free
from sfl.learners.state import load_module
from sfl.nn.frame_encoders import KINDS, FrameEncoder, Kind
from sfl.nn.weights import SUFFIX, load_networks, read_header, save_encoder
from sfl.run.pretraining import cards_in


def extract_encoder(networks: str, out: Path, kind: Kind = "resnet18", force: bool = False) -> None:
    """Write the encoder of a file's retrieval network as one of its own; the card of that network goes with it."""
    require(out.suffix == SUFFIX, f"--out must name a {SUFFIX} file, got {out}.")
    check_free(out, force)
    encoder = encoder_of(networks, kind)
    card = dict(cards_in(read_header(Path(networks))).get("retrieval", {}))
    save_encoder(encoder, out, card | {"source": f"the retrieval network of {Path(networks).name}"})


@torch.no_grad()
def encoder_of(networks: str, kind: Kind) -> FrameEncoder:
    """R's encoder, standardised by what the first batch normalization of R's head has seen of its features."""
    arrays = load_networks(networks, ["retrieval"])
    encoder = FrameEncoder(kind, normalised=True)
    norm = nn.BatchNorm1d(2 * encoder.dim)  # of both codes of a pair, side by side
    try:
        load_module(encoder, "retrieval.encoder", arrays)
        load_module(norm, "retrieval.head.0", arrays)
    except CheckpointError as error:
        others = ", ".join(known for known in KINDS if known != kind)
        raise CheckpointError(
            f"The retrieval network of {networks} has no {kind} encoder; give the one that it was trained with as "
            f"--kind ({others})."
        ) from error
    assert norm.running_mean is not None
    assert norm.running_var is not None
    encoder.mean.copy_(norm.running_mean[: encoder.dim])
    encoder.std.copy_(norm.running_var[: encoder.dim].sqrt().clamp_min(1e-6))
    return encoder
