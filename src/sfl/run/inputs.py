"""What a run reads that does not come with the package, what its networks took before, and what they look at.

A run folder keeps copies of mazes, pairs and encoders in its folder `inputs`, so that it can be read anywhere;
config.json stays what the user wrote. Of large weights, and of modules, `inputs/inputs.json` says what they were and
where they lay:

    {"folder": where the run was made,
     "files": [{"setting": "agent.frames.encoder", "name": "encoder/mine.safetensors", "path": where it lay,
                "bytes": 22000000, "sha256": "...", "copied": true}],
     "modules": {"my_module": where it lay}}

Networks that go on learning are not among these: every checkpoint has them. `pretraining_of` says what the networks
that were trained before a run took (encoders of frames, R and L), `describe_input` what looks at the observations.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sfl import user_modules as modules
from sfl.baselines.config import NetworkConfig
from sfl.baselines.random import RandomConfig
from sfl.errors import CheckpointError, FileError, SflError, UsageError
from sfl.files import json_in, read_bytes
from sfl.nn.frame_encoders import is_frame
from sfl.nn.weights import SHIPPED, find_weights, read_header, tensor_sizes
from sfl.registry import (
    AgentConfig,
    frame_encoder,
    is_exact,
    method_of,
    setting,
    with_frame_encoder,
    with_setting,
)
from sfl.run.log import note
from sfl.run.settings import Experiment
from sfl.worlds.observations import ObservationKind

FOLDER, LISTED = "inputs", "inputs.json"
VARIABLE = "SFL_INPUTS"
"""Names a folder in which large weights are looked for that are not where they were."""

MOST_COPIED = 64 * 2**20
"""Weights of up to this many bytes are copied; larger ones are known again by their digest."""


@dataclass(frozen=True)
class Input:
    """One file that a run reads."""

    setting: str
    """The option that names it."""
    name: str
    """Where its copy lies in the folder `inputs`."""
    path: str
    """Where it lay."""
    bytes: int
    sha256: str
    copied: bool


@dataclass(frozen=True)
class Inputs:
    """All that a run reads; empty in runs of versions that did not note it."""

    folder: str = ""
    """Where the run was made: paths in its configuration may begin there."""
    files: tuple[Input, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()
    """Module and folder."""


def copy_inputs(run: Path, experiment: Experiment) -> None:
    """Copy into a new run folder what the run reads; nothing is made where it reads nothing of the user's."""
    found = list(_files(experiment))
    own = [(module, folder) for module in experiment.env.modules() if (folder := modules.folder_of(module))]
    if not found and not own and not _explorer(experiment.agent):
        return
    kept = [_kept(run / FOLDER, setting, name, file) for setting, name, file in found]
    body = {"folder": str(Path.cwd()), "files": [asdict(one) for one in kept], "modules": dict(own)}
    (run / FOLDER).mkdir(exist_ok=True)
    (run / FOLDER / LISTED).write_text(json.dumps(body, indent=2) + "\n")


def _files(experiment: Experiment) -> Iterator[tuple[str, str, Path]]:
    """Setting, place of the copy, file."""
    for name, file in experiment.env.files().items():
        yield f"env.{name.partition('/')[0]}", name, file
    setting, encoder = frame_encoder(experiment.agent)
    if encoder and encoder not in SHIPPED:
        yield setting, f"encoder/{Path(encoder).name}", Path(encoder)


def _explorer(agent: AgentConfig) -> str:
    explorer: str = setting(agent, method_of(agent).explorer)
    return explorer


def _kept(folder: Path, setting: str, name: str, file: Path) -> Input:
    size, copied = file.stat().st_size, setting.startswith("env.") or file.stat().st_size <= MOST_COPIED
    if copied:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
    return Input(setting, name, str(file.absolute()), size, _digest(folder / name if copied else file), copied)


def read_inputs(run: Path) -> Inputs:
    """The inputs that a run folder notes."""
    file = run / FOLDER / LISTED
    if not file.is_file():
        return Inputs()
    try:
        body = json.loads(read_bytes(file))
        files = tuple(_checked(Input(**one)) for one in body["files"])
        return Inputs(_words(body["folder"]), files, tuple((_words(a), _words(b)) for a, b in body["modules"].items()))
    except (OSError, FileError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{file} cannot be read ({type(error).__name__}: {error!s:.80}); copy the run again."
        ) from error


def _checked(one: Input) -> Input:
    for value in (one.setting, one.name, one.path, one.sha256):
        _words(value)
    inside = not Path(one.name).is_absolute() and ".." not in Path(one.name).parts
    if not inside or not isinstance(one.bytes, int) or not isinstance(one.copied, bool):
        raise ValueError(f"{one.name!r} is no place in the folder, or its numbers are none")
    return one


