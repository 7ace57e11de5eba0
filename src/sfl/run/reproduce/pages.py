"""The report as files: Markdown, CSV and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfl.run.console import write_rows
from sfl.run.reproduce import budget_cells
from sfl.run.reproduce.measures import measure_of
from sfl.run.reproduce.paper import PaperNumber
from sfl.run.reproduce.summary import Cell, Summary, TableSummary
from sfl.run.version import sfl_version

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #888; }
img { max-width: 100%; }
"""

Cells = list[list[str]]


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table of text, headings first."""

    cells: Cells


@dataclass(frozen=True)
class Picture:
    """A drawing, under a name that is its file's."""

    name: str
    title: str
    svg: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    parts: tuple[Paragraph | Grid | Picture, ...]


def write_report(out: Path, title: str, summary: Summary) -> list[Path]:
    """Write report.md, report.html, report.csv, budgets.csv and the curves; each page whole or not at all."""
    sections = [section for table in summary.tables for section in _sections(table)] + _what_is_missing(summary)
    pictures = [part for section in sections for part in section.parts if isinstance(part, Picture)]
    texts = {"report.md": as_markdown(title, sections), "report.html": as_html(title, sections)}
    texts |= {f"{picture.name}.svg": picture.svg for picture in pictures}
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write_whole(out / name, text)
    rows = [csv_row(table, cell) for table in summary.tables for cell in table.cells]
    write_rows(out / "report.csv", rows or [dict.fromkeys(CSV_COLUMNS, "")])
    spent = [row for table in summary.tables for row in budget_cells.budget_rows(table.table.name, table.budgets)]
    write_rows(out / "budgets.csv", spent or [dict.fromkeys(budget_cells.CSV_COLUMNS, "")])
    return [out / name for name in ("report.md", "report.csv", "report.html", "budgets.csv")]


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _sections(found: TableSummary) -> list[Section]:
    table = found.table
    said = f"{found.finished} of {found.planned} runs are finished, {found.seeds} seeds a row planned."
    parts: list[Paragraph | Grid | Picture] = [Paragraph(f"{said} {READING}"), Grid(main_cells(found))]
    parts += [_curves(table.name, place, rows) for place, rows in found.curves.items()]
    parts += [Paragraph("Every number with its spread over seeds:"), Grid(detail_cells(found))]
    if found.budgets:
        parts += [Paragraph(budget_cells.READING), Grid(budget_cells.budget_table(found.budgets))]
    sources = dict.fromkeys(cell.paper.source for cell in found.cells if cell.paper is not None)
    parts += [Paragraph(f"The paper's numbers: {source}.") for source in sources]
    return [Section(f"{table.name}: {table.title}", tuple(parts))]


READING = (
    "A cell is the mean over seeds ± its standard error, at the last evaluation of each run, and the paper's number "
    "behind it; - stands for no finished run."
)


def _curves(table: str, place: str, rows: Sequence[Any]) -> Picture:
    from sfl.run.plots.success import success_svg

    return Picture(f"{table}-{place}", f"Success over environment steps in {place}", success_svg(rows))


def main_cells(found: TableSummary) -> Cells:
    """The table as the paper has it: a row for each method, a column for each place and measure."""
    columns = found.table.columns
    lines = [[_shown(found.cell(row, column)) for column in columns] for row in found.table.rows]
    head = ["", *(f"{column.place}: {measure_of(column.measure).heading}" for column in columns)]
    return [head, *([row, *line] for row, line in zip(found.table.rows, lines, strict=True))]


def _shown(cell: Cell | None) -> str:
    return "" if cell is None else str(cell)


DETAIL_HEAD = ["row", "place", "measure", "seeds", "mean", "std. error", "95% interval", "IQM", "paper", "ours - paper"]


def detail_cells(found: TableSummary) -> Cells:
    """One line for each cell."""
    return [DETAIL_HEAD, *(_detail(cell) for cell in found.cells)]


