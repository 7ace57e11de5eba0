"""Pages of the documentation as something that runs: their code blocks, commands and references."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sfl"


def read(page: str) -> str:
    """The text of a page, named from the root of the project."""
    return (ROOT / page).read_text(encoding="utf-8")


def benchmark(name: str) -> ModuleType:
    """A program in benchmarks/, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def run_python(page: str) -> dict[str, object]:
    """Run a page's Python blocks in one namespace, and return it."""
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), namespace)
    return namespace


def commands(page: str) -> list[list[str]]:
    """The words of every console line that starts with `$`, comments left out."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]


def run_command(words: list[str], cwd: Path) -> str:
    """Run `sfl ...` as a process of its own; it must succeed. Returns what it wrote to stdout."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return done.stdout


def references(page: str) -> list[tuple[str, str]]:
    """(file, name) of every `room/file.py` (name empty) and `room/file.py::name` in a page; `my_...` is a reader's."""
    return [(path, name) for path, name in re.findall(r"`(?!my_)([\w/]+\.py)(?:::([\w.]+))?`", read(page))]


def defined_names(path: Path) -> set[str]:
    """What a file defines at its top level, and `Class.member` for its classes."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names |= _names(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in _names(inner)}
    return names


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()
