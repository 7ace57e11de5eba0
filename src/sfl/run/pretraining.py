"""What networks took that were trained before a run began, elsewhere: encoders of frames, and R and L."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sfl.baselines.config import NetworkConfig
from sfl.baselines.mss.config import FrameMSSConfig
from sfl.errors import FileError, SflError
from sfl.files import json_in
from sfl.method.config import FrameSFLConfig
from sfl.nn.weights import find_weights, read_header, tensor_sizes
from sfl.registry import AgentConfig

STATISTICS = ("mean", "std")
"""What an encoder's file holds beside its parameters."""


WALKS_OF = "walks of"
"""In the card of a network that learned from the walks of another: collecting is in that one's card."""


@dataclass(frozen=True)
class Pretraining:
    """What one network took before the run; None: its file does not say."""

    network: str
    """encoder, retrieval or locomotion."""
    file: str
    """Its name alone, or that of a shipped encoder."""
    env_steps: int | None = None
    """Frames of random walks that were collected for it; 0 where it learned from another's."""
    gradient_steps: int | None = None
    seconds: float | None = None
    """Collecting and training."""
    machine: str = ""
    frozen: int = 0
    """Its parameters, where the run leaves them as they are and keeps no copy: those of an encoder."""


def pretraining_of(agent: AgentConfig) -> list[Pretraining]:
    """By the headers of the files that a configuration names. A checkpoint's networks say nothing: its run does."""
    try:
        if isinstance(agent, NetworkConfig) and agent.networks:
            return _of_networks(Path(agent.networks))
        if isinstance(agent, FrameSFLConfig):
            return [_of_encoder(agent.frames.encoder)]
        return [_of_encoder(agent.encoder)] if isinstance(agent, FrameMSSConfig) else []
    except SflError:  # the file has gone since the run was made
        return [Pretraining("networks" if isinstance(agent, NetworkConfig) else "encoder", "a file that is gone")]


def _of_encoder(name: str) -> Pretraining:
    path = find_weights(name)
    sizes = tensor_sizes(path)
    parameters = sum(size for part, size in sizes.items() if part not in STATISTICS)
    return spent_by_card(read_header(path), "encoder", Path(name).stem, parameters)


def _of_networks(path: Path) -> list[Pretraining]:
    header = read_header(path)
    cards = cards_in(header)
    return [spent_by_card(cards.get(name, {}), name, path.name) for name in header.get("networks", "").split()]


def cards_in(header: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    """The card of each network of a file; a file without a list of them has one card, that of its last training."""
    if "cards" in header:
        cards = json_in(header["cards"], "the cards of the networks")
        if isinstance(cards, dict) and all(_is_card(card) for card in cards.values()):
            return cards
        raise FileError("The cards of the networks are no sentences by name.")
    trained = re.match(r"sfl network train (\w+) ", header.get("command", ""))
    return {} if trained is None else {trained[1]: header}


_COUNT = r"\d[\d,]{0,18}"


def _is_card(card: object) -> bool:
    return isinstance(card, dict) and all(isinstance(words, str) for words in card.values())


def spent_by_card(card: Mapping[str, str], network: str, file: str, frozen: int = 0) -> Pretraining:
    """Read the sentences of `training_card` (pretrain/train.py); files of any age have these."""
    frames = re.match(rf"({_COUNT}) frames ", card.get("data", ""))
    steps = re.fullmatch(_COUNT, card.get("steps", ""))
    times, _, machine = card.get("time", "").rpartition(" on ")
    seconds = [_number(found) for found in re.findall(rf"({_COUNT}) s\b", times)]
    return Pretraining(
        network=network,
        file=file,
        env_steps=0 if WALKS_OF in card else None if frames is None else _number(frames[1]),
        gradient_steps=0 if card and "steps" not in card else None if steps is None else _number(steps[0]),
        seconds=float(sum(seconds)) if seconds else None,
        machine=machine,
        frozen=frozen,
    )


def _number(words: str) -> int:
    return int(words.replace(",", ""))
