"""The short form of the siege (docs/reliability.md): a few hostile cases of most families, and no promise is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_short_siege_finds_nothing() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.siege", "--short", "--workers", "2"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
