from __future__ import annotations

import csv
import gzip
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sfl.core.errors import UsageError
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow
from sfl.run.report import report_cells, summarise_runs

ROW = EpisodeRow("e", "sfl", "sfl/FourRoom-v0", "", "fixed", 0, 1000, "any", 0, 100, 1, 20, "reached")


def rows(seed: int, successes: int, steps: int, env_steps: int = 1000) -> list[EpisodeRow]:
    """Ten episodes, the first of them successful after `steps`."""
    common = replace(ROW, seed=seed, env_steps=env_steps)
    return [
        replace(common, pair=pair, success=int(pair < successes), steps=steps if pair < successes else 100)
        for pair in range(10)
    ]


def write(path: Path, episodes: list[EpisodeRow]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        writer = csv.DictWriter(file, EPISODE_COLUMNS)
        writer.writeheader()
        writer.writerows(asdict(row) for row in episodes)
    return path


@pytest.mark.parametrize("name", ["all.csv", "all.csv.gz"])
def test_mean_error_and_interval_over_seeds(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, rows(0, 10, 20) + rows(1, 8, 30) + rows(2, 6, 40))
    (row,) = summarise_runs([path])
    assert (row.seeds, row.episodes) == (3, 30)
    assert row.success_percent == pytest.approx(80)
    assert row.standard_error == pytest.approx(20 / 3**0.5)  # standard deviation of 100, 80, 60 is 20
    assert row.interval == pytest.approx((80 - 4.302653 * 20 / 3**0.5, 100.0))  # t of 2 degrees of freedom
    assert row.steps == pytest.approx(30)


def test_only_the_last_evaluation_of_each_seed_counts(tmp_path: Path) -> None:
    episodes = rows(0, 2, 20, 500) + rows(0, 10, 20, 1000) + rows(1, 4, 20, 900)
    (row,) = summarise_runs([write(tmp_path / "a.csv", episodes)])
    assert (row.success_percent, row.env_steps) == (70.0, 900)


def test_one_seed_has_no_error_and_no_success_no_steps(tmp_path: Path) -> None:
    (row,) = summarise_runs([write(tmp_path / "a.csv", rows(0, 0, 20))])
    assert (row.success_percent, row.standard_error, row.interval, row.steps) == (0.0, None, None, None)
    assert report_cells([row])[1][4:8] == ["0.0", "-", "-", "-"]


def test_folders_of_runs_are_searched(tmp_path: Path) -> None:
    write(tmp_path / "e" / "seed-0000" / "episodes.csv", rows(0, 10, 20))
    write(tmp_path / "e" / "seed-0001" / "episodes.csv", rows(1, 5, 20))
    (whole,) = summarise_runs([tmp_path])
    assert whole.success_percent == 75.0
    (one,) = summarise_runs([tmp_path / "e" / "seed-0001"])
    assert one.success_percent == 50.0


def test_the_same_seed_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", rows(4, 10, 20))
    with pytest.raises(UsageError, match="Seed 4 of e is given twice"):
        summarise_runs([path, path])


def test_what_is_no_table_of_episodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no episodes\.csv"):
        summarise_runs([tmp_path])
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="does not have the columns"):
        summarise_runs([tmp_path / "x.csv"])
    (tmp_path / "y.csv").write_text(",".join(EPISODE_COLUMNS) + "\n" + ",".join("x" * len(EPISODE_COLUMNS)) + "\n")
    with pytest.raises(UsageError, match="cannot be read as evaluation episodes"):
        summarise_runs([tmp_path / "y.csv"])
