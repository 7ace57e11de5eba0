"""Rules of the house that no linter checks: who may open files, words, versions, commands in the README."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sfl"
TEXT_FILES = sorted(
    path
    for folder in ("src", "tests", "docs", "benchmarks", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".toml", ".txt", ".csv", ""} and path.is_file() and "__pycache__" not in path.parts
) + sorted(path for path in ROOT.glob("*") if path.is_file() and path.suffix in {".md", ".toml", ".txt", ".cff", ""})

FORBIDDEN = re.compile(
    "|".join(["/" + "work/", r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", "import pick" + "le", r"pick" + r"le\.(load|dump)"])
)

MAY_OPEN_FILES = (
    *(
        "files.py",
        "run/",
        "studio/",
        "show/",
        "reproduce/",
        "pretrain/",
        "worlds/mazes/",
        "worlds/doom/",
        "worlds/exam.py",
        "nn/weights.py",
    ),
)
FILE_CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir", "rename", "rmtree"),
    *("save", "savez", "savez_compressed", "savetxt", "loadtxt", "genfromtxt", "fromfile", "tofile"),
    *("save_file", "load_file", "imread", "imwrite", "imsave", "savefig"),
}
"""Names of calls that read or write a file, whatever they are called on."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def file_calls(source: str) -> list[tuple[int, str]]:
    """(line, name) of every call that touches a file; a call on `self` or `super()` is the class's own method."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in FILE_CALLS:
            found.append((node.lineno, node.func.id))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in FILE_CALLS and not own_method(node.func.value):
            found.append((node.lineno, node.func.attr))
    return found


def own_method(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Name) and receiver.id == "self"


def test_file_calls_are_recognised() -> None:
    source = "open('a')\nPath('a').write_text('b')\nnp.savez('c')\nself.save('d')\nrows.append(1)\n"
    assert file_calls(source) == [(1, "open"), (2, "write_text"), (3, "savez")]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=relative)
def test_only_the_rooms_for_it_open_files(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix().startswith(MAY_OPEN_FILES):
        return
    assert file_calls(path.read_text(encoding="utf-8")) == []


MOST_FILES = 20
"""In a room, its __init__ left out: more cannot be held in the head."""


@pytest.mark.parametrize("room", sorted({path.parent for path in SOURCE.rglob("*.py")}), ids=relative)
def test_rooms_have_few_files(room: Path) -> None:
    files = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= MOST_FILES, f"{relative(room)} has {len(files)} files: {sorted(files)}"


@pytest.mark.parametrize("path", TEXT_FILES, ids=relative)
def test_no_forbidden_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [match[0] for match in FORBIDDEN.finditer(text)] == []


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    newest = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert cited is not None
    assert {newest[1], cited[1]} == {version}


def readme_commands() -> list[str]:
    """The word after `sfl` in every command line of the README's code blocks, once each."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    blocks = "\n".join(re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    return sorted(set(re.findall(r"^(?:\$ )?(?:\.venv/bin/|python -m )?sfl ([a-z]+)", blocks, re.MULTILINE)))


@pytest.mark.parametrize("word", readme_commands())
def test_commands_of_the_readme_exist(word: str) -> None:
    done = subprocess.run([sys.executable, "-m", "sfl", word, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert word in done.stdout


def test_constraints_pin_exactly_what_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    named = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.split(r"[>=<!~\[; ]", requirement)[0].lower() for requirement in named}
    assert names - set(pinned) == set()
    assert pinned["torch"] == "2.13.0"
