"""One thread, no screen, and the same examples every time: a failure on one machine is a failure on all.

And one small trained run for all tests that only look at one.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts `make test &` so, and commands would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # likewise `nohup make test`
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest
from hypothesis import settings

from sfl import experiments
from sfl.method.config import SFLConfig
from sfl.run.train import train

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FourRoom in seconds; landmarks recognise their surroundings, so that even so short a run has edges."""
    experiment = experiments.tiny(experiments.get("fourroom-sfl"))
    agent = experiment.agent
    assert isinstance(agent, SFLConfig)
    landmarks = replace(agent.landmarks, localize_threshold=0.5, add_threshold=0.999)
    experiment = replace(experiment, agent=replace(agent, landmarks=landmarks))
    return train(experiment, 0, tmp_path_factory.mktemp("runs"), "cpu").path


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Python does not look for objects that refer to themselves: what is let go either goes at once or stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
