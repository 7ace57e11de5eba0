"""Programs in benchmarks/ that gather rows from runs, and budgets."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from sfl.errors import UsageError
from sfl.run.evaluate import EPISODE_COLUMNS

from .pages import benchmark


def make_run(folder: Path, seed: int, planned: int = 200) -> Path:
    """A run's tables as training leaves them: 200 steps, evaluated at 100 and 200 on three levels."""
    run = folder / "e" / f"seed-{seed:04d}"
    run.mkdir(parents=True)
    config = {"experiment": {"name": "e", "train": {"steps": planned}}, "seed": seed}
    (run / "config.json").write_text(json.dumps(config))
    lines = [",".join(EPISODE_COLUMNS)]
    for env_steps in (100, 200):
        for level in ("easy", "medium", "hard"):
            lines.append(f"e,sfl,sfl/DoomMaze-v0,sgm,random,{seed},{env_steps},{level},0,100,1,20,reached")
    (run / "episodes.csv").write_text("\n".join(lines) + "\n")
    (run / "train.csv").write_text("env_steps,train/sf_loss,explore/coverage\n50,1.0,0.1\n100,1.0,0.25\n200,1.0,\n")
    (run / "eval.csv").write_text(
        "env_steps,graph/localization_within_100,eval/success_easy,eval/waypoint_count\n"
        f"100,0.125,1.0,7.0\n200,0.5,1.0,{seed}.0\n"
    )
    return run


def test_levels_stay_in_the_order_of_the_run(tmp_path: Path) -> None:
    module = benchmark("collect")
    runs = [make_run(tmp_path, 1), make_run(tmp_path, 0)]
    rows = module.collect(runs)
    levels = ("easy", "medium", "hard")
    assert [(row.seed, row.level) for row in rows] == [(seed, level) for seed in (0, 1) for level in levels]
    curves = module.collect(runs, every_evaluation=True)
    assert [(row.seed, row.env_steps) for row in curves[::3]] == [(0, 100), (0, 200), (1, 100), (1, 200)]


def test_runs_that_are_unfinished_or_twice_there_are_refused(tmp_path: Path) -> None:
    module = benchmark("collect")
    run = make_run(tmp_path / "a", 0)
    with pytest.raises(UsageError, match="there twice"):
        module.collect([run, make_run(tmp_path / "b", 0)])
    with pytest.raises(UsageError, match=r"seed-0001 is not finished; continue it with `sfl resume"):
        module.collect([run, make_run(tmp_path / "a", 1, planned=5_000)])


def test_rows_are_added_to_those_of_other_runs(tmp_path: Path) -> None:
    module = benchmark("collect")
    first, second = make_run(tmp_path / "a", 1), make_run(tmp_path / "b", 0)
    rows = module.collect([first])
    both = module.add(module.collect([second]), rows)
    assert [row.seed for row in both] == [0, 0, 0, 1, 1, 1]
    assert module.add(rows, both) == both  # a run that is there already is replaced

    file = tmp_path / "indicators.csv"
    module.write(module.INDICATOR_COLUMNS, module.collect_indicators([first]), file)
    added = module.add_table(module.collect_indicators([second]), module.INDICATOR_COLUMNS, file)
    assert [row[:3] for row in added] == [("e", 0, 100), ("e", 0, 200), ("e", 1, 100), ("e", 1, 200)]
    module.write(module.INDICATOR_COLUMNS, added, file)
    once = file.read_bytes()
    again = module.add_table(module.collect_indicators([first]), module.INDICATOR_COLUMNS, file)
    module.write(module.INDICATOR_COLUMNS, again, file)
    assert file.read_bytes() == once
    file.write_text("experiment,seed,env_steps,graph/localized\ne,1,100,0.5\n")  # of a time with fewer indicators
    older = module.add_table(module.collect_indicators([second]), module.INDICATOR_COLUMNS, file)[-1]
    known = dict(zip(module.INDICATOR_COLUMNS, older, strict=True))
    assert {name: value for name, value in known.items() if value != ""} == {
        "experiment": "e",
        "seed": 1,
        "env_steps": 100,
        "graph/localized": "0.5",
    }
    for text, fault in {
        "": "no experiment, seed or steps",
        "experiment,seed\n": "no experiment, seed or steps",
        "experiment,seed,env_steps,mood\n": r"foreign columns \(mood\)",
    }.items():
        file.write_text(text)
        with pytest.raises(UsageError, match=f"has {fault}; write to a new file"):
            module.add_table(module.collect_indicators([second]), module.INDICATOR_COLUMNS, file)


