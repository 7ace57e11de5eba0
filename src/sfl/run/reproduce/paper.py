"""The paper's own numbers, each with the place in the paper where it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("paper.json")


@dataclass(frozen=True)
class PaperNumber:
    """One cell of the paper."""

    value: float
    error: float | None
    """Standard error over seeds, where the paper gives one."""
    seeds: int | None
    source: str
    """The label of its table, or the section whose text says it."""

    def __str__(self) -> str:
        return f"{self.value:g}" if self.error is None else f"{self.value:g} ± {self.error:g}"


@cache
def paper_numbers() -> dict[tuple[str, str, str, str], PaperNumber]:
    """Every number by table, row, place and measure."""
    found = {}
    for table, blocks in json.loads(FILE.read_text(encoding="utf-8")).items():
        for block in blocks:
            for row, numbers in block["rows"].items():
                errors = numbers.get("errors", [None] * len(numbers["values"]))
                for (place, measure), value, error in zip(block["columns"], numbers["values"], errors, strict=True):
                    number = PaperNumber(float(value), error, block["seeds"], block["source"])
                    found[table, row, place, measure] = number
    return found


def paper_number(table: str, row: str, place: str, measure: str) -> PaperNumber | None:
    """What the paper says of a cell; None where it says nothing."""
    return paper_numbers().get((table, row, place, measure))
