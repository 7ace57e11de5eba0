"""Tables and JSON on stdout, where results go."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfl.core.files import write_text


def print_table(cells: Sequence[Sequence[str]], prose: bool = False) -> None:
    """Show rows of text, headings first; numbers are set to the right, `prose` to the left."""
    import rich.console
    from rich import box
    from rich.table import Table

    class Console(rich.console.Console):
        def on_broken_pipe(self) -> None:
            """As for every other output; rich would end the program as if it had failed."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    # Into a pipe nothing may be cut off, however narrow rich believes the terminal to be.
    width = 1 + sum(3 + max(map(len, column)) for column in zip(*cells, strict=True))
    console = Console() if sys.stdout.isatty() else Console(width=width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, pad_edge=False)
    for number, heading in enumerate(cells[0]):
        table.add_column(heading, justify="left" if number == 0 or prose else "right", no_wrap=number == 0)
    for row in cells[1:]:
        table.add_row(*row)
    console.print(table)


def print_json(value: Any) -> None:
    """Show a value for other programs to read."""
    print(json.dumps(value, indent=2))


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Show mappings with the same keys as a table."""
    print_table([list(rows[0]), *([str(value) for value in row.values()] for row in rows)])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write mappings with the same keys to a CSV file, in place of what it held; its folder is made."""
    write_text(path, csv_text(rows))


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mappings with the same keys as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def reader_has_left() -> bool:
    """Nobody reads stdout any more; if so, what is still written goes nowhere instead of failing at the end."""
    output = select.poll()
    output.register(sys.stdout.fileno(), select.POLLOUT)
    if not any(event & select.POLLERR for _, event in output.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True
