"""docs/guides/reproduce.md and the scripts it names: the same runs, kept when finished, gathered at their last evaluation."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sfl import experiments
from sfl.errors import UsageError
from sfl.run.evaluate import EPISODE_COLUMNS
from sfl.seeding import core_count

from .pages import ROOT, benchmark, read

LISTS = {"minigrid": 14, "doom": 15}
"""The tables, and how many experiments each has."""


def script(*words: str, name: str = "minigrid.sh", python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHON": python}
    program = [str(ROOT / "benchmarks" / name), *words]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("table", LISTS)
def test_the_page_lists_the_runs_of_a_table_as_the_presets_are(table: str) -> None:
    planned = re.findall(r"^([a-z]+-[a-z0-9-]+) +(\d+)$", read(f"benchmarks/{table}.txt"), re.MULTILINE)
    assert len(planned) == LISTS[table]
    for name, seeds in planned:
        train = experiments.get(name).train
        row = f"| `sfl train {name} --seed S` | `{name}` | {train.steps:,} | {train.env_count} | {seeds} |"
        assert row in read("docs/guides/reproduce.md"), f"docs/guides/reproduce.md needs: {row}"


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    done = script("-e", "no-such-experiment")
    assert done.returncode == 2
    assert "No experiment matches 'no-such-experiment'." in done.stderr


def test_a_list_that_is_missing_or_broken_is_refused(tmp_path: Path) -> None:
    done = script("-j", "2", name="table.sh")
    assert done.returncode == 2
    assert "No list of experiments '-j'; give one such as benchmarks/minigrid.txt" in done.stderr
    broken = tmp_path / "broken.txt"
    broken.write_text("# a list\n\nsfl-fourroom 5 # fine\nrandom-fourroom\n")
    done = script(str(broken), name="table.sh")
    assert done.returncode == 2
    assert done.stderr.endswith("not an experiment and its number of seeds: random-fourroom\n")


@pytest.mark.skipif(shutil.which("taskset") is None or core_count() < 2, reason="needs taskset and two cores")
def test_runs_at_once_have_cores_of_their_own(tmp_path: Path) -> None:
    """A stand-in for Python writes down the cores of each run, while another runs beside it."""
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
case "$*" in
    -c*) exec {sys.executable} "$@" ;;
    *" train "*) taskset -cp $$ | sed 's/.*: //' >>{tmp_path}/cores; sleep 0.5 ;;
esac
"""
    )
    python.chmod(0o755)
    words = ["-r", str(tmp_path / "runs"), "-e", "^random-fourroom", "-s", "4"]
    done = script("-j", "2", "-c", "1", *words, python=str(python))
    assert done.returncode == 0, done.stderr
    lent = sorted(os.sched_getaffinity(0))
    used = Counter((tmp_path / "cores").read_text().split())  # mostly twice each; one that is late lets the other pass
    assert (set(used), used.total()) == ({str(lent[0]), str(lent[1])}, 4)

    done = script("-j", "2", "-c", str(len(lent)), *words, python=str(python))
    assert done.returncode == 2
    assert f"-j 2 -c {len(lent)} needs {2 * len(lent)} cores; there are {len(lent)}." in done.stderr


def test_a_line_of_a_list_has_options_and_a_name_of_its_own(tmp_path: Path) -> None:
    """A stand-in for Python writes down how it was called."""
    python, planned, runs = tmp_path / "python", tmp_path / "list.txt", tmp_path / "runs"
    python.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n')
    python.chmod(0o755)
    planned.write_text(
        "sfl-fourroom 2\nsfl-fourroom 1 --name wider --agent.landmarks.add-threshold 0.6 # an ablation\n"
    )
    (runs / "wider" / "seed-0000").mkdir(parents=True)
    done = script(str(planned), "-r", str(runs), "--", "--threads", "1", name="table.sh", python=str(python))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"done   {run}" for run in ("sfl-fourroom/seed-0000", "wider/seed-0000", "sfl-fourroom/seed-0001")
    ]
    first, broken_off, second, *_ = (tmp_path / "calls").read_text().splitlines()
    assert first == f"-m sfl train sfl-fourroom --seed 0 --runs-dir {runs} --threads 1"
    assert broken_off == f"-m sfl resume {runs}/wider/seed-0000"
    assert second == first.replace("--seed 0", "--seed 1")
    shutil.rmtree(runs / "wider")
    script(str(planned), "-r", str(runs), "-e", "wider", name="table.sh", python=str(python))
    called = f"-m sfl train sfl-fourroom --seed 0 --runs-dir {runs} --name wider --agent.landmarks.add-threshold 0.6"
    assert called in (tmp_path / "calls").read_text().splitlines()


@pytest.mark.slow
def test_runs_are_made_once_and_gathered_at_their_end(tmp_path: Path) -> None:
    runs, out, indicators = tmp_path / "runs", tmp_path / "results" / "episodes.csv", tmp_path / "indicators.csv"
    words = ["-j", "2", "-r", str(runs), "-o", str(out), "-i", str(indicators)]
    words += ["-e", "^random-fourroom", "-s", "1", "--", "--tiny"]
    done = script(*words)
    assert done.returncode == 0, done.stderr
    assert "random-fourroom" in done.stdout
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == EPISODE_COLUMNS
    # Two levels of four episodes; the evaluation halfway through training is left out.
    assert {row["env_steps"] for row in rows} == {"1200"}
    expected = [(level, str(pair)) for level in ("paper", "any") for pair in range(4)]
    assert [(row["level"], row["pair"]) for row in rows] == expected
    with indicators.open() as file:
        assert [row["env_steps"] for row in csv.DictReader(file)] == ["600", "1200"]

    first, config = out.read_text(), runs / "random-fourroom" / "seed-0000" / "config.json"
    before = config.stat().st_mtime_ns
    assert script(*words).returncode == 0
    assert out.read_text() == first
    assert config.stat().st_mtime_ns == before


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


def test_the_table_of_budgets_is_that_of_the_rows() -> None:
    program = benchmark("budgets")
    made = "".join(f"{line}\n" for line in program.table_lines(program.read(program.KEPT)))
    assert read("docs/guides/reproduce.md").count(made) == 1, f"python benchmarks/budgets.py:\n{made}"


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
