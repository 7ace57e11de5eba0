"""Pictures of loss curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfl.cli import main
from sfl.show.curves import learning_figure, read_curve, running_mean

ROWS = "step,loss,accuracy\n20,0.7,0.5\n40,0.5,0.75\n"


def test_the_running_mean_is_that_of_the_neighbours_there_are() -> None:
    np.testing.assert_allclose(running_mean(np.array([1.0, 2.0, 6.0, 4.0]), 3), [1.5, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(running_mean(np.array([5.0])), [5.0])


def test_a_figure_has_a_line_for_each_file_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "retrieval.csv"
    file.write_text(ROWS)
    figure = learning_figure({"retrieval": read_curve(file), "locomotion": read_curve(file)})
    loss, accuracy = figure.axes
    named = [line for line in accuracy.lines if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in named] == ["retrieval", "locomotion"]
    assert np.asarray(accuracy.lines[0].get_ydata()).tolist() == [50.0, 75.0]
    assert (loss.get_ylabel(), accuracy.get_ylabel(), loss.get_xlabel()) == ("loss", "accuracy (%)", "gradient steps")


def test_the_command_draws_and_refuses_to_write_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(ROWS)
    assert main(["network", "plot", "a.csv", "--out", "a.png"]) == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert main(["network", "plot", "a.csv", "--out", "a.png"]) == 2
    assert "a.png exists already" in capsys.readouterr().err
    assert main(["network", "plot", "a.csv", "--out", "a.png", "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["absent.csv", "--out", "b.png"], "Cannot read a loss curve from absent.csv: No such file"),
        (["other.csv", "--out", "b.png"], "other.csv is no loss curve, with the columns step, loss, accuracy"),
        (["empty.csv", "--out", "b.png"], "empty.csv holds no rows"),
        (["a.csv", "--out", "b.jpg"], "--out must name a .png file, got b.jpg."),
        (["a.csv", "a.csv", "--out", "b.png"], "Two of the curves have the same name"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"a": ROWS, "other": "step,reward\n1,2\n", "empty": "step,loss,accuracy\n"}.items():
        Path(f"{name}.csv").write_text(text)
    assert main(["network", "plot", *words]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("b.*"))
