"""The model card of an encoder: data, recipe, command, time and scores, in the file's header and as a page."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfl.baselines.networks import MomentPairs, Reachability, ReachabilityDraw
from sfl.config import require, to_json
from sfl.errors import CheckpointError
from sfl.nn import Kind
from sfl.nn.frame_encoders import KINDS, FrameEncoder
from sfl.nn.weights import SUFFIX, load_encoder, load_module, load_networks, read_header, save_encoder
from sfl.pretrain.config import EncoderJudgement, EncoderRecipe, LearningConfig
from sfl.pretrain.evaluate import PlaceRow, judge_encoder, place_cells
from sfl.pretrain.objectives import Distillation, PlaceContrast, PlaceDraw
from sfl.pretrain.walks import Walks, collect, recolour
from sfl.run.inputs import cards_in
from sfl.run.log import note, write_rows
from sfl.run.machine import prepare, sfl_version
from sfl.run.stopping import StopRequest
from sfl.seeding import draw_seed, spawn
from sfl.worlds.mazes.load import check_free, write_whole

_LAST_ROWS = 10  # of the loss curve stand for the end of the training


def make_card(
    recipe: EncoderRecipe,
    walks: Walks,
    curve: Sequence[Mapping[str, Any]],
    times: Mapping[str, float],
    device: str,
    out: Path,
) -> dict[str, str]:
    """What the file's header says, without scores. Folders of the user's are left out: files are given to others."""
    public = _public(recipe)
    return training_card(public, command(public, out), walks, curve, times, device)


def training_card(
    public: LearningConfig,
    words: str,
    walks: Walks,
    curve: Sequence[Mapping[str, Any]],
    times: Mapping[str, float],
    device: str,
) -> dict[str, str]:
    """What there is to say of any network that has learned from walks; `words` train it again."""
    copies = ", ".join(f"{count} of {name}" for name, count in Counter(walks.names).most_common())
    sides = f"{walks.frames.shape[3]}x{walks.frames.shape[2]}"
    card = {
        "sfl": sfl_version(),
        "torch": torch.__version__,
        "data": f"{walks.frames.shape[0] * walks.length:,} frames of {sides} from random walks of {walks.length} "
        f"decisions in {len(walks.names)} mazes in training textures ({copies})",
        "recipe": json.dumps(to_json(public)),
        "command": words,
        "time": ", ".join(f"{what} {seconds:,.0f} s" for what, seconds in times.items()) + f" on {_machine(device)}",
    }
    if curve:
        last = curve[-_LAST_ROWS:]
        card |= {name: f"{sum(row[name] for row in last) / len(last):.4g}" for name in ("loss", "accuracy")}
        card["steps"] = str(curve[-1]["step"])
    return card


def scores_card(rows: Sequence[PlaceRow]) -> dict[str, str]:
    """The scores as the header says them."""
    return {"scores": json.dumps([asdict(row) for row in rows])}


def _public(recipe: EncoderRecipe) -> EncoderRecipe:
    distil = None if recipe.distil is None else Path(recipe.distil).name
    return replace(recipe, maze_dir=None, distil=distil)


def _machine(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"{torch.get_num_threads()} CPU thread(s)"


def command(recipe: EncoderRecipe, out: Path) -> str:
    """The words that train this encoder again: whatever differs from the defaults."""
    words = ["sfl", "encoder", "train", "--kind", recipe.kind, *changed(recipe, EncoderRecipe(kind=recipe.kind))]
    return shlex.join([*words, "--out", out.name])


def changed(config: Any, default: Any, prefix: str = "--") -> list[str]:
    """The options by which one configuration differs from another."""
    words: list[str] = []
    for field in fields(config):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        word = f"{prefix}{field.name.replace('_', '-')}"
        if is_dataclass(value):
            words += changed(value, usual, f"{word}.")
        elif value == usual:
            continue
        elif isinstance(value, bool):
            words.append(word if value else f"{prefix}no-{word.removeprefix(prefix)}")
        else:
            words += [word, *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    return words


def card_page(out: Path, card: Mapping[str, str], rows: Sequence[PlaceRow]) -> str:
    """The card as Markdown."""
    recipe = json.loads(card["recipe"])
    aim = f"distilled from `{recipe['distil']}`" if recipe["distil"] else recipe["objective"]
    lines = [
        f"# Encoder `{out.stem}`",
        "",
        f"Kind `{recipe['kind']}`, {aim}; one 160x120 frame to a vector of standardised features; "
        f"{out.stat().st_size / 1e6:.1f} MB in half precision. Trained without labels and without poses.",
        "",
        *training_lines(card),
        "",
        "## Scores, in test textures",
        "",
    ]
    lines += _table(place_cells(rows)) if rows else ["Not evaluated."]
    return "\n".join([*lines, *recipe_lines(recipe)])


def training_lines(card: Mapping[str, str]) -> list[str]:
    """How it came about."""
    lines = [
        f"- Data: {card['data']}.",
        f"- Command: `{card['command']}` (with the paper's mazes in `SFL_MAZES` where `sgm` is among the mazes).",
        f"- Time: {card['time']}.",
    ]
    if "steps" in card:
        lines.append(f"- At the end, after {card['steps']} steps: loss {card['loss']}, accuracy {card['accuracy']}.")
    return [*lines, f"- Versions: sfl {card['sfl']}, torch {card['torch']}."]


def recipe_lines(recipe: Mapping[str, Any]) -> list[str]:
    """The end of a page: all settings."""
    return ["", "## Recipe", "", "```json", json.dumps(recipe, indent=2), "```", ""]


def _table(cells: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(cells[0])
    return [f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:])]


# ---- Training an encoder: collect walks, take gradient steps on a clock, standardise, save, evaluate, write the card.

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


# ---- The encoder inside a retrieval network: the paper's SFL sees through the encoder of SPTM's R.


def extract_encoder(networks: str, out: Path, kind: Kind = "resnet18", force: bool = False) -> None:
    """Write the encoder of a file's retrieval network as one of its own; the card of that network goes with it."""
    require(out.suffix == SUFFIX, f"--out must name a {SUFFIX} file, got {out}.")
    check_free(out, force)
    encoder = encoder_of(networks, kind)
    card = dict(cards_in(read_header(Path(networks))).get("retrieval", {}))
    save_encoder(encoder, out, card | {"source": f"the retrieval network of {Path(networks).name}"})


@torch.no_grad()
def encoder_of(networks: str, kind: Kind) -> FrameEncoder:
    """R's encoder, standardised by what the first batch normalization of R's head has seen of its features."""
    arrays = load_networks(networks, ["retrieval"])
    encoder = FrameEncoder(kind, normalised=True)
    norm = nn.BatchNorm1d(2 * encoder.dim)  # of both codes of a pair, side by side
    try:
        load_module(encoder, "retrieval.encoder", arrays)
        load_module(norm, "retrieval.head.0", arrays)
    except CheckpointError as error:
        others = ", ".join(known for known in KINDS if known != kind)
        raise CheckpointError(
            f"The retrieval network of {networks} has no {kind} encoder; give the one that it was trained with as "
            f"--kind ({others})."
        ) from error
    assert norm.running_mean is not None
    assert norm.running_var is not None
    encoder.mean.copy_(norm.running_mean[: encoder.dim])
    encoder.std.copy_(norm.running_var[: encoder.dim].sqrt().clamp_min(1e-6))
    return encoder
