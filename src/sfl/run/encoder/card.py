"""The model card of an encoder: data, recipe, command, time and scores, in the file's header and as a page."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sfl.core.config import to_json
from sfl.run.encoder.config import EncoderRecipe, LearningConfig
from sfl.run.encoder.data import Walks
from sfl.run.encoder.evaluate import PlaceRow, place_cells
from sfl.run.version import sfl_version

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
