"""docs/reproduce.md and the script it names: the same runs, kept when finished, gathered at their last evaluation."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sfl import experiments
from sfl.core.errors import UsageError
from sfl.run.evaluate import EPISODE_COLUMNS

from .pages import ROOT, read


def script(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHON": sys.executable}
    program = [str(ROOT / "benchmarks" / "minigrid.sh"), *words]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)


def collect() -> ModuleType:
    """benchmarks/collect.py, which is a program and no part of the package."""
    spec = importlib.util.spec_from_file_location("collect", ROOT / "benchmarks" / "collect.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_the_runs_of_the_script_as_the_presets_are() -> None:
    planned = re.findall(r"^([a-z]+-[a-z0-9-]+) +(\d+)$", read("benchmarks/minigrid.sh"), re.MULTILINE)
    assert len(planned) == 14
    for name, seeds in planned:
        train = experiments.get(name).train
        row = f"| `sfl train {name} --seed S` | `{name}` | {train.steps:,} | {train.env_count} | {seeds} |"
        assert row in read("docs/reproduce.md"), f"docs/reproduce.md needs: {row}"


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    done = script("-e", "no-such-experiment")
    assert done.returncode == 2
    assert "No experiment matches 'no-such-experiment'." in done.stderr


@pytest.mark.slow
def test_runs_are_made_once_and_gathered_at_their_end(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "results" / "episodes.csv"
    words = ["-j", "2", "-r", str(runs), "-o", str(out), "-e", "^random-fourroom", "-s", "1", "--", "--tiny"]
    done = script(*words)
    assert done.returncode == 0, done.stderr
    assert "random-fourroom" in done.stdout
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == EPISODE_COLUMNS
    # Two levels of four episodes; the evaluation halfway through training is left out.
    assert {row["env_steps"] for row in rows} == {"1200"}
    expected = [(level, str(pair)) for level in ("any", "paper") for pair in range(4)]
    assert [(row["level"], row["pair"]) for row in rows] == expected

    first, config = out.read_text(), runs / "random-fourroom" / "seed-0000" / "config.json"
    before = config.stat().st_mtime_ns
    assert script(*words).returncode == 0
    assert out.read_text() == first
    assert config.stat().st_mtime_ns == before
    with pytest.raises(UsageError, match="there twice"):
        collect().collect([runs, shutil.copytree(runs, tmp_path / "copy")])

    body = json.loads(config.read_text())
    body["experiment"]["train"]["steps"] = 5_000
    config.write_text(json.dumps(body))
    with pytest.raises(UsageError, match=r"seed-0000 is not finished; continue it with `sfl resume"):
        collect().collect([runs])


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No run in"):
        collect().collect([tmp_path])
