"""Imports, made once: whatever modules commands load is loaded here before the first case."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.siege import names
from benchmarks.siege.base import PLENTY
from benchmarks.siege.case import Room
from benchmarks.siege.forked import call, copy_run

LIBRARIES = (
    "torch",
    "scipy.sparse.csgraph",
    "gymnasium",
    "minigrid",
    "tyro",
    "rich",
    "PIL.Image",
    "tensorboardX",
    "sfl.cli",
)
SAMPLES: dict[str, Sequence[Sequence[str]]] = {
    "": [["maze", "build", "small", "--out", "a.wad"], ["train", names.GRID, "--help"], ["encoder", "eval", "nowhere"]],
    "grid-slim": [["report", "{}"], ["eval", "{}", "--episodes", "1"], ["studio", "{}", "--export", "page.html"]],
    "random": [["plot", "{}"]],
    "maze-slim": [["eval", "{}", "--goal", "0,0"]],
}
"""Commands that load what others need, by the run that they look at."""


def load_libraries() -> None:
    """What most commands begin with."""
    for name in LIBRARIES:
        importlib.import_module(name)


def load(room: Room) -> int:
    """Run the samples in forked children, and import here what they have imported; how many modules there are."""
    for run, commands in SAMPLES.items():
        if run and not (room.base / run).exists():
            continue
        if run:
            copy_run(room, run)
        for words in commands:
            _learn([run if word == "{}" else word for word in words], room)
    tasks = len(os.listdir("/proc/self/task"))
    if tasks > 1 or threading.active_count() > 1:
        print(f"note: {tasks} threads run in the process that forks", file=sys.stderr)
    return len(sys.modules)


def _learn(words: Sequence[str], room: Room) -> None:
    note = room.path / "modules.json"

    def action() -> int:
        from sfl.cli import main

        code = main(words)
        own = [name for name, module in sys.modules.items() if getattr(module, "__spec__", None) is not None]
        note.write_text(json.dumps(own), encoding="utf-8")
        return code

    note.unlink(missing_ok=True)
    call(action, room, PLENTY)
    if note.exists():
        _import(json.loads(note.read_text(encoding="utf-8")))


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        if name in sys.modules or name.startswith(("__", "benchmarks")):
            continue
        try:
            importlib.import_module(name)
        except (ImportError, AttributeError):  # a module that others make, not a file
            continue


def quiet_environment(scratch: Path) -> dict[str, str]:
    """The environment of every command: one thread, no colours, caches that do not count as left behind."""
    kept = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SFL_MAZES") if name in os.environ
    }
    return kept | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(scratch / "matplotlib"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "torch"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "CUDA_VISIBLE_DEVICES": "",  # its driver keeps a cache in the home folder
    }
