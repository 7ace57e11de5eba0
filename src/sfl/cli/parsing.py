"""From words to dataclasses, with complaints of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shutil
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

from sfl.config import check_numbers
from sfl.errors import UsageError, unknown_name

T = TypeVar("T")

NARROWEST = 40
"""Columns; help that is set in fewer takes minutes to set, or never ends."""


def parse(options: type[T], args: Sequence[str], prog: str, strict: bool = True) -> T:
    """Read words into a dataclass; whatever does not fit is a UsageError of one line."""
    complaint, known = io.StringIO(), option_names(options)
    try:
        with contextlib.redirect_stderr(complaint), _wide_enough():
            value, unknown = tyro.cli(options, prog=prog, args=list(args), return_unknown_args=True)
    except SystemExit as stop:
        if not stop.code:
            raise
        if strict and (strange := _strange_options(args, known)):  # tyro takes their values for something else
            raise _unknown_word(strange, known, prog) from None
        raise UsageError(f"{_first_paragraph(complaint.getvalue())} `{prog} --help` shows all options.") from None
    if unknown and strict:
        raise _unknown_word(unknown, known, prog)
    check_numbers(value)
    return value


@contextlib.contextmanager
def _wide_enough() -> Iterator[None]:
    """However narrow the terminal is, or says that it is."""
    said = os.environ.get("COLUMNS")
    if shutil.get_terminal_size().columns >= NARROWEST:
        yield
        return
    os.environ["COLUMNS"] = str(NARROWEST)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if said is not None:
            os.environ["COLUMNS"] = said


def _first_paragraph(box: str) -> str:
    """The sentence in one of tyro's framed messages."""
    lines = [line.strip(" │\n") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    rule = next((number for number, line in enumerate(lines) if line.startswith("─")), len(lines))
    sentence = " ".join(" ".join(lines[:rule]).split())
    return sentence.partition(" Got errors:")[0].rstrip(".") + "."


def _strange_options(args: Sequence[str], known: Sequence[str]) -> list[str]:
    """Words that look like options and are none."""
    named = [word for word in args if word.startswith("--") and word != "--"]
    return [word for word in named if word.split("=")[0].replace("_", "-") not in (*known, "--help")]


def _unknown_word(unknown: Sequence[str], known: Sequence[str], prog: str) -> UsageError:
    option = next((word for word in unknown if word.startswith("-")), None)
    if option is None:
        return UsageError(f"Did not expect {unknown[0]!r} here; `{prog} --help` shows what fits.")
    return unknown_name("option", option.split("=")[0].replace("_", "-"), known, f"`{prog} --help` shows all.")


def option_names(options: type[Any], prefix: str = "--") -> list[str]:
    """Every option a dataclass gives, nested ones with dots."""
    names: list[str] = []
    for name, kind in typing.get_type_hints(options, include_extras=True).items():
        renamed = [part.name for part in getattr(kind, "__metadata__", ()) if getattr(part, "name", None)]
        word = renamed[0] if renamed else name.replace("_", "-")
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            names += option_names(kind, f"{prefix}{word}.")
        else:
            names += [f"{prefix}{word}", *([f"{prefix}no-{word}"] if kind is bool else [])]
    return names
