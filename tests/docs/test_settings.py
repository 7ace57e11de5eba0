"""Each table of settings in docs/methods says what the experiments have, and the paper's options are all in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from sfl import experiments

from .pages import read

GRIDS = ("fourroom", "multiroom-n2", "multiroom-n3", "multiroom-n4")
MAZES = ("sgm-random-spawn", "test-1-fixed-spawn")


class Settings(NamedTuple):
    """A table: the page and section that it stands in, and the experiments behind each of its columns."""

    page: str
    section: str
    columns: dict[str, tuple[str, ...]]


def of(agent: str, *places: str) -> tuple[str, ...]:
    return tuple(f"{place}-{agent}" for place in places)


TABLES = (
    Settings("sfl", "In grids", {"paper": of("paper", *GRIDS), "ours": of("sfl", *GRIDS)}),
    Settings("sfl", "In mazes", {"paper": of("paper", *MAZES), "ours": of("sfl", *MAZES)}),
    Settings("controller", "Settings", {"here": of("controller", *MAZES)}),
    Settings("sptm", "Settings", {"here": of("sptm", *MAZES)}),
    Settings("sgm", "Settings", {"here": of("sgm", *MAZES)}),
    Settings("ec", "Settings", {"mazes": ("test-1-fixed-spawn-ec",), "`fourroom`": ("fourroom-ec",)}),
    Settings(
        "mss",
        "Settings",
        {
            "FourRoom": ("fourroom-mss",),
            "MultiRoom": of("mss", *GRIDS[1:]),
            "mazes": of("mss", "test-1-fixed-spawn", "test-4-fixed-spawn"),
        },
    ),
)

NAMED_IN_THE_PAPER = {
    "In grids": {
        *("features.norm", "features.margin", "features.positive-window", "features.negative-min"),
        *("features.negative-max", "successor.gamma", "successor.n-step", "successor.huber-delta"),
        *("successor.target-every", "landmarks.add-threshold", "landmarks.localize-threshold", "landmarks.window"),
        *("landmarks.candidates-per-add", "landmarks.add-every", "landmarks.update-every", "edges.threshold"),
        *("edges.form-every", "navigator.frontier-steps", "navigator.steps-per-landmark", "navigator.explore-steps"),
        *("train-epsilon", "eval-epsilon"),
    },
    "In mazes": {
        *("successor.gamma", "successor.n-step", "successor.huber-delta", "successor.target-every"),
        *(
            "landmarks.add-threshold",
            "landmarks.localize-threshold",
            "landmarks.window",
            "landmarks.candidates-per-add",
        ),
        *("landmarks.add-every", "landmarks.update-every", "edges.threshold", "edges.k-nearest", "edges.temporal"),
        *("edges.form-every", "navigator.frontier-steps", "navigator.steps-per-landmark", "navigator.explore-steps"),
        *("train-epsilon", "eval-epsilon"),
    },
}


def options(config: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(option, value) of a configuration and of those inside it."""
    for field in dataclasses.fields(config):
        value, word = getattr(config, field.name), prefix + field.name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from options(value, f"{word}.")
        else:
            yield word, value


def text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(text, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def column(names: tuple[str, ...]) -> dict[str, str]:
    """option -> the values that these experiments have, in their order, each once."""
    found = [{word: text(value) for word, value in options(experiments.get(name).agent)} for name in names]
    words = dict.fromkeys(word for config in found for word in config)
    return {word: " / ".join(dict.fromkeys(config[word] for config in found if word in config)) for word in words}


def table(settings: Settings) -> list[dict[str, str]]:
    """The rows of the section's table of options, by the words of its head."""
    section = read(f"docs/methods/{settings.page}.md").partition(f"# {settings.section}\n")[2]
    lines = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| option |"))
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:] if line[:1] == "|"
    ]
    return [row for cells in rows for row in _split(dict(zip(head, cells, strict=True)), settings.columns)]


def _split(row: dict[str, str], columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """Options that go together share a row: their values are parted by semicolons."""
    together = row["option"].split(", ")
    values = {name: row[name].split("; ") for name in columns}
    for number, option in enumerate(together):
        assert all(len(each) == len(together) for each in values.values()), row["option"]
        yield {**row, "option": option, **{name: each[number] for name, each in values.items()}}


@pytest.mark.parametrize("settings", TABLES, ids=lambda settings: f"{settings.page}-{settings.section}")
def test_the_table_is_that_of_the_experiments(settings: Settings) -> None:
    rows = table(settings)
    assert rows
    for name, behind in settings.columns.items():
        values = column(behind)
        said = {row["option"].strip("`"): row[name] for row in rows}
        assert said == {word: values.get(word, "-") for word in said}, name


@pytest.mark.parametrize("settings", TABLES[:2], ids=lambda settings: settings.section)
def test_every_option_of_the_paper_and_every_departure_from_it_is_there(settings: Settings) -> None:
    paper, ours = (column(behind) for behind in settings.columns.values())
    rows = {row["option"].strip("`"): row for row in table(settings)}
    departures = {word for word in paper if paper[word] != ours[word]}
    assert set(rows) == departures | NAMED_IN_THE_PAPER[settings.section]
    assert {word for word in departures if not rows[word]["why"]} == set()


def test_all_mazes_have_the_settings_of_the_table() -> None:
    """Presets of an agent differ in the maze alone, and in the files that they read."""
    for agent in ("sfl", "paper", "controller", "sptm", "sgm"):
        for spawn, first in zip(("random", "fixed"), MAZES, strict=True):
            others = [f"{place}-{agent}" for place in experiments.PLACES if place.endswith(f"-{spawn}-spawn")]
            agents = [dict(options(experiments.get(name).agent)) for name in others if name in experiments.names()]
            expected = dict(options(experiments.get(f"{first}-{agent}").agent))
            assert all({**one, "networks": ""} == {**expected, "networks": ""} for one in agents), (agent, spawn)
