"""What a report is made of, and how it looks as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sfl.run.version import sfl_version

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
