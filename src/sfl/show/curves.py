"""Success over environment steps, with its standard error over seeds."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfl.api import Array
from sfl.config import require
from sfl.errors import FileError, UsageError
from sfl.files import read_text
from sfl.run.chance import share_of, split_off
from sfl.run.evaluate import EpisodeRow
from sfl.run.folder import LoadedRun
from sfl.run.log import read_columns
from sfl.show.maps import BLUE, DARK, GREEN, ORANGE, headline
from sfl.show.style import COLUMN, SCREEN, Plate, Style, save_png
from sfl.worlds.mazes.load import check_free

CURVES = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#333333")
LEVEL_NAMES = {"paper": "the paper's start and goal", "any": "any start and goal"}


@dataclass(frozen=True)
class Curve:
    """Success of one experiment on one level."""

    steps: Array  # [T]
    percent: Array  # [T] mean over seeds
    error: Array  # [T] standard error over seeds; 0 with a single one
    seeds: int


def success_curve(rows: Sequence[EpisodeRow]) -> Curve:
    """Mean and standard error over seeds, at the steps at which every seed was evaluated (else at all steps)."""
    seeds = {seed: [row for row in rows if row.seed == seed] for seed in {row.seed for row in rows}}
    evaluated = [{row.env_steps for row in own} for own in seeds.values()]
    steps = sorted(set.intersection(*evaluated) or set.union(*evaluated))
    percents = [[_percent(own, step) for own in seeds.values()] for step in steps]
    shares = [np.array([value for value in row if value is not None]) for row in percents]
    errors = [share.std(ddof=1) / np.sqrt(len(share)) if len(share) > 1 else 0.0 for share in shares]
    return Curve(np.array(steps), np.array([share.mean() for share in shares]), np.array(errors), len(seeds))


def _percent(rows: Sequence[EpisodeRow], step: int) -> float | None:
    chosen = [row.success for row in rows if row.env_steps == step]
    return 100 * sum(chosen) / len(chosen) if chosen else None


def success_figure(rows: Sequence[EpisodeRow], style: Style, warnings: Sequence[str] = ()) -> Plate:
    """A panel for each level, a curve for each experiment, and a thin line where the random policy stands beside it.

    `warnings` is what must be said of the runs: above the panels on the screen, in the caption of a manuscript.
    """
    rows, beside = split_off(rows)
    levels, experiments = (list(dict.fromkeys(getattr(r, name) for r in rows)) for name in ("level", "experiment"))
    names = [LEVEL_NAMES.get(level, level) for level in levels]
    width = style.width(len(levels), 4.6 * len(levels) + 0.6)
    figure = Figure((width, 3.9 if style.titled else 1.5 + 0.75 / len(levels)), layout="constrained")
    for number, (level, name) in enumerate(zip(levels, names, strict=True), 1):
        axes = figure.add_subplot(1, len(levels), number)
        for place, experiment in enumerate(experiments):
            own = [row for row in rows if (row.level, row.experiment) == (level, experiment)]
            if own:
                _draw_curve(axes, success_curve(own), experiment, CURVES[place % len(CURVES)], style)
        _draw_random(axes, [row for row in beside if row.level == level], style)
        axes.set_title(name, fontsize=style.font(12))
        _draw_axes(axes, style, until=max(row.env_steps for row in rows if row.level == level))
        axes.set_ylabel("success (%)" if style.titled or number == 1 else "", fontsize=style.font(11))
    drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
    named = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
    columns = 3 if width > COLUMN else 1
    look: dict[str, Any] = {"fontsize": style.font(10), "title_fontsize": style.font(10), "ncols": columns}
    title = "mean over seeds, band: standard error" if style.titled else None
    figure.legend(named.values(), named.keys(), loc="outside lower center", title=title, frameon=False, **look)
    tasks = sorted({row.env for row in rows} | {f"maze {row.maze}" for row in rows if row.maze})
    about = (
        f"Success in evaluation over environment steps in {', '.join(tasks)}, on {', '.join(names)}: the mean over "
        "seeds, the band its standard error; a dashed line is a policy that was evaluated once."
        + (" The thin line is the random policy on the same tasks." if beside else "")
        + "".join(f" {line}." for line in warnings)
    )
    if warnings and style.titled:
        text = "\n".join(textwrap.fill(line, int(15 * width), break_on_hyphens=False) for line in warnings)
        figure.suptitle(text, fontsize=style.font(9), color=ORANGE, x=0.01, ha="left")
    return Plate(figure, about, source="; ".join(_about_experiment(rows, name) for name in experiments))


def _draw_random(axes: Axes, rows: Sequence[EpisodeRow], style: Style) -> None:
    share = share_of(rows)
    if share is None:
        return
    axes.axhline(share.percent, color="#777777", linewidth=style.size(1), linestyle=":", zorder=1)
    look: dict[str, Any] = {"fontsize": style.font(9), "color": "#555555", "ha": "right"}
    look["va"] = "bottom" if share.percent < 50 else "top"  # inside the panel
    axes.text(0.99, share.percent, f"random {share.percent:.0f}%", transform=axes.get_yaxis_transform(), **look)


def _about_experiment(rows: Sequence[EpisodeRow], experiment: str) -> str:
    own = [row for row in rows if row.experiment == experiment]
    seeds = ", ".join(map(str, sorted({row.seed for row in own})))
    return f"{experiment}, seed {seeds}, {max(row.env_steps for row in own):,} steps"


def _draw_axes(axes: Axes, style: Style, until: int) -> None:
    axes.set_xlabel("environment steps", fontsize=style.font(11))
    axes.set_ylim(-3, 103)
    if axes.collections:
        axes.set_xlim(left=0)
    else:  # no curve, but levels alone: they say nothing of where the axis ends
        axes.set_xlim(0, until)
    axes.xaxis.set_major_formatter(lambda value, _: steps_text(value))
    axes.tick_params(labelsize=style.font(10), width=style.size(0.8), length=style.size(3.5))
    axes.grid(color="#E5E5E5", linewidth=style.size(0.8))
    axes.spines[["top", "right"]].set_visible(False)


def steps_text(steps: float) -> str:
    """A number of steps on an axis."""
    if steps >= 1_000_000:
        return f"{steps / 1_000_000:g}M"
    return f"{steps / 1_000:g}k" if steps else "0"


def success_svg(rows: Sequence[EpisodeRow]) -> str:
    """The same figure as the text of an SVG file."""
    text = io.StringIO()
    figure = success_figure(rows, SCREEN).figure
    figure.savefig(text, format="svg", bbox_inches="tight", facecolor="white", metadata={"Date": None})
    return text.getvalue()


def _draw_curve(axes: Axes, curve: Curve, name: str, colour: str, style: Style) -> None:
    label = f"{name} ({curve.seeds} seed{'s' if curve.seeds > 1 else ''})"
    look: dict[str, Any] = {"color": colour, "linewidth": style.size(2), "label": label}
    if len(curve.steps) == 1:  # a policy that does not learn: a level to compare with
        axes.axhline(curve.percent[0], linestyle="--", **look)
        return
    axes.plot(curve.steps, curve.percent, marker="o", markersize=style.size(4), **look)
    low, high = curve.percent - curve.error, curve.percent + curve.error
    axes.fill_between(curve.steps, np.maximum(low, 0), np.minimum(high, 100), color=colour, alpha=0.2, linewidth=0)


# ---- The leading indicators of a run over its environment steps.

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


# ---- How encoders and networks learned: loss and accuracy over gradient steps.

LEARNING_COLUMNS = ("step", "loss", "accuracy")
WINDOW = 25
"""Rows of the running mean; a row is itself the mean of 20 steps."""


def draw_learning(files: Sequence[Path], out: Path, force: bool = False) -> None:
    """Draw loss curves into a .png file."""
    require(out.suffix == ".png", f"--out must name a .png file, got {out}.")
    check_free(out, force)
    curves = {file.stem: read_curve(file) for file in files}
    require(len(curves) == len(files), "Two of the curves have the same name; give each file another.")
    save_png(learning_figure(curves), out)


def read_curve(file: Path) -> Array:
    """[3, N] steps, losses and accuracies."""
    make = "`sfl network train` and `sfl encoder train` write such files"
    try:
        reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
        rows = [[float(row[name]) for name in LEARNING_COLUMNS] for row in reader]
    except OSError as error:
        raise UsageError(f"Cannot read a loss curve from {file}: {error.strerror}; {make}.") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FileError(f"{file} is no loss curve, with the columns {', '.join(LEARNING_COLUMNS)}; {make}.") from error
    require(bool(rows), f"{file} holds no rows; {make}.")
    whole = bool(np.isfinite(rows).all()) and np.abs(rows).max() < 1e15
    require(whole, f"{file} holds numbers that are no losses of any training; {make}.")
    return np.array(rows).T


def learning_figure(curves: dict[str, Array]) -> Figure:
    """Two panels, a colour for each curve [3, N]: pale as measured, and its running mean."""
    figure = Figure((9.6, 3.6), layout="constrained")
    for number, (title, row) in enumerate((("loss", 1), ("accuracy (%)", 2)), 1):
        axes = figure.add_subplot(1, 2, number)
        for place, (name, curve) in enumerate(curves.items()):
            scale = 100 if row == 2 else 1
            _draw_learning_curve(axes, curve[0], scale * curve[row], name, CURVES[place % len(CURVES)])
        axes.set_xlabel("gradient steps", fontsize=11)
        axes.set_ylabel(title, fontsize=11)
        axes.set_xlim(left=0)
        axes.grid(color="#E5E5E5", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_learning_curve(axes: Axes, steps: Array, values: Array, name: str, colour: str) -> None:
    axes.plot(steps, values, color=colour, linewidth=0.8, alpha=0.3)
    axes.plot(steps, running_mean(values), color=colour, linewidth=2, label=name)


def running_mean(values: Array, window: int = WINDOW) -> Array:
    """Of each value and those up to half a window to either side, as far as there are any."""
    sums, places = np.append(0.0, np.cumsum(values)), np.arange(len(values))
    first, last = np.maximum(places - window // 2, 0), np.minimum(places + window // 2 + 1, len(values))
    return np.asarray((sums[last] - sums[first]) / (last - first))
