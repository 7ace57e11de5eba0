"""docs/reference/api.md runs, and names what is public."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfl

from .pages import read, run_python

PAGE = "docs/reference/api.md"


def test_every_public_name_has_a_line() -> None:
    assert [name for name in sfl.__all__ if f"| `sfl.{name}` |" not in read(PAGE)] == []


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = run_python(PAGE)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] in {f"action: {action}" for action in range(4)}
    assert shown[1] == "steps: 350"
    assert "landmarks.add-threshold must lie in [-1, 1]" in shown[2]
    assert shown[3] == "entries: ['achieved_goal', 'desired_goal', 'observation']"
    assert shown[4] == "episodes: 40 outcomes known: True"
    assert shown[5:8] == ["the same tasks: True", "the compass beats chance: True", "episodes: 5"]
    assert shown[8] == "fourroom-sfl 1200 16"
    assert shown[9:] == ["landmarks placed: True", "next action: True"]
    assert isinstance(namespace["agent"], sfl.SFL)
