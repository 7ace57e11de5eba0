"""Numbers of finished runs, their spread over seeds, and the pages that show them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from sfl.reproduce.budget import parameter_count
from sfl.reproduce.engine import Failure, look_at
from sfl.reproduce.plan import Plan, Progress
from sfl.reproduce.report import (
    CSV_COLUMNS,
    as_html,
    csv_row,
    detail_cells,
    main_cells,
    markdown_table,
    summarise_plan,
    write_report,
)
from sfl.reproduce.tables import ANY_NUMBER, TABLES, Entry, measure_of
from sfl.run.folder import RunFolder
from sfl.run.report import spread
from sfl.run.train import train

from .planning import planned, table


def test_spread_over_seeds() -> None:
    found = spread([0, 50, 60, 70, 100])
    assert found.mean == pytest.approx(56)
    assert found.standard_error == pytest.approx(np.std([0, 50, 60, 70, 100], ddof=1) / 5**0.5)
    assert found.interquartile_mean == pytest.approx(60)  # without 0 and 100
    assert found.interval is not None
    half = 2.776445 * (found.standard_error or 0)  # t of 4 degrees of freedom
    assert found.interval == pytest.approx((56 - half, 100.0))
    assert spread([3, 900], ANY_NUMBER).interval == pytest.approx((0, 451.5 + 12.706205 * 448.5))
    one = spread([7])
    assert (one.seeds, one.mean, one.standard_error, one.interval, one.interquartile_mean) == (1, 7, None, None, None)
    assert spread([1, 2, 3]).interquartile_mean is None


def test_numbers_are_read_from_a_run(small_run: Path) -> None:
    folder = RunFolder(small_run)
    episodes = [row for row in csv_of(folder) if row["env_steps"] == "1200" and row["level"] == "any"]
    assert measure_of("any").read(folder) == 100 * np.mean([int(row["success"]) for row in episodes])
    assert measure_of("hardest").read(folder) is None
    coverage = measure_of("coverage").read(folder)
    assert coverage is not None
    assert 0 < coverage <= 100
    landmarks = np.load(folder.last / "landmark_poses.npy")
    assert measure_of("landmarks").read(folder) == len(landmarks)
    distance = measure_of("landmark distance").read(folder)
    straight = [abs(a[:2] - b[:2]).sum() for number, a in enumerate(landmarks) for b in landmarks[:number]]
    assert distance is not None
    assert distance >= np.mean(straight)  # walls only lengthen the way


def csv_of(folder: RunFolder) -> list[dict[str, str]]:
    import csv

    with folder.episodes.open() as file:
        return list(csv.DictReader(file))


def test_parameters_are_those_of_networks_that_learn(small_run: Path) -> None:
    from safetensors.numpy import load_file

    arrays = load_file(RunFolder(small_run).last / "networks.safetensors")
    learned = sum(array.size for name, array in arrays.items() if name.startswith(("encoder.", "successor.")))
    assert 0 < parameter_count(RunFolder(small_run)) == learned < sum(array.size for array in arrays.values())


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The random policy's row of the paper's three rooms: four seeds, of which three were made."""
    entries = [
        Entry("Random | actions", "fourroom", "fourroom-random", "progressive"),
        Entry("Absent", "fourroom", "absent"),
    ]
    made = planned([table(*entries, seeds=4, curves=True)], tmp_path_factory.mktemp("runs"))
    for run in made.runs[:3]:
        train(run.experiment, run.seed, made.runs_dir, "cpu")
    return made


