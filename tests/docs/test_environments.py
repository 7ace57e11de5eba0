"""The example of docs/environments.md runs and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def test_the_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "environments.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == "(9, 9, 3) [1. 1. 0.]\n"
