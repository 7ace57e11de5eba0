"""The leading indicators of a run over its environment steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.run.csv_table import read_columns
from sfl.run.folder import LoadedRun
from sfl.run.plots.marks import BLUE, DARK, GREEN, ORANGE
from sfl.run.plots.panels import headline

COLUMNS = 4


@dataclass(frozen=True)
class Panel:
    """Metrics that are shown together."""

    title: str
    unit: str
    lines: dict[str, str]
    """Metric -> label. A metric of a radius is named without it."""


LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (DARK, "d"))
"""Colours and marks of a panel's lines, in their order."""

PANELS = (
    Panel(
        "Localization in evaluation",
        "% of decisions",
        {
            "graph/localized_in_evaluation": "localized",
            "graph/localization_within_{}": "of those, landmark within {}",
            "graph/localization_within_{}_of_all": "of all, landmark within {}",
        },
    ),
    Panel("Distance to the believed landmark", "{}, median", {"graph/localization_distance_median": "median"}),
    Panel("Angle to the believed landmark", "degrees, median", {"graph/localization_angle_median": "median"}),
    Panel(
        "Waypoints in evaluation",
        "% of waypoints",
        {
            "eval/waypoint_truly_reached": "truly reached",
            "eval/waypoint_truly_reached_from_afar": "of those far away, truly reached",
            "eval/waypoint_given_up": "given up",
            "eval/waypoint_belief_true": "of those believed reached, truly",
        },
    ),
    Panel("Length of edges", "{}, median", {"graph/edge_length_median": "median"}),
    Panel("Edges across walls", "% of edges", {"graph/edges_across_walls": "crosses a wall"}),
    Panel(
        "Exploration in training",
        "%",
        {
            "explore/coverage": "coverage",
            "explore/waypoint_reached": "trips to the frontier that arrive",
            "graph/localized": "decisions that are localized",
        },
    ),
    Panel("Speed of training", "environment steps per second", {"time/env_steps_per_second": "since the last row"}),
)


def indicators_figure(run: LoadedRun) -> Figure | None:
    """All panels for which the run has numbers; None where it has never been localized."""
    tables = [read_columns(file) for name in ("train", "eval") if (file := run.folder.path / f"{name}.csv").is_file()]
    radius = 100 if any(_known(table, "graph/localization_within_100") for table in tables) else 1
    shown = [(panel, lines) for panel in PANELS if (lines := _lines(panel, tables, radius))]
    if not any("graph/localized_in_evaluation" in panel.lines for panel, _ in shown):
        return None
    rows = -(-len(shown) // COLUMNS)
    figure = Figure((3.2 * COLUMNS, 3.3 * rows + 0.7), layout="constrained")
    figure.suptitle(f"Leading indicators: {headline(run)}", fontsize=13, fontweight="bold")
    unit = "map units" if radius == 100 else "cells"
    for number, (panel, lines) in enumerate(shown, 1):
        _draw(figure.add_subplot(rows, COLUMNS, number), panel, lines, unit)
    return figure


def _known(table: dict[str, list[float]], name: str) -> bool:
    return bool(np.isfinite(table.get(name, [])).any())


def _lines(panel: Panel, tables: list[dict[str, list[float]]], radius: int) -> dict[str, tuple[Array, Array]]:
    """Label -> steps and values, of the metrics that the run has."""
    within = "100 units" if radius == 100 else "1 cell"
    found = {}
    for name, label in panel.lines.items():
        for table in tables:
            if _known(table, column := name.format(radius)):
                values = np.array(table[column])
                known = np.isfinite(values)
                found[label.format(within)] = np.array(table["env_steps"])[known], values[known]
    return found


def _draw(axes: Axes, panel: Panel, lines: dict[str, tuple[Array, Array]], unit: str) -> None:
    share = panel.unit.startswith("%")
    for (colour, marker), (label, (steps, values)) in zip(LOOKS[: len(lines)], lines.items(), strict=True):
        few = marker if len(steps) <= 40 else None
        axes.plot(steps, 100 * values if share else values, color=colour, marker=few, markersize=4, label=label)
    axes.set_title(panel.title, fontsize=11)
    axes.set_ylabel(panel.unit.format(unit), fontsize=9)
    axes.set_xlabel("environment steps", fontsize=9)
    axes.set_xlim(left=0)
    top = max(values.max() for _, values in lines.values()) or 1.0
    axes.set_ylim(-3 if share else 0, 103 if share else 1.1 * top)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
    axes.tick_params(labelsize=8)
    axes.grid(color="#E5E5E5", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if len(lines) > 1:
        # Below the axes: inside them there is no place that curves of every run leave free.
        axes.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(-0.05, -0.2), borderaxespad=0.0)
