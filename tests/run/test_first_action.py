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


def test_the_first_action_is_few_calls_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def act(*words: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not main.__code__:
            name = Path(frame.f_code.co_filename)
            if "sfl" in name.parts:
                calls.append(f"{name.parent.name}/{name.stem}: {frame.f_code.co_name}")
            frame = frame.f_back
        raise FirstActionError

    monkeypatch.setattr(RandomAgent, "act", act)
    with pytest.raises(FirstActionError):
        main(["train", "fourroom-random", "--tiny", "--device", "cpu", "--runs-dir", str(tmp_path)])
    assert calls[:2] == ["run/rollout: rollout", "run/train: train"]
    assert len(calls) <= 6  # and `act` itself; of these two are this room's, the others the command line's
