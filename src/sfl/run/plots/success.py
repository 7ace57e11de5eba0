"""Success over environment steps, with its standard error over seeds."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfl.data.types import Array
from sfl.run.chance import share_of, split_off
from sfl.run.evaluate import EpisodeRow
from sfl.run.plots.marks import BLUE, GREEN, ORANGE
from sfl.run.plots.style import COLUMN, SCREEN, Plate, Style

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
