"""README.md: the quick start runs as printed, the Python example with fewer steps; test_references parses the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfl.cli import main

from .pages import ROOT, blocks, commands, read

PAGE = "README.md"


def quick_start(experiment: str) -> list[list[str]]:
    """The commands of the block that trains this experiment with --tiny."""
    words = f"sfl train {experiment} --tiny"
    tiny = [number for number, block in enumerate(blocks(PAGE, "console")) if words in block]
    assert len(tiny) == 1
    lines = blocks(PAGE, "console")[tiny[0]].count("$ ")
    before = sum(block.count("$ ") for block in blocks(PAGE, "console")[: tiny[0]])
    return commands(PAGE)[before : before + lines]


@pytest.mark.slow
def test_the_quick_start_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = []
    for program, *words in quick_start("fourroom-sfl"):
        assert program == "sfl"
        assert main(words) == 0, words
        shown.append(capsys.readouterr().out)
    assert len(shown) == 8
    assert "train PLACE" in shown[0]
    assert "fourroom" in shown[1]
    run = tmp_path / "runs" / "fourroom-sfl" / "seed-0000"
    assert {"config.json", "episodes.csv", "checkpoints", "figures"} <= {path.name for path in run.iterdir()}
    assert all((tmp_path / file).is_file() for file in [*shown[6].split(), *shown[7].split()])


@pytest.mark.slow
def test_the_maze_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for program, *words in quick_start("laptop-maze-sfl"):
        assert program == "sfl"
        assert main(words) == 0, words
    files = [Path(word) for word in capsys.readouterr().out.split() if word.endswith(".png")]
    assert {"indicators.png", "landmark-graph.png"} <= {file.name for file in files}
    assert all((tmp_path / file).is_file() for file in files)


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([.\w-]+):", read("Makefile"), re.MULTILINE)
    used = {words[1] for words in commands(PAGE) if words[0] == "make"}
    assert used == {"demo", "test"}
    assert used <= set(targets)


@pytest.mark.slow
def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(PAGE, "python")
    assert "agent.learn(40_000)" in block
    exec(compile(block.replace("40_000", "400"), PAGE, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out in ("reached: True\n", "reached: False\n")
    assert (tmp_path / "fourroom-agent" / "agent.json").is_file()


def test_figures_have_the_agreed_names() -> None:
    images = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read(PAGE))
    names = ["fourroom-sfs.png", "fourroom-graph.png", "success.png", "at-work.gif"]
    assert [Path(image).name for image in images] == names
    assert all((ROOT / image).is_file() for image in images)
