"""Encoders to measure with, also where there are no weights."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sfl.errors import UsageError
from sfl.nn.frames import KINDS, FrameEncoder
from sfl.nn.weights import load_encoder, save_encoder
from sfl.run.log import note


@contextmanager
def usable_encoder(name: str, device: str) -> Iterator[str]:
    """The encoder's name, or of a kind without weights a file with weights drawn at random: equally fast."""
    try:
        load_encoder(name, device)
    except UsageError:
        if name not in KINDS:
            raise
    else:
        yield name
        return
    note(f"there are no weights of the encoder {name!r}: random ones are as fast")
    kind = next(known for known in KINDS if known == name)
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        path = Path(folder) / f"{kind}.safetensors"
        save_encoder(FrameEncoder(kind), path, {})
        yield str(path)
