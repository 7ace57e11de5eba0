"""One seed, many independent generators, each with a name and a state that JSON can hold."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

Json = dict[str, Any]


def spawn(seed: int, names: Iterable[str]) -> dict[str, np.random.Generator]:
    """Independent generators by name.

    A stream depends on the seed and its own name only, so that a new name never shifts the others.
    """
    return {
        name: np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())])))
        for name in names
    }


def generator_state(generator: np.random.Generator) -> Json:
    """The state of a generator as plain JSON (Python's integers have no upper limit)."""
    return dict(generator.bit_generator.state)


def restore_generator(generator: np.random.Generator, state: Json) -> None:
    """Set a generator to a state taken by `generator_state`."""
    generator.bit_generator.state = state


def draw_seed(generator: np.random.Generator) -> int:
    """A seed for an environment's reset or a torch generator."""
    return int(generator.integers(2**31 - 1))


# ---- What the machine lends to this process.


def core_count() -> int:
    """Cores that this process may use: `taskset` and batch systems lend fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