def test_coverage_is_added_to_that_of_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = tmp_path / "coverage.csv", tmp_path / "episodes.csv"
    for folder, seed in (("a", 1), ("b", 0)):
        run = make_run(tmp_path / folder, seed)
        words = (run, "--add", "--out", out, "--coverage", file)
        monkeypatch.setattr(sys, "argv", ["collect.py", *map(str, words)])
        assert benchmark("collect").main() == 0
    with file.open() as lines:
        rows = [(row["seed"], row["env_steps"], row["explore/coverage"]) for row in csv.DictReader(lines)]
    visited = [("50", "0.1"), ("100", "0.25"), ("200", "")]
    assert rows == [(seed, *cells) for seed in ("0", "1") for cells in visited]

    once = file.read_bytes()
    (run / "train.csv").write_text("env_steps,explore/coverage\n")  # it has just begun
    assert benchmark("collect").main() == 0
    assert file.read_bytes() == once


def test_indicators_of_every_evaluation_with_those_of_training_at_the_same_step(tmp_path: Path) -> None:
    module = benchmark("collect")
    rows = module.collect_indicators([make_run(tmp_path, 1), make_run(tmp_path, 0)])
    table = [dict(zip(module.INDICATOR_COLUMNS, row, strict=True)) for row in rows]
    assert [row[:3] for row in rows] == [("e", 0, 100), ("e", 0, 200), ("e", 1, 100), ("e", 1, 200)]
    assert [row["graph/localization_within_100"] for row in table] == [0.125, 0.5] * 2
    assert [row["eval/waypoint_count"] for row in table] == [7.0, 0.0, 7.0, 1.0]
    assert [row["explore/coverage"] for row in table] == [0.25, ""] * 2
    assert {row["graph/landmark_count"] for row in table} == {""}  # no column of these runs
    assert not {"train/sf_loss", "eval/success_easy"} & set(module.INDICATOR_COLUMNS)


def test_the_same_rows_are_the_same_bytes_compressed_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = benchmark("collect")
    files = [tmp_path / name for name in ("a.csv", "a.csv.gz", "b.csv.gz")]
    for later, file in enumerate(files):
        monkeypatch.setattr("time.time", lambda later=later: 1e9 + later)
        module.write(("x", "y"), [(1, "a"), (2, "b")], file)
    assert files[0].read_text() == "x,y\n1,a\n2,b\n"
    assert gzip.decompress(files[1].read_bytes()) == files[0].read_bytes()
    assert files[1].read_bytes() == files[2].read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No run in"):
        benchmark("collect").find_runs([tmp_path])


def test_budgets_of_more_runs_come_to_those_that_are_there(tmp_path: Path) -> None:
    program = benchmark("budgets")
    columns = program.CSV_COLUMNS

    def file(name: str, table: str, run: str, steps: str) -> Path:
        spent = {"env_steps": steps, "gradient_steps": "7", "seconds": "", "parameters_trained": "2e6"}
        known = {"table": table, "run": run, "seeds": "2", "parameters_frozen": "0.0", **spent}
        nothing = {"env_steps": "0.0", "phase": "all before the maze"}
        lines = [{**dict.fromkeys(columns, ""), **known, **more} for more in ({"phase": "all in the maze"}, nothing)]
        with (tmp_path / name).open("w", newline="") as out:
            writer = csv.DictWriter(out, columns)
            writer.writeheader()
            writer.writerows(lines)
        return tmp_path / name

    old, new = file("old.csv", "table-random", "sfl-b", "1"), file("new.csv", "curves-doom", "sfl-a", "2000")
    program.write(program.read(old) | program.read(new), tmp_path / "both.csv")
    lines = list(program.table_lines(program.read(tmp_path / "both.csv")))
    assert lines[2:] == [
        "| `sfl-a` | 2 | 2,000 | 7 | ? | 2.00M |  |  |  |  |",
        "| `sfl-b` | 2 | 1 | 7 | ? | 2.00M |  |  |  |  |",
    ]


def test_counts_draw_the_same_curves(tmp_path: Path) -> None:
    collect, curves = benchmark("collect"), benchmark("curves")
    rows = collect.collect([make_run(tmp_path, 1), make_run(tmp_path, 0)], every_evaluation=True)
    rows[3] = replace(rows[3], success=0)
    collect.write(collect.COUNT_COLUMNS, collect.counted(rows), tmp_path / "counts.csv.gz")
    collect.write(EPISODE_COLUMNS, map(astuple, rows), tmp_path / "rows.csv.gz")

    def told(name: str) -> list[tuple[object, ...]]:
        read = curves.read_rows(tmp_path / name)
        return sorted((row.experiment, row.seed, row.env_steps, row.level, row.success) for row in read)

    assert told("counts.csv.gz") == told("rows.csv.gz")
    assert sum(success for *_, success in told("counts.csv.gz")) == len(rows) - 1
