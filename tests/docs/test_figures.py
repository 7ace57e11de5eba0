"""The page of figures names files that are drawn, and the gallery's pictures exist and are small."""

from __future__ import annotations

import re

from .pages import ROOT, SOURCE, read

LARGEST = 150_000  # bytes of a picture


def table_rows() -> list[list[str]]:
    rows = [line for line in read("docs/reference/figures.md").splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_figure_of_the_paper_has_a_row() -> None:
    first = " ".join(row[0].split(":")[0] for row in table_rows())
    assert sorted({int(number) for number in re.findall(r"\d+", first)}) == list(range(1, 20))


def test_files_of_the_table_are_drawn() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCE / "show").glob("*.py"))
    names = {name for row in table_rows() for name in re.findall(r"`([\w-]+)`", row[1])}
    assert len(names) > 10
    assert {name for name in names if f'"{name}"' not in code} == set()


def test_pictures_of_the_gallery_are_there_and_small() -> None:
    shown = set(re.findall(r"\]\(\.\./(images/gallery/[\w.-]+)\)", read("docs/reference/figures.md")))
    kept = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "images" / "gallery").iterdir()}
    assert shown == kept
    assert [name for name in kept if (ROOT / "docs" / name).stat().st_size > LARGEST] == []
