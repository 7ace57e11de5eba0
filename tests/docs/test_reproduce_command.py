"""docs/guides/reproduce.md says of `sfl reproduce` what its tables and options are."""

from __future__ import annotations

import re

import pytest

from sfl.cli.commands import ReproduceOptions
from sfl.cli.parsing import option_names
from sfl.reproduce.tables import ALL, TABLES

from .pages import read

PAGE = "docs/guides/reproduce.md"


@pytest.mark.parametrize("name", [*TABLES, ALL])
def test_every_table_has_a_line_with_its_seeds_and_a_word_in_the_help(name: str) -> None:
    seeds = "" if name == ALL else str(TABLES[name].seeds)
    assert re.search(rf"^\| `{name}` \| [^|]+ \| {seeds} ?\|", read(PAGE), re.MULTILINE)
    assert name in read("src/sfl/cli/commands.py")


def test_every_option_is_explained() -> None:
    named = {
        word for line in read(PAGE).splitlines() if line.startswith("| `--") for word in re.findall(r"--[a-z-]+", line)
    }
    known = {name for name in option_names(ReproduceOptions) if not name.startswith("--no-")} - {"--table"}
    assert known <= named