def _words(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is no text")
    os.fsencode(value)  # half a character is no name of a file: a ValueError
    return value


def usable(run: Path, experiment: Experiment, whole: bool = True) -> Experiment:
    """The experiment of a run folder with the run's own copies in place of the files that it names.

    With `whole`, every file must be there and be what it was; without, the experiment is good to look at.
    """
    found, run = read_inputs(run), run.absolute()
    for module, folder in found.modules:
        modules.note_folder(module, folder)
    env, agent = experiment.env.moved(run / FOLDER), experiment.agent
    for one in found.files:
        path = _present(run / FOLDER, one, whole)
        if path is None and whole:
            raise UsageError(_missing(run, one))
        if path is not None and one.setting == frame_encoder(agent)[0]:
            agent = with_frame_encoder(agent, str(path))
    return replace(experiment, env=env, agent=_with_explorer(_without_networks(agent), run, found.folder))


def _present(folder: Path, one: Input, whole: bool) -> Path | None:
    """The copy; of weights else the file where it lay, or one of that name in the folder that the variable names."""
    copy, given = folder / one.name, os.environ.get(VARIABLE)
    if copy.is_file() and not whole:
        return copy
    elsewhere = [Path(one.path), *([Path(given) / copy.name] if given else [])]
    places = [copy, *([] if one.setting.startswith("env.") else elsewhere)]
    return next((place for place in places if _is(place, one)), None)


def _is(place: Path, one: Input) -> bool:
    try:
        found = place.stat()
        regular = stat.S_ISREG(found.st_mode)  # a device has no bytes, and no end
        same = regular and found.st_size == one.bytes
        return same and _digest_at(place, found.st_mtime_ns, found.st_size) == one.sha256
    except OSError:
        return False


@functools.lru_cache(256)
def _digest_at(place: Path, written: int, size: int) -> str:
    """The digest of a file that was written then."""
    return _digest(place)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _missing(run: Path, one: Input) -> str:
    copy = run / FOLDER / one.name
    state = "is not what it was" if copy.is_file() else "is missing"
    lay = "" if one.copied else f" (it lay at {one.path}{', where another file is now' * Path(one.path).is_file()})"
    other = "" if one.setting.startswith("env.") else f", or name the folder that holds {copy.name} by {VARIABLE}"
    return (
        f"{copy}, the file of {one.setting}, {state}{lay}; "
        f"put the one of {one.bytes:,} bytes with SHA-256 {one.sha256} there{other}."
    )


def _without_networks(agent: AgentConfig) -> AgentConfig:
    """Checkpoints have the networks that a run began with, as they have become since."""
    without: AgentConfig = with_setting(agent, method_of(agent).networks, "")
    return without


def _with_explorer(agent: AgentConfig, run: Path, made_in: str) -> AgentConfig:
    """Where the run that walks for this one lies: as it was written, from where this one was made, or beside it."""
    given = _explorer(agent)
    if not given:
        return agent
    beside = run.parents[1] / Path(*Path(given).parts[-2:]) if len(run.parents) > 1 else run
    places = [Path(given), Path(made_in) / given, beside]
    path = next((place for place in places if (place / "config.json").is_file()), places[0])
    found: AgentConfig = with_setting(agent, method_of(agent).explorer, str(path))
    return found


def note_other_modules(run: Path) -> None:
    """Say so where a module is taken from elsewhere than when the run was made: it may be another one."""
    for module, folder in read_inputs(run).modules:
        now = modules.folder_of(module)
        if now is not None and now != folder:
            note(f"the module {module} is taken from {now}; {run} was made with the one in {folder}.")


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
        _, encoder = frame_encoder(agent)
        return [_of_encoder(encoder)] if encoder else []
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
    seconds = [_whole_number(found) for found in re.findall(rf"({_COUNT}) s\b", times)]
    return Pretraining(
        network=network,
        file=file,
        env_steps=0 if WALKS_OF in card else None if frames is None else _whole_number(frames[1]),
        gradient_steps=0 if card and "steps" not in card else None if steps is None else _whole_number(steps[0]),
        seconds=float(sum(seconds)) if seconds else None,
        machine=machine,
        frozen=frozen,
    )


def _whole_number(words: str) -> int:
    return int(words.replace(",", ""))


ENCODERS = {
    "grid": "convolutions over cells",
    "picture": "convolutions over pixels",
    "vector": "dense layers over numbers",
}


def describe_input(kind: ObservationKind, agent: AgentConfig) -> str:
    """The line that says what was taken for what; what no encoder is sure of is refused."""
    return f"observations: {kind.words}; encoder: {_encoder_of(kind, agent)}."


def _encoder_of(kind: ObservationKind, agent: AgentConfig) -> str:
    if isinstance(agent, RandomConfig) or is_exact(agent):
        return "none"
    if kind.encoder is None:
        raise UsageError(kind.doubt)
    shape, (_, encoder) = kind.space.shape, frame_encoder(agent)
    if encoder:
        if not is_frame(shape):
            raise UsageError(
                f'States "frames" are RGB pictures of 120x160, these observations are {kind.what}; use states "grid".'
            )
        return encoder
    if isinstance(agent, NetworkConfig) and is_frame(shape):
        return agent.retrieval.encoder
    return ENCODERS[kind.encoder]
