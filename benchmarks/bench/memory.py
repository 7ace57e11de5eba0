"""Resident memory, measured in processes of their own."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from benchmarks.bench.rows import Row, Sizes, row

from sfl.run.machine import resident_megabytes
from sfl.run.settings import Experiment
from sfl.run.train import train


def in_fresh_process(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function of this package, called where nothing else was loaded."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def measure_training_memory(experiment: Experiment, sizes: Sizes) -> list[Row]:
    """The highest memory of a short but whole run: training, evaluation, checkpoints."""
    settings = replace(experiment.train, steps=sizes.memory_steps, eval_every=0)
    short = replace(experiment, train=settings, eval=replace(experiment.eval, episodes=experiment.eval.parallel))
    megabytes = in_fresh_process(_train_and_weigh, short)
    return [row("memory", f"{experiment.name}: highest of a run", megabytes, "MB", at_most=1000)]


def _train_and_weigh(experiment: Experiment) -> float:
    with tempfile.TemporaryDirectory() as folder:
        train(experiment, 0, folder, "cpu")
    return resident_megabytes("VmHWM")
