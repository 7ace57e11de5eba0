"""The report as files: what stands in its tables, in Markdown, CSV and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfl.core.files import write_text
from sfl.run.console import csv_text
from sfl.run.reproduce import budget_cells
from sfl.run.reproduce.layout import Cells, Grid, Paragraph, Picture, Section, as_html, as_markdown
from sfl.run.reproduce.measures import measure_of
from sfl.run.reproduce.paper import PaperNumber
from sfl.run.reproduce.summary import Cell, Summary, TableSummary


def write_report(out: Path, title: str, summary: Summary, remark: str = "") -> list[Path]:
    """Write report.md, report.html, report.csv, budgets.csv and the curves; each file whole or not at all.

    `remark`: what must be known before the numbers are read.
    """
    sections = [section for table in summary.tables for section in _sections(table)] + _what_is_missing(summary)
    pictures = [part for section in sections for part in section.parts if isinstance(part, Picture)]
    texts = {"report.md": as_markdown(title, sections, remark), "report.html": as_html(title, sections, remark)}
    texts |= {f"{picture.name}.svg": picture.svg for picture in pictures}
    rows = [csv_row(table, cell) for table in summary.tables for cell in table.cells]
    spent = [row for table in summary.tables for row in budget_cells.budget_rows(table.table.name, table.budgets)]
    texts["report.csv"] = csv_text(rows or [dict.fromkeys(CSV_COLUMNS, "")])
    texts["budgets.csv"] = csv_text(spent or [dict.fromkeys(budget_cells.CSV_COLUMNS, "")])
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(out / name, text)
    return [out / name for name in ("report.md", "report.csv", "report.html", "budgets.csv")]


def _sections(found: TableSummary) -> list[Section]:
    table = found.table
    said = f"{found.finished} of {found.planned} runs are finished, {_seeds(found.seeds)} a row planned."
    parts: list[Paragraph | Grid | Picture] = [Paragraph(f"{said} {READING}"), Grid(main_cells(found))]
    parts += [_curves(table.name, place, rows) for place, rows in found.curves.items()]
    parts += [Paragraph("Every number with its spread over seeds:"), Grid(detail_cells(found), words=(0, 1, 2))]
    if found.budgets:
        parts += [Paragraph(budget_cells.READING), Grid(budget_cells.budget_table(found.budgets), budget_cells.WORDS)]
    sources = dict.fromkeys(cell.paper.source for cell in found.cells if cell.paper is not None)
    parts += [Paragraph(f"The paper's numbers: {source}.") for source in sources]
    return [Section(f"{table.name}: {table.title}", tuple(parts))]


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


READING = (
    "A cell is the mean over seeds ± its standard error, at the last evaluation of each run, and the paper's number "
    "behind it; - stands for no finished run, and for a cell that the paper does not have."
)


def _curves(table: str, place: str, rows: Sequence[Any]) -> Picture:
    from sfl.run.plots.success import success_svg

    caption = f"Success over environment steps in {place}; what was evaluated once is a dashed line"
    return Picture(f"{table}-{place}", caption, success_svg(rows))


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
    ours, paper = cell.ours, "-" if cell.paper is None else str(cell.paper)
    known = [cell.row, cell.column.place, measure_of(cell.column.measure).heading]
    if ours is None:
        return [*known, "0", "-", "-", "-", "-", paper, "-"]
    return [
        *known,
        str(ours.seeds),
        f"{ours.mean:.2f}",
        "-" if ours.standard_error is None else f"{ours.standard_error:.2f}",
        "-" if ours.interval is None else "{:.1f} to {:.1f}".format(*ours.interval),
        "-" if ours.interquartile_mean is None else f"{ours.interquartile_mean:.2f}",
        paper,
        "-" if cell.paper is None else f"{ours.mean - cell.paper.value:+.1f}",
    ]


def _what_is_missing(summary: Summary) -> list[Section]:
    sections = []
    if summary.failures:
        lines = [[failure.run.title, failure.reason] for failure in summary.failures]
        sections.append(Section("Runs that failed", (Grid([["run", "why"], *lines], words=(0, 1)),)))
    failed = {failure.run.path for failure in summary.failures}
    waiting = [[run.title] for run in summary.unfinished if run.path not in failed]
    if waiting:
        sections.append(Section("Runs that are not finished", (Grid([["run"], *waiting]),)))
    if summary.lacking:
        lines = [[lack.table, lack.entry.row, lack.entry.place, lack.reason] for lack in summary.lacking]
        parts = (
            Paragraph("Rows of the paper that cannot be run yet:"),
            Grid([["table", "row", "place", "why"], *lines], words=(0, 1, 2, 3)),
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
