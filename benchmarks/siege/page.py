"""`python -m benchmarks.siege.page`: the table of docs/reliability.md, from the rows of the last whole siege."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "benchmarks" / "results" / "siege.csv", ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- families -->\n", "<!-- end of families -->\n"


def table(rows: Path = ROWS) -> str:
    """One line for each family."""
    with rows.open(encoding="utf-8", newline="") as file:
        families = [row for row in csv.DictReader(file) if not row["command"]]
    lines = ["| family | promise | cases | failures |", "|---|---|---:|---:|"]
    for row in families:
        lines.append(f"| `{row['family']}` | {row['what']} | {int(row['cases']):,} | {int(row['failures']):,} |")
    cases, failures = (sum(int(row[name]) for row in families) for name in ("cases", "failures"))
    return "\n".join([*lines, f"| all | | {cases:,} | {failures:,} |"]) + "\n"


def main() -> None:
    """Put it between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
