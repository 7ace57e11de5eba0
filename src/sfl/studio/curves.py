"""Curves of success, leading indicators and losses; and the settings of runs, with what differs between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfl.api import Array
from sfl.config import to_json
from sfl.errors import SflError, UsageError
from sfl.run.chance import read_random
from sfl.run.evaluate import summarise
from sfl.run.log import read_columns
from sfl.run.metrics import declared
from sfl.studio.answers import Document, numbers, shares
from sfl.studio.runs import Run

POINTS = 500
"""Points that the curves of a metric have at most, beside the ends of each."""

SUCCESS = "eval/success_"


def curves(runs: Sequence[Run]) -> Document:
    """Every metric for which one of the runs has numbers."""
    found: dict[str, dict[str, tuple[Array, Array]]] = {}
    for run in runs:
        for name, line in _lines(run).items():
            found.setdefault(name, {})[run.id] = line
    random = _random(runs)
    metrics = [{**_metric(name, lines), "random": random.get(name)} for name, lines in found.items()]
    groups = ("success", "indicator", "training")
    metrics.sort(key=lambda metric: groups.index(metric["group"]))  # stable: in each group as they are declared
    levels = [metric["name"].removeprefix(SUCCESS) for metric in metrics if metric["group"] == "success"]
    return {"metrics": metrics, "levels": levels}


def _random(runs: Sequence[Run]) -> dict[str, float]:
    """Success of the random policy on the tasks of these runs, by metric; of runs in several worlds none."""
    if len({run.facts.world_key for run in runs}) != 1:
        return {}
    rows = []
    for run in runs:
        try:
            rows += read_random(run.folder.path)
        except SflError:  # not what it should be
            continue
    return {name: share for name, share in summarise(rows).items() if name.startswith(SUCCESS)}


def _lines(run: Run) -> dict[str, tuple[Array, Array]]:
    """Metric -> steps and values, where both are known."""
    lines = {}
    for file in ("eval.csv", "train.csv"):
        try:
            table = read_columns(run.folder.path / file)
        except (OSError, ValueError, KeyError):  # not there yet, gone, or not what it should be
            continue
        steps = np.array(table.pop("env_steps", []))
        for name, column in table.items():
            values = np.array(column)
            known = np.isfinite(values)
            if known.any() and _is_declared(name):
                lines[name] = steps[known], values[known]
    return lines


def _is_declared(name: str) -> bool:
    try:
        declared(name)
    except KeyError:
        return False
    return True


def thinned(lines: Mapping[str, tuple[Array, Array]], most: int = POINTS) -> dict[str, tuple[Array, Array]]:
    """Each line at some of its steps, the first and the last among them: at most so many, and the same of all lines.

    Nothing is put between measurements: a mean over seeds is one of what was measured at the same step.
    """
    steps = np.unique(np.concatenate([steps for steps, _ in lines.values()]))
    kept = steps[np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int)]
    found = {}
    for run, (steps, values) in lines.items():
        rows = np.isin(steps, kept)
        rows[[0, -1]] = True
        found[run] = steps[rows], values[rows]
    return found


def group_of(name: str) -> str:
    """Where the page shows a metric."""
    if name.startswith(SUCCESS):
        return "success"
    leading = name.startswith(("graph/", "explore/", "eval/")) or name == "time/env_steps_per_second"
    return "indicator" if leading else "training"


def _metric(name: str, lines: dict[str, tuple[Array, Array]]) -> Document:
    known = declared(name)
    shown = shares if known.unit == "share" else numbers
    return {
        "name": name,
        "title": title_of(name),
        "unit": known.unit,
        "group": group_of(name),
        "meaning": known.meaning,
        "bad": known.bad,
        "runs": {
            run: {"steps": [int(step) for step in steps.tolist()], "values": shown(values, 5)}
            for run, (steps, values) in thinned(lines).items()
        },
    }


def title_of(name: str) -> str:
    """`eval/success_paper` -> `Success paper`."""
    words = name.partition("/")[2].replace("_", " ")
    return words[:1].upper() + words[1:]


def settings(runs: Sequence[Run]) -> Document:
    """All settings of runs by the names of their options, and the names at which they differ."""
    flat = {run.id: {"seed": run.facts.seed, **flattened(to_json(run.facts.written))} for run in runs}
    names = dict.fromkeys(name for found in flat.values() for name in found)
    absent = object()
    differs = [name for name in names if len({_comparable(found.get(name, absent)) for found in flat.values()}) > 1]
    return {"settings": flat, "differs": differs}


def _comparable(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict | float | int | str | bool | None) else value


def flattened(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings under names such as `agent.landmarks.add-threshold`."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        key = f"{prefix}{name.replace('_', '-')}"
        if isinstance(inner, dict):
            found |= flattened(inner, f"{key}.")
        else:
            found[key] = inner
    return found


def require_runs(runs: Sequence[Run]) -> Sequence[Run]:
    """One at least."""
    if not runs:
        raise UsageError("Name the runs as ?runs=r0,r1.")
    return runs
