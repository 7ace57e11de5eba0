"""`python -m benchmarks.siege.page`: the tables of reliability.md, from the rows in `benchmarks/results/`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.siege import kills, soak

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "benchmarks" / "results" / "siege.csv", ROOT / "docs" / "reference" / "reliability.md"


def siege_table(path: Path = ROWS) -> list[str]:
    """One line for each group of families: what stands before the first hyphen. The rows have each family's promise."""
    counts: dict[str, list[int]] = {}
    for row in _read(path):
        if not row["command"]:
            group = counts.setdefault(row["family"].partition("-")[0], [0, 0, 0])
            for place, more in enumerate((1, int(row["cases"]), int(row["failures"]))):
                group[place] += more
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    lines = ["| group | families | cases | failures |", "|---|---:|---:|---:|"]
    return lines + [
        f"| `{name}` | {many} | {cases:,} | {failures:,} |" for name, (many, cases, failures) in counts.items()
    ]


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
