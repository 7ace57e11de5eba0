"""How encoders and networks learned: loss and accuracy over gradient steps."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sfl.core.config import require
from sfl.core.errors import FileError, UsageError
from sfl.core.files import read_text
from sfl.data.types import Array
from sfl.envs.mazes.files import check_free
from sfl.run.plots.saving import save_png
from sfl.run.plots.success import CURVES

COLUMNS = ("step", "loss", "accuracy")
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
        rows = [[float(row[name]) for name in COLUMNS] for row in reader]
    except OSError as error:
        raise UsageError(f"Cannot read a loss curve from {file}: {error.strerror}; {make}.") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FileError(f"{file} is no loss curve, with the columns {', '.join(COLUMNS)}; {make}.") from error
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
            _draw_curve(axes, curve[0], scale * curve[row], name, CURVES[place % len(CURVES)])
        axes.set_xlabel("gradient steps", fontsize=11)
        axes.set_ylabel(title, fontsize=11)
        axes.set_xlim(left=0)
        axes.grid(color="#E5E5E5", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_curve(axes: Axes, steps: Array, values: Array, name: str, colour: str) -> None:
    axes.plot(steps, values, color=colour, linewidth=0.8, alpha=0.3)
    axes.plot(steps, running_mean(values), color=colour, linewidth=2, label=name)


def running_mean(values: Array, window: int = WINDOW) -> Array:
    """Of each value and those up to half a window to either side, as far as there are any."""
    sums, places = np.append(0.0, np.cumsum(values)), np.arange(len(values))
    first, last = np.maximum(places - window // 2, 0), np.minimum(places + window // 2 + 1, len(values))
    return np.asarray((sums[last] - sums[first]) / (last - first))
