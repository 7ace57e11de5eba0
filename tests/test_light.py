"""Words are answered without what takes seconds to import: torch, SciPy, matplotlib."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "scipy", "matplotlib")
SOURCES = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def heavy_after(code: str, folder: Path) -> list[str]:
    """Which of the heavy packages a new process has imported after this code."""
    asked = f"{code}\nimport sys\nprint('imported', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=folder, capture_output=True, text=True, check=False, env=SOURCES
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["bench"],
        ["train"],
        ["train", "fourroom", "--help"],
        ["train", "fourroom", "--agent", "tabular", "--help"],
        ["train", "world", "--help"],
        ["train", "laptop-maze", "--help"],
        ["train", "sgm-random-spawn", "--agent", "sptm", "--help"],
        ["train", "test-1-fixed-spawn", "--agent", "mss", "--help"],
        ["train", "fourroom", "--agent", "ec", "--agent.ppo.clip", "-1"],
        ["trian"],
        ["report", "--jsn"],
        ["eval"],
        ["reproduce", "--help"],
        ["studio", "--help"],
        ["maze", "show", "--help"],
    ],
    ids=" ".join,
)
def test_words_are_answered_without_heavy_packages(words: list[str], tmp_path: Path) -> None:
    code = f"from sfl.cli import main\ntry:\n    main({words!r})\nexcept SystemExit:\n    pass"
    assert heavy_after(code, tmp_path) == []


@pytest.mark.parametrize(
    "module",
    ["sfl", "sfl.experiments", "sfl.registry", "sfl.method.config", "sfl.baselines.config", "sfl.baselines.mss.config"],
)
def test_settings_and_names_are_light(module: str, tmp_path: Path) -> None:
    assert heavy_after(f"import {module}", tmp_path) == []