def test_unfinished_runs_count_in_no_cell_and_are_named(plan: Plan, tmp_path: Path) -> None:
    states = look_at(plan.runs)
    assert list(states.values()) == [Progress.FINISHED] * 3 + [Progress.MISSING]
    failure = Failure(plan.runs[3], "the disk is full")
    summary = summarise_plan(plan, states, [failure])
    (found,) = summary.tables
    assert [cell.ours.seeds if cell.ours else 0 for cell in found.cells] == [3, 3, 0, 0]
    assert (found.finished, found.planned) == (3, 4)
    files = write_report(tmp_path / "out", "a title", summary)
    text = files[0].read_text()
    assert "3 of 4 runs are finished" in text
    assert "| fourroom-random seed 3 | the disk is full |" in text
    assert "| small | Absent | fourroom | there is no experiment 'absent' yet |" in text
    assert "| Random \\| actions | fourroom | 3 | 1,200 | training 1,200 | 0 |" in text
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        *("report.md", "report.csv", "report.html", "budgets.csv", "small-fourroom.svg"),
    }


def test_a_cell_shows_ours_and_the_papers(tmp_path: Path, small_run: Path) -> None:
    """The run of another test in the place of FourRoom's progressive landmarks."""
    whole = TABLES["ablation-landmarks"]
    made = planned([whole], tmp_path, "^fourroom-sfl$", seeds=1)
    made.runs[0].path.parent.mkdir(parents=True)
    made.runs[0].path.symlink_to(small_run)
    (found,) = summarise_plan(made, look_at(made.runs), []).tables
    (cell,) = found.cells
    assert cell.ours is not None
    assert str(cell) == f"{cell.ours.mean:.1f} (paper 6.72 ± 0.43)"
    assert main_cells(found)[0] == ["", "fourroom: distance of landmarks, cells"]
    row = csv_row(found, cell)
    assert tuple(row) == CSV_COLUMNS
    assert (row["paper"], row["paper_standard_error"], row["mean"]) == (6.72, 0.43, cell.ours.mean)
    assert detail_cells(found)[1][-2:] == ["6.72 ± 0.43", f"{cell.ours.mean - 6.72:+.1f}"]
    (budget,) = found.budgets
    total, known = budget.total(before=False)
    assert (total.env_steps, known, budget.frozen) == (1_200, True, 0)
    assert (total.gradient_steps or 0) > 0
    assert budget.trained == parameter_count(RunFolder(small_run))


def test_pages_show_what_they_are_given_as_it_is() -> None:
    """Patterns and error messages are neither HTML nor Markdown."""
    text = markdown_table([["a|b", "why"], ["<script>", "*.txt and a_b_c `x` [y](z) \\| &amp;"]])
    assert text.startswith("| a\\|b | why |\n| --- | --- |\n")
    page = as_html("--only '.*<b>.*'", text, ["one"], {}, "<i>")
    assert "<script>" not in page
    for shown in (
        "<td>&lt;script&gt;</td>",
        "<th>a|b</th>",
        "*.txt and a_b_c `x` [y](z)",
        "<strong>&lt;i&gt;</strong>",
    ):
        assert shown in page
    assert "<h1>--only &#x27;.*&lt;b&gt;.*&#x27;</h1>" in page


def test_a_page_is_one_file_with_contents_and_pictures() -> None:
    body = "## one\n\n![Success in sgm](p.svg)\n\n## two\n\ntext"
    page = as_html("t", body, ["one", "two"], {"p.svg": "<svg/>"})
    assert "prefers-color-scheme: dark" in page
    assert f'src="data:image/svg+xml;base64,{base64.b64encode(b"<svg/>").decode()}"' in page
    assert 'alt="Success in sgm"' in page
    assert '<a href="#s1">two</a>' in page
    assert '<h2 id="s1">two</h2>' in page
    assert "http" not in page  # nothing is fetched
    assert "<nav>" not in as_html("t", "## one", ["one"], {})


def test_every_cell_has_the_papers_number_or_says_that_there_is_none(plan: Plan) -> None:
    (found,) = summarise_plan(plan, look_at(plan.runs), []).tables
    assert all(cell.endswith(" (paper -)") for row in main_cells(found)[1:] for cell in row[1:])
    assert main_cells(found)[0] == ["", "fourroom: the paper's task %", "fourroom: any task %"]


def test_the_papers_file_is_part_of_the_package() -> None:
    from importlib.resources import files

    assert json.loads((files("sfl.reproduce") / "paper.json").read_text())
