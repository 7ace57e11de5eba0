"""What the documentation points at exists: functions, files, links, commands and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sfl.cli.commands import COMMANDS, train
from sfl.cli.parsing import parse
from sfl.cli.tools import FAMILIES

from .pages import ROOT, SOURCE, commands, defined_names, read, references

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path.is_file()
)


@pytest.mark.parametrize("page", PAGES)
def test_files_and_names_exist(page: str) -> None:
    missing = []
    for file, name in references(page):
        homes = [path for path in (SOURCE / file, ROOT / file) if path.is_file()]
        if not homes or (name and name not in defined_names(homes[0])):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_equation_and_algorithm_of_the_paper_has_a_file() -> None:
    rows = [line for line in read("docs/how-it-works.md").splitlines() if re.match(r"\| (Eq|Algorithm)", line)]
    numbered = {kind: [row for row in rows if row.startswith(f"| {kind}")] for kind in ("Eq", "Algorithm")}
    for kind, last in {"Eq": 13, "Algorithm": 3}.items():
        numbers = {int(number) for row in numbered[kind] for number in re.findall(r"\d+", row.split("|")[1])}
        assert numbers == set(range(1, last + 1)), kind
    assert all(".py`" in row for row in rows)


def headings(page: Path) -> set[str]:
    """The headings of a page as a link names them: lower case, words joined by hyphens, no other signs."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    astray = []
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", read(page)):
        if link.startswith(("http://", "https://")):
            continue
        target, _, heading = link.partition("#")
        file = (ROOT / page).parent / target if target else ROOT / page
        if not file.exists() or (heading and file.suffix == ".md" and heading not in headings(file)):
            astray.append(link)
    assert astray == []


RUN_ELSEWHERE = "docs/guides/your-agent.md"
"""Its commands are of an agent that only the copy of the project in tests/docs/test_your_own_agent.py has."""

PARSED = [
    (page, words)
    for page in PAGES
    for words in commands(page)
    if page != RUN_ELSEWHERE and words[0] == "sfl" and not words[1].startswith("-") and "--help" not in words
]


class _UnderstoodError(Exception):
    """Training was about to start."""


@pytest.mark.parametrize(("page", "words"), PARSED, ids=[" ".join(words) for _, words in PARSED])
def test_commands_are_understood(page: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Command, experiment and options exist and are in range; nothing is run."""

    def stop(*settings: object) -> None:
        raise _UnderstoodError

    monkeypatch.setattr("sfl.run.train.train", stop)
    if words[1] == "train":
        with pytest.raises(_UnderstoodError):
            train(words[2:])
    elif words[1] in FAMILIES:
        parse(FAMILIES[words[1]][1][words[2]], words[3:], f"sfl {words[1]} {words[2]}")
    else:
        parse(COMMANDS[words[1]], words[2:], f"sfl {words[1]}")
