"""How fast the encoders turn frames into features, and how large they are, also where there are no weights."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from benchmarks.bench.measuring import Action, Row, Sizes, median_ratio, repeats_for, row, take_turns, waited_for

from sfl.errors import UsageError
from sfl.fast.cuda import Replayed
from sfl.method.states import FrozenEncoder
from sfl.nn import FRAME_SIZE
from sfl.nn.frame_encoders import KINDS, FrameEncoder
from sfl.nn.weights import find_weights, load_encoder, save_encoder
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


CPU_RATIO = 40
"""Without a GPU the encoder decides the speed of the whole loop: so many times ResNet-18's is asked of `compact`."""

WARM_UP = Replayed.PLAIN_CALLS + 5
"""Calls before a GPU replays graphs."""


def measure_encoders(device: str, sizes: Sizes) -> list[Row]:
    """Size of each kind of encoder, then frames per second for each number of frames at once."""
    eyes, rows = dict[str, FrozenEncoder](), list[Row]()
    for kind in KINDS:
        with usable_encoder(kind, device) as name:
            encoder = load_encoder(name, device)
            megabytes = find_weights(name).stat().st_size / 1e6
        eyes[kind] = FrozenEncoder(encoder, torch.device(device))
        parameters = sum(parameter.numel() for parameter in encoder.parameters())
        rows.append(row("encoders", f"{kind}: parameters", parameters / 1e6, "millions"))
        rows.append(row("encoders", f"{kind}: file", megabytes, "MB"))
    for count in sizes.frames:
        note(f"encoding {count} frames at once")
        rows += _rates(eyes, count, device, sizes)
    return rows


def _rates(eyes: dict[str, FrozenEncoder], count: int, device: str, sizes: Sizes) -> list[Row]:
    """Encoders take turns of about the same length; on a GPU a turn is all the time that goes by."""
    on_gpu = device.startswith("cuda")
    frames = np.random.default_rng(0).integers(0, 256, size=(count, *FRAME_SIZE, 3), dtype=np.uint8)
    actions: dict[str, Action] = {kind: waited_for(partial(look, frames), device) for kind, look in eyes.items()}
    for action in actions.values():
        for _ in range(WARM_UP if on_gpu else 2):
            action()
    clock = time.perf_counter if on_gpu else time.process_time
    repeats = {kind: repeats_for(action, sizes.turn_seconds, clock) for kind, action in actions.items()}
    seconds = take_turns(actions, sizes.rounds, repeats, clock)
    name, ratio = f"{count} frames at once", median_ratio(seconds["resnet18"], seconds["compact"])
    return [
        *(row("encoders", f"{kind}: {name}", count / median(seconds[kind]), "frames/s") for kind in eyes),
        row("encoders", f"compact over resnet18: {name}", ratio, "times", at_least=None if on_gpu else CPU_RATIO),
    ]
