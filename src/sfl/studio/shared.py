"""What all answers share: the runs, their worlds, and agents that are loaded."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sfl.run.folder import LoadedRun, load_run
from sfl.studio.answers import Document
from sfl.studio.fields import Fields
from sfl.studio.graph import Graphs
from sfl.studio.places import Atlas, Recent
from sfl.studio.runs import Run, Shelf, fingerprint, settled

LOADED = 3
"""Agents that are kept in memory."""

DEMO = Path(__file__).parent / "demo"


class Studio:
    """Everything behind the page. Its methods may be called from any thread."""

    def __init__(self, paths: Sequence[Path | str], device: str = "cpu", demo: bool = False) -> None:
        # What is worked out about the demo's runs is not kept: they lie in the installed package.
        self.shelf, self.device, self.demo = Shelf([DEMO, *paths] if demo else paths, keeps=not demo), device, demo
        self.atlas = Atlas()
        self.graphs = Graphs(self.atlas)
        self.fields = Fields(self.atlas, self.load_marked)
        self.closers: list[Callable[[], None]] = []
        """Called when the server ends, before anything else is closed."""
        self.mark = secrets.token_hex(8)
        """Another one for each start: a page that finds another server than it left knows by it."""
        self._loaded = Recent(LOADED)
        self._loader = ThreadPoolExecutor(1, "loader")

    @property
    def run_ids(self) -> list[str]:
        """In their order."""
        return [run.id for run in self.shelf.runs]

    def load(self, run_id: str, checkpoint: str) -> LoadedRun:
        """The agent of a checkpoint; it is shared, so only frozen copies of it may act (`scene.frozen`)."""
        return self.load_marked(self.shelf.run(run_id), checkpoint)[0]

    def load_marked(self, run: Run, checkpoint: str) -> tuple[LoadedRun, str]:
        """The same, and the fingerprint of the checkpoint. One is loaded at a time, however many ask."""
        return self._loader.submit(self._load, run, checkpoint).result()

    def _load(self, run: Run, checkpoint: str) -> tuple[LoadedRun, str]:
        folder = run.checkpoint(checkpoint)
        key = (run.id, checkpoint, fingerprint(folder))
        known: tuple[LoadedRun, str] | None = self._loaded.peek(key)
        if known is not None:
            return known
        loaded, mark = settled(
            folder, lambda: load_run(run.folder.path, checkpoint, self.device, threads=1, learning=False)
        )
        # A run has one agent and spares itself looking for garbage; here agents come and go.
        gc.unfreeze()
        gc.collect()
        return self._loaded.get((run.id, checkpoint, mark), lambda: (loaded, mark))

    def runs(self, version: str, token_needed: bool) -> Document:
        """The list of runs, with those that were begun meanwhile."""
        self.shelf.look_again()
        about = {"demo": self.demo, "token_needed": token_needed, "version": version, "server": self.mark}
        return {"runs": [run.summary() for run in self.shelf.runs], **about}

    def end_episodes(self) -> None:
        """None is under way any more, and none begins."""
        for close in self.closers:
            close()

    def close(self) -> None:
        """End games and threads."""
        self.end_episodes()
        self.fields.close()
        self._loader.shutdown(wait=True, cancel_futures=True)
        self.atlas.close()
