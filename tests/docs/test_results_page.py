"""docs/results.md is what benchmarks/tables.py makes of the rows in benchmarks/results/."""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sfl.errors import UsageError
from sfl.old_names import new_name
from sfl.reproduce.tables import TABLES
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow

from .pages import benchmark, read

TABLES_PROGRAM = benchmark("tables")


@cache
def gathered_rows() -> Any:
    return TABLES_PROGRAM.Gathered()


def test_the_page_is_that_of_the_rows() -> None:
    made = TABLES_PROGRAM.page(gathered_rows(), TABLES_PROGRAM.Gathered(names=TABLES_PROGRAM.SCALED))
    assert made == read("docs/results.md"), "python benchmarks/tables.py > docs/results.md"


@pytest.mark.parametrize("method", ["controller", "sptm", "sgm", "mss", "ec-sptm", "ec-sgm"])
def test_the_page_of_a_method_has_its_rows(method: str) -> None:
    made = "".join(f"{line}\n" for line in TABLES_PROGRAM.method_lines(method, gathered_rows()))
    page = f"docs/methods/{method.partition('-')[0]}.md"
    assert read(page).count(made) == 1, f"python benchmarks/tables.py --of {method}:\n{made}"


def test_what_a_careful_reader_is_told_is_what_the_rows_say() -> None:
    pages = {page: " ".join(read(page).split()) for page in ("README.md", "docs/results.md")}
    with (TABLES_PROGRAM.RESULTS / "budgets.csv").open(encoding="utf-8", newline="") as file:
        rows = [{**row, "run": new_name(row["run"])} for row in csv.DictReader(file)]
    rows = [row for row in rows if "-spawn-paper" in row["run"]]
    taught = {row["run"]: float(row["gradient_steps"]) for row in rows if row["source"].startswith("encoder")}
    few, many = (f"{steps:,.0f}" for steps in sorted(set(taught.values())))
    in_four_thousand = {run for run, steps in taught.items() if steps == min(taught.values())}
    assert in_four_thousand == {"sgm-random-spawn-paper"} | {run for run in taught if run.endswith("-frontiers")} | {
        "sgm-random-spawn-paper-reachability"
    }
    assert f"encoder had {few} to {many} gradient steps" in pages["README.md"]
    assert f"had {few} gradient steps in sgm and ablation-exploration and {many} elsewhere" in pages["docs/results.md"]
    gathered = gathered_rows()
    levels = [gathered.value("sgm-random-spawn-random", level) for level in ("easy", "medium", "hard")]
    paper = [TABLES_PROGRAM.paper_number("table-random", "random", "sgm", one) for one in ("easy", "medium", "hard")]
    ours = " / ".join(f"{one.mean:.0f}" for one in levels)
    theirs = " / ".join(f"{one.value:.0f}" for one in paper)
    assert f"the random policy has {ours} here and {theirs} in the paper" in pages["docs/results.md"]
    assert f"the random policy has {ours} in SGM (easy, medium, hard) and {theirs} in the paper" in pages["README.md"]
    for rooms in (6, 8):
        run = f"multiroom-n{rooms}-sfl"
        shares = " / ".join(f"{gathered.value(run, level).mean:.0f}" for level in ("paper", "any"))
        assert re.search(rf"`{run}` (reaches )?{shares}%", pages["docs/results.md"])


def episodes(experiment: str, seed: int, successes: int) -> list[EpisodeRow]:
    """Four episodes on the level `hard`, and four on `easy`, all of which fail."""
    return [
        EpisodeRow(
            *(experiment, "sgm", "sfl/DoomMaze-v0", "sgm", "random", seed, 100, "hard" if pair < 4 else "easy", pair),
            *(100, int(pair < successes), 5, "reached" if pair < successes else "timeout"),
        )
        for pair in range(8)
    ]


def gzipped(rows: list[EpisodeRow]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([EPISODE_COLUMNS, *map(astuple, rows)])
    return gzip.compress(text.getvalue().encode())


def test_curves_of_a_pattern_become_a_picture_and_one_that_finds_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(gzipped([*episodes("mss-a", 0, 1), *episodes("sfl-a", 0, 2)]))
    draw, wanted = benchmark("curves").draw, {"all": "-a$", "one": "^mss-"}
    pictures = [path.read_text() for path in draw(tmp_path / "rows.csv.gz", wanted, tmp_path / "out")]
    assert ["sfl-a" in picture for picture in pictures] == [True, False]
    with pytest.raises(UsageError, match=r"^No experiment in .* for none=ec-; correct the pattern\.$"):
        draw(tmp_path / "rows.csv.gz", {"one": "^sfl-", "none": "ec-"}, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_cells_are_means_over_seeds_beside_the_papers(tmp_path: Path) -> None:
    rows = [*episodes("sgm-random-spawn-sgm", 0, 1), *episodes("sgm-random-spawn-sgm", 1, 2)]
    (tmp_path / "baselines-episodes.csv.gz").write_bytes(gzipped(rows))
    run = "test-1-fixed-spawn-sfl-inverse-visits-frontiers"
    indicators = (
        "experiment,seed,env_steps,explore/coverage,explore/coverage_often\n"
        f"{run},0,50,0.2,0.1\n{run},0,100,0.75,\n{run},1,100,0.25,0.5\n"
    )
    (tmp_path / "doom-indicators.csv.gz").write_bytes(gzip.compress(indicators.encode()))
    gathered = TABLES_PROGRAM.Gathered(tmp_path)
    random = list(TABLES_PROGRAM.table_lines(TABLES["table-random"], gathered))
    assert random[0].startswith("| | sgm: easy % / medium % / hard % | test-2: ")
    assert "| SGM | 0.0±0.0 / - / 37.5±12.5 (2 seeds)<br>paper 92 / 64 / 26 | -<br>paper 86 / 54 / 32 | " in "\n".join(
        random
    )
    explored = list(TABLES_PROGRAM.table_lines(TABLES["ablation-exploration"], gathered))
    assert explored[2].endswith(
        " | 50.0±25.0 / 50.0 (2 seeds)<br>paper - / 79.4 |"
    )  # one seed does not know the second
    assert explored[3].endswith(" | -<br>paper - / 72.3 |")
    assert list(TABLES_PROGRAM.table_lines(TABLES["ablation-exploration"], gathered, only_run=True)) == explored[:3]
