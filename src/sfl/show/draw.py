"""Figures of runs; the only room that knows matplotlib, whose global state is left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sfl.errors import UsageError
from sfl.run.chance import read_random
from sfl.run.folder import LoadedRun, RunFolder, load_run, own_episodes, read_config
from sfl.run.log import note
from sfl.run.report import finding_lines, summarise_runs
from sfl.show.curves import indicators_figure, success_figure
from sfl.show.grids import map_figures
from sfl.show.maps import Site
from sfl.show.mazes import coverage_figure, doom_figures, maze_site
from sfl.show.style import PAPER, SCREEN, Form, Plate, Style, save_plates, save_png


def draw(runs: Sequence[Path | str]) -> list[Path]:
    """Draw all figures of the runs as PNG and return their files.

    Maps go into each run's folder `figures`. The success curve of a single run goes there too; that of several runs,
    with its error over seeds, into the folder `figures` beside the first.
    """
    paths = _checked(runs)
    success, findings = _success(paths, SCREEN)  # first: what cannot be read is refused before anything is written
    files = []
    for path in paths:
        run = load_run(path, device="cpu")
        figures = {name: plate.figure for name, plate in _run_plates(run, SCREEN).items()}
        if (indicators := indicators_figure(run)) is not None:
            figures["indicators"] = indicators
        files += [save_png(figure, run.folder.figures / f"{name}.png") for name, figure in figures.items()]
    files += [save_png(plate.figure, _shared(paths) / f"{name}.png") for name, plate in success.items()]
    _say(findings)
    return files


def draw_paper(runs: Sequence[Path | str], form: Form = "pdf") -> list[Path]:
    """Draw the paper's figures of the runs for a manuscript, with captions, and return their files.

    Those of one run go into its folder `figures/paper`; those that show several runs beside each other (success, and
    the coverage of runs in one maze) into the folder `figures/paper` beside the first.
    """
    paths = _checked(runs)
    success, findings = _success(paths, PAPER)
    files, sites = [], []
    for path in paths:
        run = load_run(path, device="cpu")
        plates = _run_plates(run, PAPER)
        if len(paths) == 1:
            plates |= success
        files += save_plates(plates, run.folder.figures / "paper", form)
        if (site := maze_site(run, PAPER)) is not None and len(run.poses):
            sites.append(site)
    if len(paths) > 1:
        files += save_plates(_coverage(sites) | success, _shared(paths) / "paper", form)
    _say(findings)
    return files


def _say(findings: Sequence[str]) -> None:
    """Last, so that an error stands alone."""
    for line in findings:
        note(line)


def _checked(runs: Iterable[Path | str]) -> list[Path]:
    """Each path once. The same seed drawn twice would look like twice the evidence."""
    paths = list(dict.fromkeys(Path(run) for run in runs))
    seen: set[tuple[str, int]] = set()
    for path in paths:
        experiment, seed = read_config(path)
        if (experiment.name, seed) in seen:
            raise UsageError(f"Seed {seed} of {experiment.name} is given twice; name each run once.")
        seen.add((experiment.name, seed))
    return paths


def _shared(paths: Sequence[Path]) -> Path:
    """The folder of what shows all runs together."""
    return RunFolder(paths[0] if len(paths) == 1 else paths[0].parent).figures


def _run_plates(run: LoadedRun, style: Style) -> dict[str, Plate]:
    site = maze_site(run, style)
    return map_figures(run, style) if site is None else doom_figures(site)


def _coverage(sites: Sequence[Site]) -> dict[str, Plate]:
    mazes = sorted({site.world.maze for site in sites})
    if len(mazes) > 1:
        note(f"coverage of all runs beside each other: not drawn, because they are in {', '.join(mazes)}.")
    return {"coverage": coverage_figure(sites)} if len(sites) > 1 and len(mazes) == 1 else {}


def _success(paths: Sequence[Path], style: Style) -> tuple[dict[str, Plate], list[str]]:
    """The figure of success, if anything was evaluated, and the findings that stand in it."""
    evaluated = {path: own_episodes(RunFolder(path)) for path in paths}
    rows = [row for path, own in evaluated.items() if own for row in (*own, *read_random(path))]
    if not rows:
        note("success: not drawn, because nothing has been evaluated yet.")
        return {}, []
    findings = finding_lines(summarise_runs(evaluated))
    return {"success": success_figure(rows, style, findings)}, findings
