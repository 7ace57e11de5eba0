"""Runs docs/guides/your-world.md: its Python blocks in one namespace, its console lines as real commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import blocks, commands, run_command, run_python

PAGE = "docs/guides/your-world.md"


def test_the_page_shows_minigrid_and_another_environment_both_ways() -> None:
    for language in ("python", "console"):
        text = "\n".join(blocks(PAGE, language))
        assert "MiniGrid-FourRooms-v0" in text
        assert "FrozenLake-v1" in text


@pytest.mark.slow
def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(PAGE)
    assert capsys.readouterr().out.count("reached: ") == 2
    assert (tmp_path / "frozen-lake").exists()


@pytest.mark.slow
def test_console_lines_run(tmp_path: Path) -> None:
    assert len(commands(PAGE)) == 4
    for words in commands(PAGE):
        run_command(words, tmp_path)
