"""Applies docs/guides/your-agent.md to a copy of the project, and uses the agent as a reader would."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT, blocks, commands

PAGE = "docs/guides/your-agent.md"


def apply(patch: str, root: Path) -> None:
    """Lines with + go behind the line before them, or into the place of one with -."""
    file, lines, at = root, [""], 0
    for line in patch.splitlines():
        if line.startswith("--- "):
            file = root / line.removeprefix("--- ")
            lines = file.read_text().splitlines()
            continue
        mark, text = line[0], line[1:]
        if mark == "+":
            lines.insert(at, text)
            at += 1
        else:
            assert lines.count(text) == 1, f"{file.name} has {lines.count(text)} lines {text!r}"
            at = lines.index(text) + (mark == " ")
        if mark == "-":
            lines.remove(text)
        file.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the page's agent in it."""
    root = tmp_path_factory.mktemp("project")
    for part in ("src/sfl", "tests/contract", "tests/method"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__", "demo", "*.safetensors"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for file in ("__init__.py", "conftest.py"):
        shutil.copy(ROOT / "tests" / file, root / "tests")
    (code,) = blocks(PAGE, "python")
    (root / "src/sfl/baselines/my_atlas.py").write_text(code)
    for patch in blocks(PAGE, "diff"):
        apply(patch, root)
    return root


def run(project: Path, *words: str) -> str:
    """A module of Python in the changed project."""
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_commands_of_the_page_work_and_the_agent_reaches_goals(project: Path) -> None:
    said = {" ".join(words[1:]): run(project, *words) for words in commands(PAGE)}
    assert "atlas an atlas of everything that was seen; fourroom, multiroom-n{2,3,4}" in " ".join(said["list"].split())
    assert "Atlas" in next(text for words, text in said.items() if words.startswith("reproduce"))
    with (project / "runs/fourroom-atlas/seed-0000/episodes.csv").open() as file:
        reached = [float(row["success"]) for row in csv.DictReader(file) if row["env_steps"] == "20000"]
    assert sum(reached) / len(reached) > 0.6  # the random policy: 0.12


@pytest.mark.slow
def test_the_agent_keeps_the_contract(project: Path) -> None:
    said = run(
        project, "pytest", "-q", "-p", "no:cacheprovider", "tests/contract/test_contract.py", "-k", "atlas or every"
    )
    assert "10 passed" in said
