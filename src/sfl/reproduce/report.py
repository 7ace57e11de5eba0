"""Finished runs become the cells of tables, each beside the paper's number."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfl.files import write_text
from sfl.reproduce import budget as budget_cells
from sfl.reproduce.budget import Budget, budget_of
from sfl.reproduce.engine import Failure
from sfl.reproduce.plan import LackingRow, Plan, PlannedRun, Progress
from sfl.reproduce.tables import Column, Entry, PaperNumber, Table, measure_of, paper_number
from sfl.run.evaluate import EpisodeRow
from sfl.run.folder import RunFolder, read_episodes
from sfl.run.log import csv_text
from sfl.run.machine import sfl_version
from sfl.run.report import Spread, spread


@dataclass(frozen=True)
class Cell:
    """One number of a table, ours and the paper's; either may be absent."""

    row: str
    column: Column
    run: str
    ours: Spread | None
    paper: PaperNumber | None

    def __str__(self) -> str:
        ours = "-" if self.ours is None else number_text(self.ours)
        return f"{ours} (paper {'-' if self.paper is None else self.paper})"


def number_text(found: Spread) -> str:
    """Mean and standard error."""
    error = "" if found.standard_error is None else f" ± {found.standard_error:.1f}"
    return f"{found.mean:.1f}{error}"


