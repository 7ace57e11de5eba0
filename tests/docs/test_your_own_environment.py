"""Runs docs/your-own-environment.md: its Python blocks in one namespace, its console lines as real commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-environment.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_minigrid_and_another_environment_both_ways() -> None:
    for language in ("python", "console"):
        text = "\n".join(blocks(language))
        assert "MiniGrid-FourRooms-v0" in text
        assert "FrozenLake-v1" in text


@pytest.mark.slow
def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks("python"):
        exec(compile(block, "your-own-environment.md", "exec"), namespace)
    assert capsys.readouterr().out.count("reached: ") == 2
    assert (tmp_path / "frozen-lake").exists()


@pytest.mark.slow
def test_console_lines_run(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
