"""README.md: the quick start runs as printed, the Python example with fewer steps; test_references parses the rest."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sfl.cli import main

from .pages import ROOT, blocks, commands, read

PAGE = "README.md"


def quick_start() -> list[list[str]]:
    """The commands of the block that trains with --tiny; the last one serves the page for good, and is left out."""
    (block,) = (block for block in blocks(PAGE, "console") if "--tiny" in block)
    lines = [shlex.split(line.removeprefix("$ "), comments=True) for line in block.splitlines()]
    assert lines[-1] == ["sfl", "studio", "--demo"]
    return lines[:-1]


@pytest.mark.slow
def test_the_quick_start_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {}
    for program, command, *words in quick_start():
        assert program == "sfl"
        assert main([command, *words]) == 0, words
        shown[command] = capsys.readouterr().out
    assert "PLACE" in shown["list"]
    run = tmp_path / "runs" / "fourroom-sfl" / "seed-0000"
    assert {"config.json", "episodes.csv", "checkpoints", "figures"} <= {path.name for path in run.iterdir()}
    assert all((tmp_path / file).is_file() for file in [*shown["plot"].split(), *shown["video"].split()])


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
    assert ".learn(40_000)" in block
    exec(compile(block.replace("40_000", "400"), PAGE, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out in ("reached: True\n", "reached: False\n")


def test_pictures_are_there() -> None:
    images = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read(PAGE))
    assert images
    assert all((ROOT / image).is_file() for image in images)


def test_it_stays_short() -> None:
    assert len(read(PAGE).splitlines()) <= 130
