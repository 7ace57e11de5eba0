from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import pytest

from sfl.errors import SflError
from sfl.run.log import Boards, CsvTable
from sfl.run.metrics import MetricWindow, columns, declared, metrics

ROOT = Path(__file__).parents[2]


def test_the_site_has_a_row_for_every_metric() -> None:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = hooks.on_page_markdown((ROOT / "docs" / "reference" / "metrics.md").read_text())
    lines = dict(re.findall(r"^\| `(\w+/[^`]+)` \| (.+) \|$", page, re.MULTILINE))
    assert lines == {
        metric.name: f"{metric.file}.csv | {metric.unit} | {metric.meaning} | {metric.bad}" for metric in metrics()
    }


def test_undeclared_names_raise() -> None:
    assert declared("eval/success_any").name == "eval/success_<level>"
    for name in ("train/sf_los", "eval/succes_any", "success"):
        with pytest.raises(KeyError, match="not declared"):
            declared(name)
    with pytest.raises(KeyError, match="not declared"):
        MetricWindow().add({"train/surprise": 1.0})


def test_columns_are_fixed_by_the_table_and_the_levels() -> None:
    names = columns("eval", ("paper", "any"))
    assert names[0] == "env_steps"
    assert {"eval/success_paper", "eval/steps_any", "graph/edge_length_median"} <= set(names)
    assert not any("<level>" in name for name in names)
    assert "train/sf_loss" in columns("train")


def test_window_takes_means_of_losses_and_the_newest_of_counts() -> None:
    window = MetricWindow()
    for loss, count in ((1.0, 10), (2.0, 20), (6.0, 30)):
        window.add({"train/sf_loss": loss, "graph/landmark_count": count})
    middle = window.state()
    assert window.take() == {"train/sf_loss": 3.0, "graph/landmark_count": 30.0}
    assert window.take() == {}
    window.load_state(middle)
    window.add({"train/sf_loss": 7.0})
    assert window.take()["train/sf_loss"] == 4.0


def table(path: Path) -> CsvTable:
    return CsvTable(path, ["env_steps", "a", "b"])


def test_rows_are_appended_and_unknown_columns_raise(tmp_path: Path) -> None:
    rows = table(tmp_path / "t.csv")
    rows.write({"env_steps": 1, "a": 0.1})
    table(tmp_path / "t.csv").write({"env_steps": 2, "b": float("nan")})
    with pytest.raises(KeyError, match="no column for"):
        rows.write({"env_steps": 3, "c": 1})
    assert (tmp_path / "t.csv").read_text() == "env_steps,a,b\n1,0.1,\n2,,\n"


def test_rows_after_a_step_and_a_broken_last_line_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = table(path)
    rows.write_all([{"env_steps": step, "a": 0.5, "b": 1} for step in (10, 20, 30)])
    with path.open("a") as file:
        file.write("1")  # a crash in the middle of a row
    rows.cut_after(20)
    with path.open() as file:
        assert [row["env_steps"] for row in csv.DictReader(file)] == ["10", "20"]
    rows.cut_after(20)
    assert path.read_text() == "env_steps,a,b\n10,0.5,1\n20,0.5,1\n"


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    boards = Boards(tmp_path, {}, "name", wandb=False, env_steps=0)
    boards.write({"train/sf_loss": 0.5}, 10)
    boards.close()
    (events,) = tmp_path.glob("events.out.tfevents.*")
    assert b"train/sf_loss" in events.read_bytes()


def test_wandb_without_the_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(SflError, match="pip install wandb"):
        Boards(tmp_path, {}, "name", wandb=True, env_steps=0)
