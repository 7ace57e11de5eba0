"""Training the retrieval and the locomotion network on the walks that encoders learn from."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sfl.api import Array, EnvSpec
from sfl.baselines.networks import (
    VIEWS,
    ActionExampleDraw,
    ActionExamples,
    Locomotion,
    ReachabilityDraw,
    Retrieval,
    RetrievalNetwork,
    locomotion_loss,
    reachability_loss,
    side_by_side,
    take_networks,
)
from sfl.config import require, to_json
from sfl.errors import CheckpointError
from sfl.nn import FRAME_SIZE
from sfl.nn.frame_encoders import RGB, action_network
from sfl.nn.weights import SUFFIX, load_networks, read_header, save_networks
from sfl.pretrain.config import NetworkJudgement, NetworkRecipe, WalkConfig, evaluation_mazes, unseen
from sfl.pretrain.train import Judged, changed, check_out, descend, recipe_lines, training_card, training_lines
from sfl.pretrain.walks import (
    GAMES_PER_MAZE,
    Walks,
    check_memory,
    collect,
    judging_generators,
    walk_round,
    walks_per_game,
)
from sfl.run.inputs import WALKS_OF, cards_in
from sfl.run.log import note, write_rows
from sfl.run.machine import prepare
from sfl.run.stopping import StopRequest
from sfl.seeding import draw_seed, spawn
from sfl.worlds.doom.protocol import ACTIONS
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.load import check_free, write_whole

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
            cards[name] = (
                training_card(public, network_command(names, public, out), walks, curve, times, device) | shared
            )
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
    draw = ActionExampleDraw(recipe.locomotion, len(walks.mazes), walks.length)

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


def network_command(names: Sequence[Name], recipe: NetworkRecipe, out: Path) -> str:
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


# ---- How often retrieval and locomotion networks are right, in textures and mazes that they have not seen.

COIN = 0.5
"""How often a coin is right about near and far."""
AT_ONCE = 256
"""Examples that L sees together."""
SHORT = {"retrieval": "R", "locomotion": "L"}


@dataclass(frozen=True)
class NetworkRow:
    """How often one network is right about one kind of example in one maze. Shares are of 1."""

    maze: str
    unseen: str
    """What of the maze the network has not seen: `textures`, or `maze` and textures."""
    network: Name
    case: str
    """retrieval: pairs that are `near` or `far`; locomotion: decisions to the goal."""
    accuracy: float
    chance: float
    """What guessing would give."""
    examples: int


def judge_networks(
    path: str, wanted: Sequence[Name], judgement: NetworkJudgement, device: torch.device | str
) -> list[NetworkRow]:
    """Look at every maze; the rows of one do not depend on the other mazes or on the number of workers."""
    retrieval, locomotion = load_pair(path, wanted, judgement, device)
    mazes = evaluation_mazes(judgement.mazes, judgement.maze_dir)
    note(f"Evaluating in {len(mazes)} mazes: {walks_per_game(judgement.walks) * GAMES_PER_MAZE} walks each.")
    walks = judging_walks(mazes, judgement, str(device))
    return [
        row
        for maze, own in zip(mazes, walks, strict=True)
        for row in judge_walks(retrieval, locomotion, own, maze.name, judgement)
    ]


def judge_walks(
    retrieval: Retrieval | None, locomotion: Locomotion | None, walks: Walks, maze: str, judgement: NetworkJudgement
) -> list[NetworkRow]:
    """How often the networks that there are, are right on walks in one maze."""
    pairs = [] if retrieval is None else _retrieval_rows(retrieval, walks, maze, judgement)
    chases = [] if locomotion is None else _locomotion_rows(locomotion, walks, maze, judgement)
    return pairs + chases


def load_pair(
    path: str, wanted: Sequence[Name], judgement: NetworkJudgement, device: torch.device | str
) -> tuple[Retrieval | None, Locomotion | None]:
    """The networks of a file that are wanted, or all that it holds; None for another."""
    arrays, spec = load_networks(path, wanted), EnvSpec(SHAPE, "uint8", len(ACTIONS))
    held = {key.partition(".")[0] for key in arrays}
    chosen = set(wanted) or held
    retrieval = Retrieval(judgement.retrieval, spec, 0, device) if "retrieval" in chosen else None
    locomotion = Locomotion(judgement.locomotion, spec, 0, device) if "locomotion" in chosen else None
    if retrieval is None and locomotion is None:
        raise CheckpointError(
            f"{path} holds neither a retrieval nor a locomotion network; make one: sfl network train retrieval --out "
            f"FILE{SUFFIX}."
        )
    take_networks(path, arrays, [network for network in (retrieval, locomotion) if network is not None])
    return retrieval, locomotion


def judging_walks(mazes: Sequence[Maze], judgement: NetworkJudgement, device: str) -> Iterator[Walks]:
    """The walks in each maze: the same as those that encoders are judged by. One maze at a time is in memory."""
    each, length = walks_per_game(judgement.walks), judgement.walk_length
    shape = (GAMES_PER_MAZE * each, length, *SHAPE)
    check_memory(shape, device)
    config = WalkConfig(walk_length=length, walks_per_maze=each, workers=judgement.workers)
    for maze in mazes:
        frames, actions = torch.empty(shape, dtype=torch.uint8, device=device), np.zeros(shape[:2], np.uint8)
        rngs = judging_generators([maze.name], judgement.seed)
        walk_round(config, [maze] * GAMES_PER_MAZE, frames, actions, rngs)
        yield Walks(frames, np.zeros(len(frames), np.int64), (maze.name,), actions)


def _retrieval_rows(retrieval: Retrieval, walks: Walks, maze: str, judgement: NetworkJudgement) -> list[NetworkRow]:
    config, name = replace(judgement.retrieval, batch_size=judgement.pairs), f"pairs/{maze}"
    pairs = ReachabilityDraw(config, walks.mazes, walks.length)(spawn(judgement.seed, [name])[name])
    features = retrieval.features(walks.frames.flatten(0, 1))
    first, second = (features[torch.from_numpy(pairs.walks * walks.length + times)] for times in pairs.times)
    called_near = (retrieval.reachable_each(first, second.unsqueeze(1))[:, 0] >= COIN).cpu().numpy()
    right = called_near == pairs.near
    cases = {"near": right[pairs.near], "far": right[~pairs.near]}
    return [_network_row(maze, "retrieval", case, found, COIN) for case, found in cases.items()]


def _locomotion_rows(locomotion: Locomotion, walks: Walks, maze: str, judgement: NetworkJudgement) -> list[NetworkRow]:
    ahead, name = judgement.locomotion.ahead, f"chases/{maze}"
    chases = even_action_examples(judgement.chases, ahead, walks, spawn(judgement.seed, [name])[name])
    parts = (slice(start, start + AT_ONCE) for start in range(0, len(chases.walks), AT_ONCE))
    batches = (ActionExamples(chases.walks[part], chases.times[:, part]) for part in parts)
    chosen = torch.cat([locomotion.scores(walks.take(batch)).argmax(1) for batch in batches]).cpu().numpy()
    right = chosen == walks.actions[chases.walks, chases.times[1]]
    away, chance = chases.times[2] - chases.times[1], 1 / len(ACTIONS)
    return [_network_row(maze, "locomotion", str(far), right[away == far], chance) for far in range(1, ahead + 1)]


def even_action_examples(count: int, ahead: int, walks: Walks, rng: np.random.Generator) -> ActionExamples:
    """Moments of walks with goals 1 to `ahead` decisions on, as many of each distance."""
    away = 1 + np.arange(count) % ahead
    chosen, now = rng.integers(len(walks.frames), size=count), rng.integers(walks.length - away)
    return ActionExamples(chosen, np.stack([np.maximum(now - 1, 0), now, now + away]))


def _network_row(maze: str, network: Name, case: str, right: Array, chance: float) -> NetworkRow:
    return NetworkRow(maze, unseen(maze), network, case, float(right.mean()), chance, len(right))


def network_cells(rows: Sequence[NetworkRow]) -> list[list[str]]:
    """The rows as text, a line for each maze, headings first; then means over mazes, and chance."""
    kinds = list(dict.fromkeys((row.network, row.case) for row in rows))
    mazes = dict.fromkeys((row.maze, row.unseen) for row in rows)
    found = {(row.maze, row.network, row.case): row.accuracy for row in rows}
    chances = {(row.network, row.case): row.chance for row in rows}
    heads = [f"{SHORT[network]}, {case}{_of_what(network, case)} %" for network, case in kinds]
    lines = [[maze, what, *(_percent(found[maze, *kind]) for kind in kinds)] for maze, what in mazes]
    for what in dict.fromkeys(what for _, what in mazes):
        own = [[found[maze, *kind] for kind in kinds] for maze, other in mazes if other == what]
        lines.append(["mean", what, *map(_percent, np.mean(own, axis=0))])
    return [["maze", "unseen", *heads], *lines, ["chance", "", *(_percent(chances[kind]) for kind in kinds)]]


def _of_what(network: str, case: str) -> str:
    return "" if network == "retrieval" else " decision" if case == "1" else " decisions"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
