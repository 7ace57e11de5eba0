"""`python -m benchmarks.siege.page`: the tables of reliability.md, from the rows in `benchmarks/results/`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.siege import kills, soak

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "benchmarks" / "results" / "siege.csv", ROOT / "docs" / "reference" / "reliability.md"


def siege_table(path: Path = ROWS) -> list[str]:
    """One line for each family."""
    families = [row for row in _read(path) if not row["command"]]
    lines = ["| family | promise | cases | failures |", "|---|---|---:|---:|"]
    for row in families:
        lines.append(f"| `{row['family']}` | {row['what']} | {int(row['cases']):,} | {int(row['failures']):,} |")
    cases, failures = (sum(int(row[name]) for row in families) for name in ("cases", "failures"))
    return [*lines, f"| all | | {cases:,} | {failures:,} |"]


def kills_table(path: Path = kills.RESULTS) -> list[str]:
    """One line for each kind of kill."""
    rows = _read(path)
    lines = ["| kind | runs | kills | ended otherwise |", "|---|---:|---:|---:|"]
    for kind in sorted({row["kind"] for row in rows}):
        lines.append(f"| `{kind}` | {_counts([row for row in rows if row['kind'] == kind])} |")
    return [*lines, f"| all | {_counts(rows)} |"]


def _counts(rows: Sequence[dict[str, str]]) -> str:
    killed, other = sum(int(row["kills"]) for row in rows), sum(row["outcome"] != "same" for row in rows)
    return f"{len(rows):,} | {killed:,} | {other:,}"


def soak_table(path: Path = soak.RESULTS) -> list[str]:
    """One line for each long run."""
    rows, lines = (
        _read(path),
        ["| what | minutes | steps or requests | MB an hour | of workers and games | descriptors |"],
    )
    lines.append("|---|---:|---:|---:|---:|---:|")
    for name in dict.fromkeys(row["soak"] for row in rows):
        samples = [soak.sample(row) for row in rows if row["soak"] == name]
        served = name == soak.STUDIO
        later = soak.settled(samples, 0 if served else soak.REPLAY)
        grown = soak.growth(later, 0 if served else soak.BYTES_A_STEP), soak.growth(later, 0, others=True)
        last, opened = samples[-1], [one.descriptors for one in later]
        lines.append(
            f"| `{name}` | {last.seconds / 60:.0f} | {last.steps:,} | {grown[0]:+.1f} | {grown[1]:+.1f} "
            f"| {min(opened)} to {max(opened)} |"
        )
    return lines


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


TABLES = {"families": siege_table, "kills": kills_table, "soak": soak_table}


def page(text: str) -> str:
    """The page with its tables between their marks."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        head, _, rest = text.partition(begin)
        text = head + begin + "\n".join(table()) + "\n" + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Write it."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