def _detail(cell: Cell) -> list[str]:
    ours, paper = cell.ours, "" if cell.paper is None else str(cell.paper)
    known = [cell.row, cell.column.place, cell.column.measure]
    if ours is None:
        return [*known, "0", "-", "-", "-", "-", paper, ""]
    return [
        *known,
        str(ours.seeds),
        f"{ours.mean:.2f}",
        "-" if ours.standard_error is None else f"{ours.standard_error:.2f}",
        "-" if ours.interval is None else "{:.1f} to {:.1f}".format(*ours.interval),
        "-" if ours.interquartile_mean is None else f"{ours.interquartile_mean:.2f}",
        paper,
        "" if cell.paper is None else f"{ours.mean - cell.paper.value:+.1f}",
    ]


def _what_is_missing(summary: Summary) -> list[Section]:
    sections = []
    if summary.failures:
        lines = [[failure.run.title, failure.reason] for failure in summary.failures]
        sections.append(Section("Runs that failed", (Grid([["run", "why"], *lines]),)))
    failed = {failure.run.path for failure in summary.failures}
    waiting = [[run.title] for run in summary.unfinished if run.path not in failed]
    if waiting:
        sections.append(Section("Runs that are not finished", (Grid([["run"], *waiting]),)))
    if summary.lacking:
        lines = [[lack.table, lack.entry.row, lack.entry.place, lack.reason] for lack in summary.lacking]
        parts = (
            Paragraph("Rows of the paper that cannot be run yet:"),
            Grid([["table", "row", "place", "why"], *lines]),
        )
        sections.append(Section("Rows without runs", parts))
    return sections


CSV_COLUMNS = (
    *("table", "row", "run", "place", "measure", "seeds", "mean", "standard_error", "interval_low", "interval_high"),
    *("interquartile_mean", "paper", "paper_standard_error", "paper_seeds", "paper_source"),
)


def csv_row(found: TableSummary, cell: Cell) -> dict[str, Any]:
    """A cell in full precision; what is not known stays empty."""
    ours, paper = cell.ours, cell.paper
    values: list[Any] = [found.table.name, cell.row, cell.run, cell.column.place, cell.column.measure]
    if ours is None:
        values += [0, None, None, None, None, None]
    else:
        values += [ours.seeds, ours.mean, ours.standard_error, *(ours.interval or (None, None))]
        values += [ours.interquartile_mean]
    values += _paper_columns(paper)
    return dict(zip(CSV_COLUMNS, values, strict=True))


def _paper_columns(paper: PaperNumber | None) -> list[Any]:
    return [None] * 4 if paper is None else [paper.value, paper.error, paper.seeds, paper.source]


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report for editors and repositories; pictures are files beside it."""
    lines = [f"# {title}", "", f"Made by sfl {sfl_version()}.", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for part in section.parts:
            lines += [*_markdown(part), ""]
    return "\n".join(lines)


def _markdown(part: Paragraph | Grid | Picture) -> list[str]:
    if isinstance(part, Paragraph):
        return [part.text]
    if isinstance(part, Picture):
        return [f"![{part.title}]({part.name}.svg)"]
    head, *rows = [[cell.replace("|", "\\|") for cell in line] for line in part.cells]
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]


def as_html(title: str, sections: Sequence[Section]) -> str:
    """The report as one page: style and pictures are inside."""
    body = "\n".join(_html_section(section) for section in sections)
    shown = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{shown}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{shown}</h1>\n<p>Made by sfl {sfl_version()}.</p>\n{body}\n"
        "</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    parts = "\n".join(_html(part) for part in section.parts)
    return f"<h2>{html.escape(section.title)}</h2>\n{parts}"


def _html(part: Paragraph | Grid | Picture) -> str:
    if isinstance(part, Paragraph):
        return f"<p>{html.escape(part.text)}</p>"
    if isinstance(part, Picture):
        data = base64.b64encode(part.svg.encode()).decode()
        return f'<img alt="{html.escape(part.title)}" src="data:image/svg+xml;base64,{data}">'
    head, *rows = part.cells
    shown = "\n".join(f"<tr>{_html_cells(row, 'td')}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{_html_cells(head, 'th')}</tr></thead>\n<tbody>\n{shown}\n</tbody>\n</table>"


def _html_cells(cells: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
