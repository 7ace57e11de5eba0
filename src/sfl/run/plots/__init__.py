"""Figures of runs as PNG files; the only room that knows matplotlib, and never its global state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfl.core.errors import UsageError
from sfl.envs import DoomConfig
from sfl.run.folder import LoadedRun, RunFolder, load_run, read_config, read_episodes
from sfl.run.plots.doom import doom_figures
from sfl.run.plots.indicators import indicators_figure
from sfl.run.plots.maps import map_figures
from sfl.run.plots.marks import DPI
from sfl.run.plots.success import success_figure
from sfl.run.progress import note
from sfl.run.scene import SimilarityPolicy, frozen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(runs: Sequence[Path | str]) -> list[Path]:
    """Draw all figures of the runs and return their files.

    Maps go into each run's folder `figures`. The success curve of a single run goes there too; that of several runs,
    with its error over seeds, into the folder `figures` beside the first.
    """
    paths = list(dict.fromkeys(Path(run) for run in runs))
    _refuse_twins(paths)
    files = [file for path in paths for file in _draw_maps(load_run(path, device="cpu"))]
    return files + _draw_success(paths)


def _refuse_twins(paths: Iterable[Path]) -> None:
    """The same seed drawn twice would look like twice the evidence."""
    seen: set[tuple[str, int]] = set()
    for path in paths:
        experiment, seed = read_config(path)
        if (experiment.name, seed) in seen:
            raise UsageError(f"Seed {seed} of {experiment.name} is given twice; name each run once.")
        seen.add((experiment.name, seed))


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, bbox_inches="tight", facecolor="white")
    return path


def _draw_maps(run: LoadedRun) -> list[Path]:
    figures = _maps(run)
    if (indicators := indicators_figure(run)) is not None:
        figures["indicators"] = indicators
    return [_save(figure, run.folder.figures / f"{name}.png") for name, figure in figures.items()]


def _maps(run: LoadedRun) -> dict[str, Figure]:
    if isinstance(run.experiment.env, DoomConfig):
        return doom_figures(run, run.experiment.env)
    policy = frozen(run)
    if not isinstance(policy, SimilarityPolicy):
        note(f"{run.folder.path}: no maps, because its policy knows no landmarks.")
        return {}
    if not len(run.graph["visits"]):
        note(f"{run.folder.path}: no maps, because it has no landmarks yet; train it for longer.")
        return {}
    return map_figures(run, policy)


def _draw_success(paths: Sequence[Path]) -> list[Path]:
    rows = [row for path in paths if RunFolder(path).episodes.is_file() for row in read_episodes(path / "episodes.csv")]
    if not rows:
        note("success: not drawn, because nothing has been evaluated yet.")
        return []
    folder = RunFolder(paths[0] if len(paths) == 1 else paths[0].parent).figures
    return [_save(success_figure(rows), folder / "success.png")]