@dataclass(frozen=True)
class TableSummary:
    """A table with everything that its report shows."""

    table: Table
    seeds: int
    cells: tuple[Cell, ...]
    """Row by row."""
    budgets: tuple[Budget, ...]
    curves: dict[str, list[EpisodeRow]]
    """Every evaluation in each place, with the row's name as the experiment's; empty where none is drawn."""
    finished: int
    planned: int

    def cell(self, row: str, column: Column) -> Cell | None:
        """The cell of a row and a column, where the row has one."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)


@dataclass(frozen=True)
class Summary:
    """All tables, and whatever stands between them and the whole."""

    tables: tuple[TableSummary, ...]
    lacking: tuple[LackingRow, ...]
    failures: tuple[Failure, ...]
    unfinished: tuple[PlannedRun, ...]


def summarise_plan(plan: Plan, states: dict[Path, Progress], failures: Sequence[Failure]) -> Summary:
    """Read the finished runs of a plan; runs that are not finished count in no cell."""
    tables = tuple(_table(plan, table, states) for table in plan.tables if table.entries)
    unfinished = [run for run in plan.runs if states[run.path] is not Progress.FINISHED]
    return Summary(tables, plan.lacking, tuple(failures), tuple(unfinished))


def _table(plan: Plan, table: Table, states: dict[Path, Progress]) -> TableSummary:
    cells, budgets = [], []
    curves: dict[str, list[EpisodeRow]] = {}
    planned = finished = 0
    for entry in table.entries:
        paths = plan.paths(table, entry)
        done = [RunFolder(path) for path in paths if states[path] is Progress.FINISHED]
        planned, finished = planned + len(paths), finished + len(done)
        columns = [column for column in table.columns if column.place == entry.place]
        cells += [_cell(table, entry, column, done) for column in columns]
        if done:
            budgets.append(budget_of(plan.runs_dir, entry, done))
        if done and table.curves:
            rows = [row for folder in done for row in read_episodes(folder.episodes)]
            curves.setdefault(entry.place, []).extend(replace(row, experiment=entry.row) for row in rows)
    seeds = plan.seeds[table.name]
    return TableSummary(table, seeds, tuple(cells), tuple(budgets), curves, finished, planned)


def _cell(table: Table, entry: Entry, column: Column, done: Sequence[RunFolder]) -> Cell:
    measure = measure_of(column.measure)
    values = [value for folder in done if (value := measure.read(folder)) is not None]
    ours = spread(values, measure.bounds) if values else None
    paper = paper_number(table.name, entry.paper, column.place, column.measure)
    return Cell(entry.row, column, entry.run, ours, paper)


# ---- What a report is made of, and how it looks as Markdown and as one HTML page that needs nothing else.

STYLE = """
:root { color-scheme: light dark;
  --ink: #1f2328; --ground: #fff; --faint: #656d76; --line: #d8dee4; --strong: #8c959f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --ground: #14181d; --faint: #9198a1; --line: #30363d; --strong: #6e7681; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 84rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--ground); }
p { max-width: 60rem; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
a { color: inherit; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: right; vertical-align: bottom;
  white-space: nowrap; }
td { vertical-align: top; }
thead th { border-bottom: 2px solid var(--strong); }
tbody tr:hover td { background: color-mix(in srgb, var(--line) 35%, var(--ground)); }
.words { text-align: left; }
td.long { white-space: normal; min-width: 24rem; max-width: 48rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground); }
small { color: var(--faint); font-size: .85em; }
figure { margin: 1.5rem 0; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
img { max-width: 100%; background: #fff; padding: .5rem; border-radius: .4rem; box-sizing: border-box; }
"""

LONG = 70
"""Words of this length may take several lines of a cell."""

Cells = list[list[str]]


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table of text, headings first."""

    cells: Cells
    words: tuple[int, ...] = (0,)
    """Columns of words, which stand on the left; the others are numbers."""


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


def as_markdown(title: str, sections: Sequence[Section], remark: str = "") -> str:
    """The report for editors and repositories; pictures are files beside it."""
    lines = [f"# {title}", "", f"Made by sfl {sfl_version()}.", ""] + ([f"**{remark}**", ""] if remark else [])
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


def as_html(title: str, sections: Sequence[Section], remark: str = "") -> str:
    """The report as one page: style and pictures are inside."""
    body = "\n".join(_html_section(section, number) for number, section in enumerate(sections))
    shown, contents = html.escape(title), _contents(sections) if len(sections) > 1 else ""
    warned = f"<p><strong>{html.escape(remark)}</strong></p>\n" if remark else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{shown}</h1>\n"
        f"<p>Made by sfl {sfl_version()}.</p>\n{warned}{contents}{body}\n</body>\n</html>\n"
    )


def _contents(sections: Sequence[Section]) -> str:
    lines = (f'<li><a href="#s{number}">{html.escape(one.title)}</a></li>' for number, one in enumerate(sections))
    return f"<nav><ul>{''.join(lines)}</ul></nav>\n"


def _html_section(section: Section, number: int) -> str:
    parts = "\n".join(_html(part) for part in section.parts)
    return f'<h2 id="s{number}">{html.escape(section.title)}</h2>\n{parts}'


def _html(part: Paragraph | Grid | Picture) -> str:
    if isinstance(part, Paragraph):
        return f"<p>{html.escape(part.text)}</p>"
    if isinstance(part, Picture):
        data, title = base64.b64encode(part.svg.encode()).decode(), html.escape(part.title)
        source = f"data:image/svg+xml;base64,{data}"
        return f'<figure><figcaption>{title}</figcaption><img alt="{title}" src="{source}"></figure>'
    head, *rows = part.cells
    shown = "\n".join(f"<tr>{_html_cells(row, 'td', part.words)}</tr>" for row in rows)
    heading = f"<thead><tr>{_html_cells(head, 'th', part.words)}</tr></thead>"
    return f'<div class="wide" tabindex="0"><table>\n{heading}\n<tbody>\n{shown}\n</tbody>\n</table></div>'


def _html_cells(cells: Sequence[str], tag: str, words: Sequence[int]) -> str:
    shown = []
    for column, cell in enumerate(cells):
        kind = "" if column not in words else ' class="words"' if len(cell) < LONG else ' class="words long"'
        shown.append(f"<{tag}{kind}>{_html_text(cell, tag)}</{tag}>")
    return "".join(shown)


def _html_text(cell: str, tag: str) -> str:
    """A place stands above its measure, and the paper's number is paler than ours."""
    shown = html.escape(cell)
    if tag == "th":
        return shown.replace(": ", "<br>")
    return re.sub(r" (\(paper .*\))$", r" <small>\1</small>", shown)


# ---- The report as files: what stands in its tables, in Markdown, CSV and HTML.


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
    from sfl.show.curves import success_svg

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
