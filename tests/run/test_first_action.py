"""How far a reader goes from the command to the first action: the calls of ours that are then under way."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from sfl.baselines.random import RandomAgent
from sfl.cli import main


class FirstActionError(Exception):
    """Ends the run at its first action."""


def test_the_first_action_is_at_most_five_calls_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = ["act"]

    def act(*words: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not main.__code__:
            module = frame.f_globals["__name__"]
            if module.partition(".")[0] == "sfl":
                calls.append(f"{module}.{frame.f_code.co_name}")
            frame = frame.f_back
        raise FirstActionError

    monkeypatch.setattr(RandomAgent, "act", act)
    with pytest.raises(FirstActionError):
        main(["train", "fourroom-random", "--tiny", "--device", "cpu", "--runs-dir", str(tmp_path)])
    assert calls[1:3] == ["sfl.run.rollout.rollout", "sfl.run.train.train"]
    assert len(calls) <= 5, calls
