"""The example of docs/reference/environments.md runs and prints what it says."""

from __future__ import annotations

import pytest

from .pages import run_python


def test_the_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    run_python("docs/reference/environments.md")
    assert capsys.readouterr().out == "(9, 9, 3) [1. 1. 0.]\n"
