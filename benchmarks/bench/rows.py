"""What a benchmark gives: rows of one figure each; and how much it takes to measure them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
"""benchmark, name, value, unit, must (what is asked of the value, or nothing), held (yes, no, or nothing)."""


@dataclass(frozen=True)
class Sizes:
    """How long to measure."""

    fill_steps: int = 20_000
    """Random steps in the replay before anything is measured: the size of the paper's replay."""
    settle_steps: int = 240
    """Steps of learning before anything is measured."""
    share_steps: int = 1_000
    """Steps over which the shares of a step are taken."""
    rounds: int = 15
    """Times that two contestants take turns; medians are over these."""
    block_steps: int = 32
    """Environment steps of one turn."""
    observation_steps: int = 2_000
    """Steps of one walk that times an observation."""
    memory_steps: int = 8_000
    """Steps of the training run whose memory is measured."""
    landmarks: tuple[int, ...] = (100, 1_000, 5_000)
    """Sizes of landmark graphs."""
    features: int = 2_048
    """Length of a landmark's psi."""
    turn_seconds: float = 0.1
    """Length of one turn where calls are short: of a bare matrix product, of an encoder."""
    frames: tuple[int, ...] = (8, 64)
    """Frames encoded at once: few, and half of the 128 games of a run with a GPU."""


def row(
    benchmark: str, name: str, value: float, unit: str, at_least: float | None = None, at_most: float | None = None
) -> Row:
    """One figure, and whether it is what it must be."""
    must = held = ""
    if at_least is not None:
        must, held = f">= {at_least:g}", "yes" if value >= at_least else "no"
    if at_most is not None:
        must, held = f"<= {at_most:g}", "yes" if value <= at_most else "no"
    rounded = float(f"{value:.4g}")
    return {"benchmark": benchmark, "name": name, "value": rounded, "unit": unit, "must": must, "held": held}
