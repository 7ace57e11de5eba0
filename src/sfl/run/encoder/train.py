"""Training an encoder: collect walks, take gradient steps on a clock, standardise, save, evaluate, write the card."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfl.core.config import require
from sfl.core.seeding import draw_seed, spawn
from sfl.envs.mazes.files import check_free, write_whole
from sfl.learners.distillation import Distillation
from sfl.learners.moments import MomentPairs
from sfl.learners.place_contrast import PlaceContrast, PlaceDraw
from sfl.learners.reachability import Reachability, ReachabilityDraw
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import SUFFIX, load_encoder, save_encoder
from sfl.run.console import write_rows
from sfl.run.device import prepare
from sfl.run.encoder.card import card_page, make_card, scores_card
from sfl.run.encoder.config import EncoderJudgement, EncoderRecipe, LearningConfig
from sfl.run.encoder.data import Walks, collect
from sfl.run.encoder.evaluate import PlaceRow, judge_encoder
from sfl.run.encoder.recolour import recolour
from sfl.run.interrupt import StopRequest
from sfl.run.progress import note

WARM_UP = 0.05  # share of the training in which the step size rises
REPORT_EVERY = 20  # steps between two rows of the loss curve; the device is only waited for then
NOTE_EVERY = 10.0  # seconds between two lines
CALIBRATION_FRAMES = 20_000
ENCODE_AT_ONCE = 256

Draw = Callable[[np.random.Generator], MomentPairs]
Curve = list[dict[str, Any]]
Judged = tuple[Tensor, dict[str, Tensor], int]
"""Loss and metrics of a batch, and how many frames were looked at."""


def train_encoder(
    recipe: EncoderRecipe,
    out: Path,
    judgement: EncoderJudgement | None,
    device: str = "auto",
    threads: int = 1,
    force: bool = False,
) -> list[PlaceRow]:
    """Train an encoder into a file, with its loss curve (.csv) and model card (.md) beside it; returns its scores."""
    check_out(out, force, [out.with_suffix(suffix) for suffix in (".csv", ".md")])
    device = prepare(device, threads)
    teacher = None if recipe.distil is None else load_encoder(recipe.distil, device)
    started = time.monotonic()
    rngs = spawn(recipe.seed, ["init", "draw", "recolour", "calibrate"])
    walks = collect(recipe, recipe.seed, device, None if recipe.seconds is None else recipe.seconds / 2)
    encoder, objective, draw = prepare_learning(recipe, walks, teacher, rngs["init"], device)
    collected = time.monotonic() - started
    left = None if recipe.seconds is None else recipe.seconds - collected
    curve = fit(recipe, encoder, objective, draw, walks, rngs, left)
    calibrate(encoder, walks, rngs["calibrate"])
    times = {"collecting": collected, "training": time.monotonic() - started - collected}
    card = make_card(recipe, walks, curve, times, device, out)
    save_encoder(encoder, out, card)  # before the evaluation: whatever happens in that, the training is not lost
    if curve:
        write_rows(out.with_suffix(".csv"), curve)
    rows = [] if judgement is None else judge_encoder(load_encoder(str(out), device), _where(judgement, recipe))
    card |= scores_card(rows)
    save_encoder(encoder, out, card)
    write_whole(out.with_suffix(".md"), card_page(out, card, rows).encode(), force=True)
    return rows


def check_out(out: Path, force: bool, beside: Sequence[Path]) -> None:
    """Refuse a file of another kind, and to write over one or over what goes beside it."""
    require(out.suffix == SUFFIX, f"--out must name a {SUFFIX} file, got {out}.")
    for path in (out, *beside):
        check_free(path, force)


def _where(judgement: EncoderJudgement, recipe: EncoderRecipe) -> EncoderJudgement:
    """Mazes and processes as in training, unless the evaluation was told otherwise."""
    maze_dir, workers = judgement.maze_dir or recipe.maze_dir, judgement.workers or recipe.workers
    return replace(judgement, maze_dir=maze_dir, workers=workers)


def prepare_learning(
    recipe: EncoderRecipe, walks: Walks, teacher: FrameEncoder | None, rng: np.random.Generator, device: str
) -> tuple[FrameEncoder, nn.Module, Draw]:
    """A fresh encoder, what it shall learn, and what draws its batches."""
    draw: Draw
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(rng))
        encoder = FrameEncoder(recipe.kind, normalised=True)
        objective: nn.Module
        if teacher is None and recipe.objective == "reachability":
            objective = Reachability(recipe.reachability, encoder.dim)
            draw = ReachabilityDraw(recipe.reachability, walks.mazes, walks.length)
        else:
            temperature = recipe.contrast.temperature
            objective = PlaceContrast(recipe.contrast) if teacher is None else Distillation(teacher, temperature)
            draw = PlaceDraw(recipe.contrast, walks.mazes, walks.length)
    return encoder.to(device), objective.to(device), draw


def fit(
    recipe: EncoderRecipe,
    encoder: FrameEncoder,
    objective: nn.Module,
    draw: Draw,
    walks: Walks,
    rngs: dict[str, np.random.Generator],
    seconds: float | None,
) -> Curve:
    """Gradient steps for so many seconds, or as many as the recipe says; Ctrl-C ends them early. Returns the curve."""

    def loss_of_batch() -> Judged:
        pairs = draw(rngs["draw"])
        frames = walks.take(pairs)
        if recipe.recolour:
            frames = recolour(frames, pairs.mazes, rngs["recolour"])
        return (*objective(encoder, frames, pairs), 2 * len(pairs.walks))

    learning = nn.ModuleList([encoder, objective])
    with StopRequest() as stop:
        return descend(recipe, learning, loss_of_batch, f"encoder {recipe.kind}", seconds, stop)


def descend(
    recipe: LearningConfig,
    learning: nn.Module,
    loss_of_batch: Callable[[], Judged],
    title: str,
    seconds: float | None,
    stop: StopRequest,
) -> Curve:
    """Gradient steps on whatever `loss_of_batch` draws, for so many seconds or as many as the recipe says."""
    device = next(learning.parameters()).device.type
    learning.train()
    optimiser = _optimiser(learning, recipe.weight_decay, device)
    reporter = Reporter(title)
    torch.backends.cudnn.benchmark = True  # every batch has the same shape
    for share in clock(recipe.steps, seconds):
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * one_cycle(share)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss, metrics, images = loss_of_batch()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        reporter.add(share, images, metrics)
        if stop.asked:
            note("Stopped early: what was learned so far is kept.")
            break
    return reporter.finish()


def _optimiser(learning: nn.Module, weight_decay: float, device: str) -> torch.optim.Optimizer:
    """AdamW; matrices and kernels decay, vectors do not."""
    parameters = list(learning.parameters())
    groups = [
        {"params": [value for value in parameters if value.ndim > 1], "weight_decay": weight_decay},
        {"params": [value for value in parameters if value.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, fused=device == "cuda")


def clock(steps: int | None, seconds: float | None) -> Iterator[float]:
    """The share of the training that is done, before each step; counted in steps if their number is given."""
    if steps is not None:
        yield from (step / steps for step in range(steps))
        return
    assert seconds is not None
    started = time.monotonic()
    while (spent := time.monotonic() - started) < seconds:
        yield spent / seconds


def one_cycle(share: float) -> float:
    """The step size as a share of the greatest: up in a line, then down along a cosine."""
    if share < WARM_UP:
        return max(share, 0.02 * WARM_UP) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))


class Reporter:
    """Rows of the loss curve, and a line now and then. Metrics stay on the device until a row is due."""

    def __init__(self, title: str) -> None:
        self._title, self._curve = title, Curve()
        self._steps = self._images = 0
        self._share = 0.0
        self._waiting: list[dict[str, Tensor]] = []
        self._started = self._noted = time.monotonic()

    def add(self, share: float, images: int, metrics: dict[str, Tensor]) -> None:
        """Count one step."""
        self._steps, self._images, self._share = self._steps + 1, self._images + images, share
        self._waiting.append(metrics)
        if len(self._waiting) == REPORT_EVERY:
            self._write_row()

    def _write_row(self) -> None:
        means = {name: float(torch.stack([one[name] for one in self._waiting]).mean()) for name in self._waiting[0]}
        self._waiting.clear()
        now = time.monotonic()
        rate = self._images / max(now - self._started, 1e-9)
        self._curve.append({"step": self._steps, **{name: round(value, 5) for name, value in means.items()}})
        if now - self._noted >= NOTE_EVERY:
            self._noted = now
            note(
                f"{self._title}: step {self._steps:,}, {100 * self._share:.0f}%, loss {means['loss']:.3f}, "
                f"accuracy {100 * means['accuracy']:.1f}%, {rate:,.0f} images/s"
            )

    def finish(self) -> Curve:
        """The whole curve."""
        if self._waiting:
            self._write_row()
        return self._curve


@torch.no_grad()
def calibrate(encoder: FrameEncoder, walks: Walks, rng: np.random.Generator) -> None:
    """Set the mean and deviation of the features over frames of training."""
    encoder.eval()
    count = min(CALIBRATION_FRAMES, walks.frames.shape[0] * walks.length)
    frames = walks.sample(count, rng)
    encoder.standardise(torch.cat([encoder.raw(part) for part in frames.split(ENCODE_AT_ONCE)]))
