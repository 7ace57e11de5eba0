"""What came of a plan: finished runs become the cells of tables, each beside the paper's number.

From top to bottom: cells and their summary, the files of the report and its tables, the same as one HTML page, and
rows of CSV.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

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

Cells = list[list[str]]
"""A table of text, headings first."""


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


def write_report(out: Path, title: str, summary: Summary, remark: str = "") -> list[Path]:
    """Write report.md, report.html, report.csv, budgets.csv and the curves; each file whole or not at all.

    `remark`: what must be known before the numbers are read.
    """
    texts = {name: svg for table in summary.tables for name, svg in _pictures(table).items()}
    sections = {f"{found.table.name}: {found.table.title}": _table_section(found) for found in summary.tables}
    sections |= _what_is_missing(summary)
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in sections.items())
    texts["report.html"] = as_html(title, body, list(sections), texts, remark)
    warned = [f"**{remark}**"] if remark else []
    texts["report.md"] = "\n\n".join([f"# {title}", MADE_BY, *warned, *([body] if body else [])]) + "\n"
    rows = [csv_row(table, cell) for table in summary.tables for cell in table.cells]
    spent = [row for table in summary.tables for row in budget_cells.budget_rows(table.table.name, table.budgets)]
    texts["report.csv"] = csv_text(rows or [dict.fromkeys(CSV_COLUMNS, "")])
    texts["budgets.csv"] = csv_text(spent or [dict.fromkeys(budget_cells.CSV_COLUMNS, "")])
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_text(out / name, text)
    return [out / name for name in ("report.md", "report.csv", "report.html", "budgets.csv")]


MADE_BY = f"Made by sfl {sfl_version()}."

READING = (
    "A cell is the mean over seeds ± its standard error, at the last evaluation of each run, and the paper's number "
    "behind it; - stands for no finished run, and for a cell that the paper does not have."
)


def _table_section(found: TableSummary) -> str:
    """What the report says of one table, in Markdown."""
    seeds = "1 seed" if found.seeds == 1 else f"{found.seeds} seeds"
    parts = [f"{found.finished} of {found.planned} runs are finished, {seeds} a row planned. {READING}"]
    parts.append(markdown_table(main_cells(found)))
    parts += [
        f"![Success over environment steps in {place}; what was evaluated once is a dashed line]"
        f"({found.table.name}-{place}.svg)"
        for place in found.curves
    ]
    parts += ["Every number with its spread over seeds:", markdown_table(detail_cells(found))]
    if found.budgets:
        parts += [budget_cells.READING, markdown_table(budget_cells.budget_table(found.budgets))]
    sources = dict.fromkeys(cell.paper.source for cell in found.cells if cell.paper is not None)
    return "\n\n".join([*parts, *(f"The paper's numbers: {source}." for source in sources)])


def _pictures(found: TableSummary) -> dict[str, str]:
    """The curves of a table as SVG, by the name of the file."""
    from sfl.show.curves import success_svg

    return {f"{found.table.name}-{place}.svg": success_svg(rows) for place, rows in found.curves.items()}


def main_cells(found: TableSummary) -> Cells:
    """The table as the paper has it: a row for each method, a column for each place and measure."""
    columns = found.table.columns
    lines = [[str(found.cell(row, column) or "") for column in columns] for row in found.table.rows]
    head = ["", *(f"{column.place}: {measure_of(column.measure).heading}" for column in columns)]
    return [head, *([row, *line] for row, line in zip(found.table.rows, lines, strict=True))]


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


def _what_is_missing(summary: Summary) -> dict[str, str]:
    """Sections on runs that failed, that are not finished, and that no experiment makes yet."""
    sections = {}
    if summary.failures:
        lines = [[failure.run.title, failure.reason] for failure in summary.failures]
        sections["Runs that failed"] = markdown_table([["run", "why"], *lines])
    failed = {failure.run.path for failure in summary.failures}
    waiting = [[run.title] for run in summary.unfinished if run.path not in failed]
    if waiting:
        sections["Runs that are not finished"] = markdown_table([["run"], *waiting])
    if summary.lacking:
        lines = [[lack.table, lack.entry.row, lack.entry.place, lack.reason] for lack in summary.lacking]
        shown = markdown_table([["table", "row", "place", "why"], *lines])
        sections["Rows without runs"] = f"Rows of the paper that cannot be run yet:\n\n{shown}"
    return sections


def markdown_table(cells: Cells) -> str:
    """Cells as Markdown has them."""
    head, *rows = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --ground: #fff; --line: #d8dee4; --strong: #8c959f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --ground: #14181d; --line: #30363d; --strong: #6e7681; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 84rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--ground); }
p { max-width: 60rem; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
a { color: inherit; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: left; vertical-align: top; }
td { white-space: nowrap; }
td:last-child { white-space: normal; }
thead th { border-bottom: 2px solid var(--strong); }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground); }
img { max-width: 100%; background: #fff; padding: .5rem; border-radius: .4rem; box-sizing: border-box; }
"""


def as_html(title: str, body: str, headings: Sequence[str], pictures: Mapping[str, str], remark: str = "") -> str:
    """The Markdown of all sections as one page: style and pictures (SVG by file name) are inside."""
    # Patterns of --only and error messages are full of stars and angle brackets: nothing else is read as Markdown.
    markdown = MarkdownIt("zero").enable(["heading", "table", "image"])
    tokens, number = markdown.parse(body), 0
    for token in tokens:
        if token.type == "heading_open":
            token.attrSet("id", f"s{number}")
            number += 1
        for child in token.children or []:
            if child.type == "image":
                data = base64.b64encode(pictures[str(child.attrs["src"])].encode()).decode()
                child.attrSet("src", f"data:image/svg+xml;base64,{data}")
                child.attrSet("title", child.content)
    links = (f'<li><a href="#s{number}">{html.escape(name)}</a></li>' for number, name in enumerate(headings))
    contents = f"<nav><ul>{''.join(links)}</ul></nav>\n" if len(headings) > 1 else ""
    warned = f"<p><strong>{html.escape(remark)}</strong></p>\n" if remark else ""
    shown = markdown.renderer.render(tokens, markdown.options, {})
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n<p>{MADE_BY}</p>\n{warned}{contents}{shown}</body>\n</html>\n"
    )


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
    values += [None] * 4 if paper is None else [paper.value, paper.error, paper.seeds, paper.source]
    return dict(zip(CSV_COLUMNS, values, strict=True))
