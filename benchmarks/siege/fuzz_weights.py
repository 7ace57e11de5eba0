"""Weights: safetensors with odd headers and odd numbers, as encoders, as networks and in a run."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

from benchmarks.siege import hostile, names
from benchmarks.siege.case import Family, Room, chance
from benchmarks.siege.forked import Limits, judge, sfl
from benchmarks.siege.fuzz_inputs import is_real

LOOK = "--mazes small --pairs 4 --walks 1 --walk-length 60 --workers 1 --device cpu"
LITTLE = "--mazes small --frames 60 --walk-length 30 --games 1 --workers 1 --steps 1 --device cpu"
TINY = "--tiny --device cpu --train.steps 60 --train.eval-every 60 --eval.episodes 1 --agent.replay-size 1000"
AS_ENCODER = (
    f"encoder eval w.safetensors {LOOK} --views 2 --queries 1",
    f"train {names.MAZE} {TINY} --agent.frames.encoder w.safetensors",
    f"encoder train --distil w.safetensors {LITTLE} --no-evaluate --out o.safetensors",
)
AS_NETWORKS = (
    f"network eval w.safetensors {LOOK} --chases 4 --retrieval.encoder compact --locomotion.encoder compact",
    "network join w.safetensors --out joined.safetensors",
    "encoder extract w.safetensors --kind compact --out o.safetensors",
)
LONG = Limits(seconds=40)


def _weights(seed: int, room: Room) -> str:
    dice = chance("weights", seed)
    encoder = dice.random() < 0.5
    source = room.base / "weights" / ("encoder.safetensors" if encoder else "networks.safetensors")
    content, useless = _spoilt(source.read_bytes(), dice)
    hostile.write(room.here / "w.safetensors", content)
    words = dice.choice(AS_ENCODER if encoder else AS_NETWORKS)
    ended = sfl(words.split(), room, LONG, real=is_real(seed))
    said = judge(ended, True if useless else None)
    return said


def _spoilt(content: bytes, dice: random.Random) -> tuple[bytes, bool]:
    """Changed weights; True where they are of no use to anybody."""
    kind = dice.randrange(4)
    if kind == 0:
        return hostile.damaged(content, dice), False
    size = struct.unpack_from("<Q", content)[0]
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    if kind == 1:
        fill = dice.choice((struct.pack("<f", float("nan")), struct.pack("<f", float("inf")), b"\xff\xff\xff\xff"))
        return content[: 8 + size] + fill * (len(body) // 4) + body[len(body) // 4 * 4 :], True
    if kind == 2:
        return _assembled(_header(header, dice), body), False
    others: list[Callable[[], bytes]] = [
        lambda: struct.pack("<Q", dice.choice((0, 1, 2**63, 2**40, len(content), size + 1, size - 1))) + content[8:],
        lambda: struct.pack("<Q", 20_000) + b"[" * 20_000 + body,
        lambda: struct.pack("<Q", 3) + b"\xff\xfe\xfd" + body,
        lambda: struct.pack("<Q", 2) + b"{}",
        lambda: content[: 8 + size],
        lambda: content[: 8 + size] + bytes(len(body)),
        lambda: content + b"more",
    ]
    return dice.choice(others)(), False


def _assembled(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def _header(header: dict[str, Any], dice: random.Random) -> Any:
    """Another table of tensors: kinds, shapes, places, names."""
    tensors = [name for name in header if name != "__metadata__"]
    name = dice.choice(tensors)
    entry = header[name]
    kind = dice.randrange(7)
    if kind == 0:
        entry["dtype"] = dice.choice(("F64", "I64", "BF16", "F16", "BOOL", "U8", "X", "", None, 3))
    elif kind == 1:
        entry["shape"] = dice.choice(
            ([], [0], [-1], [2**40, 2**40], [1, *entry["shape"]], entry["shape"][::-1], "x", None)
        )
    elif kind == 2:
        entry["data_offsets"] = dice.choice(([0, 0], [1, 0], [0, 2**62], [-4, 0], [0], None))
    elif kind == 3:
        header[hostile.word(dice)[:100]] = header.pop(name)
    elif kind == 4:
        header["__metadata__"] = dice.choice((hostile.value(dice), {"sfl": "x" * 1000}, {"config": "{" * 1000}, {}))
    elif kind == 5:
        del header[name]
    else:
        return hostile.changed_json(header, dice, dice.choice((1, 3)))
    return header


FAMILIES = (
    Family(
        "weights",
        "Weights that are damaged, of another kind or not numbers at all are refused in one line.",
        _weights,
        weight=80,
        needs=("weights",),
        short=2,
    ),
)
