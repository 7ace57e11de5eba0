"""What the site is given when it is built: the table of metrics, from the file that declares them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

METRICS = Path(__file__).parents[1] / "src" / "sfl" / "run" / "metrics.toml"
MARK = "<!-- metrics -->"


def metrics_table() -> str:
    """One row a metric."""
    rows = tomllib.loads(METRICS.read_text(encoding="utf-8"))
    lines = ["| name | file | unit | meaning | what a bad value looks like |", "|---|---|---|---|---|"]
    for name, (file, _, unit, meaning, bad) in rows.items():
        lines.append(f"| `{name}` | {file}.csv | {unit} | {meaning} | {bad} |")
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return markdown.replace(MARK, metrics_table()) if MARK in markdown else markdown
