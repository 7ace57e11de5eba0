"""The short form of the siege (reliability.md): a few hostile cases of most families, and no promise is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@pytest.mark.slow
def test_a_short_siege_finds_nothing() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.siege", "--short", "--workers", "2"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_page_is_that_of_the_rows() -> None:
    """Tables of cases, kills and long runs; no promise was broken in them."""
    code = "import sys; from benchmarks.siege.page import page; sys.stdout.write(page(sys.stdin.read()))"
    shown = (ROOT / "docs" / "reference" / "reliability.md").read_text(encoding="utf-8")
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, input=shown, capture_output=True, text=True, check=True
    )
    assert made.stdout == shown, "python -m benchmarks.siege.page"
