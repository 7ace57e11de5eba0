"""What is declared of a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One name and how to read it."""

    name: str
    file: Literal["train", "eval"]
    """The CSV file it is a column of."""
    unit: str
    meaning: str
    bad: str
    """What a bad value looks like."""
    kind: Literal["mean", "last"] = "last"
    """How the values between two rows become one: their mean, or the newest."""
