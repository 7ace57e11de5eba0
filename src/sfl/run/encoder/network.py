"""Training the retrieval and the locomotion network on the walks that encoders learn from."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sfl.core.config import require, to_json
from sfl.core.seeding import draw_seed, spawn
from sfl.data.types import Array
from sfl.envs.mazes.files import check_free, write_whole
from sfl.envs.vizdoom import ACTIONS
from sfl.learners.locomotion import VIEWS, ChaseDraw, locomotion_loss, side_by_side
from sfl.learners.reachability import ReachabilityDraw, reachability_loss
from sfl.learners.retrieval import RetrievalNetwork
from sfl.nn.frame_encoders import FRAME_SIZE, RGB
from sfl.nn.observation_networks import action_network
from sfl.nn.weights import SUFFIX, load_networks, read_header, save_networks
from sfl.run.console import write_rows
from sfl.run.device import prepare
from sfl.run.encoder.card import changed, recipe_lines, training_card, training_lines
from sfl.run.encoder.config import NetworkRecipe
from sfl.run.encoder.data import Walks, collect
from sfl.run.encoder.train import Judged, check_out, descend
from sfl.run.interrupt import StopRequest
from sfl.run.pretraining import WALKS_OF, cards_in

Name = Literal["retrieval", "locomotion"]
NETWORKS: tuple[Name, ...] = get_args(Name)
SHAPE = (*FRAME_SIZE, RGB)

LossOfBatch = Callable[[], Judged]


def train_networks(
    names: Sequence[Name],
    recipe: NetworkRecipe,
    out: Path,
    device: str = "auto",
    threads: int = 1,
    force: bool = False,
) -> None:
    """Train networks one after the other on the same walks, each for an equal share of the time, into one file.

    Ctrl-C ends it early: the file has the networks that were begun. The loss curve of each (.csv) and a model card
    (.md) go beside it.
    """
    curves = _curve_files(names, out)
    check_out(out, force, [out.with_suffix(".md"), *curves.values()])
    device = prepare(device, threads)
    started = time.monotonic()
    walks = collect(recipe, recipe.seed, device, None if recipe.seconds is None else recipe.seconds / 2)
    collected = time.monotonic() - started
    share = None if recipe.seconds is None else (recipe.seconds - collected) / len(names)
    public, named, cards = replace(recipe, maze_dir=None), dict[str, Tensor](), dict[str, dict[str, str]]()
    with StopRequest() as stop:
        for name in names:
            started = time.monotonic()
            network, loss_of_batch = prepare_network(name, recipe, walks, spawn(recipe.seed, ["init", "draw"]), device)
            curve = descend(recipe, network, loss_of_batch, f"{name} network", share, stop)
            times = {} if cards else {"collecting": collected}
            times["training"] = time.monotonic() - started
            shared = {WALKS_OF: names[0]} if cards else {}
            cards[name] = training_card(public, command(names, public, out), walks, curve, times, device) | shared
            named |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
            if curve:
                write_rows(curves[name], curve)
            if stop.asked:
                break
    alone = cards[names[0]] if len(cards) == 1 else {}
    save_networks(named, out, alone | {"networks": " ".join(sorted(cards)), "cards": json.dumps(cards)})
    write_whole(out.with_suffix(".md"), _page(out, cards, public).encode(), force=True)


def _curve_files(names: Sequence[Name], out: Path) -> dict[Name, Path]:
    if len(names) == 1:
        return {names[0]: out.with_suffix(".csv")}
    return {name: out.with_name(f"{out.stem}-{name}.csv") for name in names}


def prepare_network(
    name: Name, recipe: NetworkRecipe, walks: Walks, rngs: dict[str, np.random.Generator], device: str
) -> tuple[nn.Module, LossOfBatch]:
    """A fresh network, and what draws its batches and judges them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(rngs["init"]))
        if name == "retrieval":
            pairing = RetrievalNetwork(recipe.retrieval, SHAPE).to(device)
            return pairing, _retrieval_loss(recipe, pairing, walks, rngs["draw"])
        config = recipe.locomotion
        walking = action_network(SHAPE, config.encoder, config.dim, VIEWS, len(ACTIONS)).to(device)
    return walking, _locomotion_loss(recipe, walking, walks, rngs["draw"])


def _retrieval_loss(
    recipe: NetworkRecipe, network: RetrievalNetwork, walks: Walks, rng: np.random.Generator
) -> LossOfBatch:
    draw = ReachabilityDraw(recipe.retrieval, walks.mazes, walks.length)

    def judge() -> Judged:
        pairs = draw(rng)
        first, second = network.encoder(walks.take(pairs).flatten(0, 1)).chunk(2)
        scores = network.head(torch.cat([first, second], dim=1))
        return (*reachability_loss(scores, torch.from_numpy(pairs.near).to(scores.device)), 2 * len(pairs.walks))

    return judge


def _locomotion_loss(recipe: NetworkRecipe, network: nn.Module, walks: Walks, rng: np.random.Generator) -> LossOfBatch:
    draw = ChaseDraw(recipe.locomotion, len(walks.mazes), walks.length)

    def judge() -> Judged:
        chases = draw(rng)
        scores = network(side_by_side(walks.take(chases)))
        actions = walks.actions[chases.walks, chases.times[1]].astype(np.int64)
        return (*locomotion_loss(scores, torch.from_numpy(actions).to(scores.device)), VIEWS * len(actions))

    return judge


def join_networks(files: Sequence[str], out: Path, force: bool = False) -> None:
    """One file with the networks of several and the card of each: agents read R and L from one."""
    require(out.suffix == SUFFIX, f"--out must name a {SUFFIX} file, got {out}.")
    check_free(out, force)
    joined: dict[str, Tensor] = {}
    cards: dict[str, Mapping[str, str]] = {}
    for file in files:
        arrays: dict[str, Array] = load_networks(file, [])
        twice = _names(joined) & _names(arrays)
        require(not twice, f"{file} holds a {'/'.join(sorted(twice))} network as a file before it does; leave one out.")
        joined |= {key: torch.from_numpy(value) for key, value in arrays.items()}
        cards |= cards_in(read_header(Path(file)))
    save_networks(joined, out, {"networks": " ".join(sorted(_names(joined))), "cards": json.dumps(cards)})


def _names(arrays: Iterable[str]) -> set[str]:
    """The networks that arrays of these keys are of."""
    return {key.partition(".")[0] for key in arrays}


def command(names: Sequence[Name], recipe: NetworkRecipe, out: Path) -> str:
    """The words that train these networks again: whatever differs from the defaults."""
    which = names[0] if len(names) == 1 else "both"
    return shlex.join(["sfl", "network", "train", which, *changed(recipe, NetworkRecipe()), "--out", out.name])


def _page(out: Path, cards: Mapping[str, Mapping[str, str]], recipe: NetworkRecipe) -> str:
    about = {
        "retrieval": "Two 160x120 frames to the chance that they are a few decisions apart.",
        "locomotion": "Previous, current and goal frame to the chances of the actions.",
    }
    lines = [f"# Network{'s' if len(cards) > 1 else ''} `{out.stem}`"]
    for name, card in cards.items():
        lines += ["", f"The {name} network. {about[name]} Trained without labels and poses.", "", *training_lines(card)]
    return "\n".join([*lines, *recipe_lines(to_json(recipe))])
