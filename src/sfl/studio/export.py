"""`sfl studio RUN --export FILE`: the recorded parts of runs in one HTML file that opens from disk.

It holds what the page would ask the server for, under the same addresses: maps, graphs of several checkpoints,
fields of the last one, pictures of landmarks, curves, settings and a few episodes.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from sfl.errors import SflError, UsageError
from sfl.files import require_replaceable, write_bytes
from sfl.run.folder import LAST
from sfl.run.log import note
from sfl.run.machine import resolve, sfl_version
from sfl.studio.answers import Document, numbers
from sfl.studio.bundle import one_file
from sfl.studio.curves import curves, settings
from sfl.studio.fields import Table, about
from sfl.studio.live import record
from sfl.studio.runs import Run
from sfl.studio.shared import Studio
from sfl.worlds import Task

CHECKPOINTS = 8
"""Checkpoints of a run in an export, spread over its history; the last one always."""

EPISODES, PLAYERS = 3, 4
"""Episodes of a world, one for each of its first levels, and agents in each of them."""

PICTURES = 600
"""Landmarks of a run whose pictures are kept; of more, as many spread over all."""

PICTURE = (120, 90)
"""Pixels of such a picture at most."""


def export(paths: Sequence[Path | str], file: Path, device: str = "cpu", demo: bool = False) -> str:
    """Write the page of these runs into a file, whole or not at all; a line that says so."""
    if file.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--export writes a page, got {file}; give a name that ends in .html.")
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise UsageError(f"--export cannot write {file}; give the name of a file in a folder that exists.")
    require_replaceable(file)
    studio = Studio(paths, resolve(device), demo)
    try:
        page = one_file(documents(studio)).encode()
    finally:
        studio.close()
    write_bytes(file, page)
    return f"{file} ({len(page) / 1e6:.1f} MB)"


def documents(studio: Studio) -> Document:
    """Everything the page may ask for, by address; what cannot be had of a run is left out with a note."""
    runs = [run for run in studio.shelf.runs if run.checkpoints()]
    if not runs:
        raise UsageError("None of these runs has a checkpoint yet; export one when it has.")
    found: Document = {"fields": {}, "pictures": {}}
    lines = []
    for run in runs:
        note(f"{run.title}: map, graphs, pictures, fields")
        line = run.summary()
        line["checkpoints"] = spread(line["checkpoints"], CHECKPOINTS)
        lines.append(line)
        for place, key, make in parts(studio, run, line):
            try:
                (found[place] if place else found)[key] = make()
            except (SflError, OSError) as error:
                note(f"left out: {place or key} of {run.title}: {error}")
    found["/api/runs"] = {"runs": lines, "demo": studio.demo, "token_needed": False, "version": sfl_version()}
    found["/api/curves"], found["/api/config"] = curves(runs), settings(runs)
    found["episodes"] = episodes(studio, runs)
    return found


def parts(studio: Studio, run: Run, line: Document) -> Iterator[tuple[str, str, Callable[[], Document]]]:
    """Of one run: under which heading (none: at the top), under which key, and how it is made."""
    yield "", f"/api/runs/{run.id}/map", partial(studio.atlas.map, run)
    if line["has_graph"]:
        for kept in line["checkpoints"]:
            name = kept["name"]
            yield "", f"/api/runs/{run.id}/graph?checkpoint={name}", partial(studio.graphs.document, run, name)
        yield "pictures", run.id, partial(pictures, studio, run)
    if line["has_field"]:
        yield "fields", run.id, partial(field, studio, run)


def episodes(studio: Studio, runs: Sequence[Run]) -> list[Document]:
    """A few tasks of each world, each with one agent of every experiment there side by side."""
    worlds: dict[str, dict[str, Run]] = {}
    for run in runs:
        worlds.setdefault(run.facts.world_key, {}).setdefault(run.facts.experiment.name, run)
    found = []
    for rivals in worlds.values():
        players = list(rivals.values())[:PLAYERS]
        note(f"{', '.join(run.title for run in players)}: episodes")
        try:
            loaded = [studio.load(run.id, LAST) for run in players]
            told = [{"run": run.id, "checkpoint": LAST, "title": run.title} for run in players]
            near = studio.atlas.map(players[0]).get("success_radius", 0.0)
            levels = loaded[0].experiment.eval.levels[:EPISODES]
            tasks = [first_walk(loaded[0].tasks(level), near) for level in levels]
            found += [
                {"title": f"{task.level}, task {task.pair + 1}", "players": told, "events": record(loaded, task)}
                for task in tasks
            ]
        except (SflError, OSError) as error:
            note(f"left out: episodes: {error}")
    return found


def first_walk(tasks: Sequence[Task], near: float) -> Task:
    """The first task whose start is not at its goal already: an episode of no steps shows nothing."""

    def far(task: Task) -> bool:
        start, goal = task.start, task.goal
        if not (isinstance(start, tuple) and isinstance(goal, tuple)):
            return True  # nobody knows
        return bool(np.hypot(start[0] - goal[0], start[1] - goal[1]) > near)

    return next(filter(far, tasks), tasks[0])


def spread(items: Sequence[Document], most: int) -> list[Document]:
    """At most so many, spread evenly; the first and the last among them."""
    places = np.unique(np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int))
    return [items[place] for place in places.tolist()]


def field(studio: Studio, run: Run) -> Document:
    """The fields of a run's last checkpoint from every view."""
    table = _made(studio, run)
    return {LAST: {"score": studio.fields.status(run, LAST)["score"], **about(table), **packed(table)}}


def _made(studio: Studio, run: Run) -> Table:
    """The table of a run's last checkpoint, which is made first where it is not there."""
    status = studio.fields.start(run, LAST)
    while status["state"] == "making":
        time.sleep(0.1)
        status = studio.fields.status(run, LAST)
    table = studio.fields.table(run, LAST)
    if table is None:
        raise SflError(status["reason"] or "the field was not made, because the checkpoint was replaced meanwhile")
    return table


def packed(table: Table) -> Document:
    """The scores as the page unpacks them: for each reference a byte per view, from the lowest score to the highest."""
    low, high = table.range
    shares = (np.nan_to_num(table.scores.astype(np.float32), nan=low, neginf=low, posinf=high) - low) / (high - low)
    levels = np.clip(np.round(255 * shares), 0, 255).astype(np.uint8)
    x, y, degrees = (numbers(column, 1) for column in table.poses.T)
    values = base64.b64encode(np.ascontiguousarray(levels.T).tobytes()).decode()
    return {"references": {"x": x, "y": y, "degrees": degrees}, "values": values}


def pictures(studio: Studio, run: Run) -> Document:
    """Of the last checkpoint: landmark -> what is seen there, small, as a data address."""
    poses = studio.graphs.poses(run, LAST)
    known = np.flatnonzero(np.isfinite(poses).all(1)).tolist()
    chosen = known[:: -(-len(known) // PICTURES) or 1]
    views = np.asarray(poses, np.float64)
    return {LAST: {str(landmark): small(studio.atlas.picture(run, views[landmark])) for landmark in chosen}}


def small(picture: bytes) -> str:
    """A PNG made smaller, as a data address; drawings stay PNG, views become JPEG."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.thumbnail(PICTURE, Image.Resampling.LANCZOS)
    drawn, seen = io.BytesIO(), io.BytesIO()
    image.save(drawn, "png", optimize=True)
    image.save(seen, "jpeg", quality=72)
    kind, body = min([("png", drawn.getvalue()), ("jpeg", seen.getvalue())], key=lambda option: len(option[1]))
    return f"data:image/{kind};base64,{base64.b64encode(body).decode()}"
