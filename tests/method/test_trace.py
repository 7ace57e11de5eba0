"""How much of the code one decision of training goes through: what a reader opens to follow it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sfl
from sfl.api import Step
from sfl.experiments import get, tiny
from sfl.run.settings import Experiment
from sfl.run.train import TrainingRun

HOME = Path(sfl.__file__).parent
INNER = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
RARE = ("begin_episode", "_form_edges", "refresh", "admit")
"""Functions that are not part of every decision: episodes begin, landmarks and edges are due."""


@dataclass
class Trace:
    """Calls of this package's functions."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    """File and name."""
    crossings: int = 0
    """Calls from one room into another: folders of the package, and what lies beside them."""

    @property
    def files(self) -> set[str]:
        """All that a reader opens."""
        return {file for file, _ in self.functions}

    @property
    def rooms(self) -> set[str]:
        """The folders of these; what lies beside the folders is in none."""
        return {_room(file) for file in self.files if "/" in file}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function."""
        here = _place(frame.f_code)
        if event != "call" or here is None or frame.f_code.co_name in INNER:
            return
        self.functions.add((here, frame.f_code.co_qualname))
        caller = frame.f_back
        while caller is not None and _place(caller.f_code) is None:
            caller = caller.f_back
        above = None if caller is None else _place(caller.f_code)
        self.crossings += above is not None and _room(above) != _room(here)


def _place(code: CodeType) -> str | None:
    """The file inside the package; None: another library's."""
    path = Path(code.co_filename)
    return str(path.relative_to(HOME)) if path.is_relative_to(HOME) else None


def _room(file: str) -> str:
    return file.split("/", maxsplit=1)[0] if "/" in file else "."


def decisions(run: TrainingRun, warm: int, count: int) -> Iterator[tuple[Trace, Step]]:
    """Traces of decisions after so many environment steps, with what each learned."""
    steps, done = run.steps(), 0
    while done < warm:
        done += len(next(steps).transitions.actions)
    for _ in range(count):
        trace = Trace()
        sys.setprofile(trace.note)
        try:
            step = next(steps)
        finally:
            sys.setprofile(None)
        yield trace, step


def on_a_grid() -> Experiment:
    """Ours on FourRoom, with gradient steps of phi and psi in every decision."""
    small = tiny(get("fourroom-sfl"))
    agent: Any = small.agent
    features, successor = (replace(part, updates_per_step=1 / 8) for part in (agent.features, agent.successor))
    return replace(small, agent=replace(agent, features=features, successor=successor))


def test_a_decision_with_gradient_steps_of_phi_and_psi_stays_in_few_files() -> None:
    learns, limits = ("train/sf_loss", "train/encoder_loss"), (24, 6, 135, 50)
    run = TrainingRun(on_a_grid(), 0, "cpu")
    try:
        traces = [
            trace
            for trace, step in decisions(run, warm=480, count=12)
            if all(name in (step.metrics or {}) for name in learns)
            and not any(name.rpartition(".")[2] in RARE for _, name in trace.functions)
        ]
    finally:
        run.session.close()
    assert traces  # or nothing was tested
    for trace in traces:
        found = len(trace.files), len(trace.rooms), len(trace.functions), trace.crossings
        assert all(a <= b for a, b in zip(found, limits, strict=True)), (found, sorted(trace.files))
