from __future__ import annotations

import csv
import gzip
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sfl.errors import UsageError
from sfl.run.chance import wilson
from sfl.run.evaluate import EPISODE_COLUMNS, EpisodeRow
from sfl.run.report import report_cells, report_lines, summarise_runs

Z = 1.959963984540054  # the 97.5% point of the normal distribution
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


def test_one_seed_has_wilsons_interval_but_no_error_and_no_success_no_steps(tmp_path: Path) -> None:
    (row,) = summarise_runs([write(tmp_path / "a.csv", rows(0, 0, 20))])
    assert (row.success_percent, row.standard_error, row.random, row.steps) == (0.0, None, None, None)
    assert row.interval == pytest.approx((0.0, 100 * Z**2 / (10 + Z**2)))  # Wilson's closed form without a success
    assert report_cells([row])[1][4:9] == ["0.0", "-", "0.0-27.8", "-", "-"]


def test_wilsons_interval_is_what_it_should_be() -> None:
    for tries in (1, 7, 100):
        assert wilson(0, tries) == pytest.approx((0.0, 100 * Z**2 / (tries + Z**2)))
        assert wilson(tries, tries) == pytest.approx((100 * tries / (tries + Z**2), 100.0))
    for successes in (3, 50, 96):  # its ends are the shares from which the found one is z standard deviations away
        for end in wilson(successes, 100):
            share = end / 100
            assert abs(successes / 100 - share) == pytest.approx(Z * (share * (1 - share) / 100) ** 0.5)


def test_the_random_policy_stands_beside(tmp_path: Path) -> None:
    """From random.csv beside a run, or from the rows of a run of it in the same place, never of another budget."""
    folder = tmp_path / "e" / "seed-0000"
    own = rows(0, 10, 20)
    beside = [replace(row, agent="random", env_steps=0) for row in rows(0, 4, 30)]
    write(folder / "episodes.csv", own)
    (row,) = summarise_runs([folder])
    assert row.random is None
    write(folder / "random.csv", beside)
    (row,) = summarise_runs([folder])
    assert row.random is not None
    assert (row.random.percent, row.random.interval) == (40.0, wilson(4, 10))
    assert report_cells([row])[1][7] == "40.0 (16.8-68.7)"
    (row,) = summarise_runs([write(tmp_path / "gathered.csv", own + beside)])
    assert row.random is not None
    assert row.random.percent == 40.0
    yardstick = [replace(row, experiment="random-e", agent="random") for row in rows(7, 2, 30)]
    row, chance = summarise_runs([write(tmp_path / "two.csv.gz", own + yardstick)])
    assert row.random is not None
    assert (row.random.percent, chance.random) == (20.0, None)
    slow = [replace(row, budget=500) for row in yardstick]
    row, _ = summarise_runs([write(tmp_path / "other.csv", own + slow)])
    assert row.random is None


def test_not_better_than_random_is_said_of_a_run_or_of_its_seeds_together(tmp_path: Path) -> None:
    for seed, successes in ((0, 6), (1, 7), (2, 6)):
        folder = tmp_path / "e" / f"seed-000{seed}"
        write(folder / "episodes.csv", rows(seed, successes, 20))
        write(folder / "random.csv", [replace(row, agent="random", env_steps=0) for row in rows(seed, 1, 30)])
    (line,) = report_lines(summarise_runs([tmp_path / "e" / "seed-0000"]))  # 6 and 1 of 10 may be the same
    assert line.startswith("e seed 0: not better than random: any 60% (31.3-83.2), random 10% (1.8-40.4).")
    assert report_lines(summarise_runs([tmp_path])) == []  # 19 and 3 of 30 are not


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
