"""A checkpoint is a folder of plain files, complete or absent.

    last/                         everything that going on exactly needs
      format.json                 format number, environment, settings, step count, rows of the run's tables, size and
                                  SHA-256 of every other file, and a SHA-256 of all that
      networks.safetensors  optimisers.safetensors  replay.safetensors
      graph.npz                   landmarks and edges
      generators.json             random generators, counters, running episodes
      poses.npy                   where the agent was at each environment step, float32 [N, 3]
      landmark_poses.npy          where each landmark was seen, float32 [L, 3]
    000200000/                    history: networks in half precision, graph, landmark poses

A slim copy (`sfl export`) has, where it was asked for, poses.npy as well. In this order: what a checkpoint holds, how
it is saved, loaded and held against an agent, its header, and what a crash may leave beside it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sfl.api import Agent, AgentState, Array, EnvSpec
from sfl.errors import CheckpointError, FileError, SflError
from sfl.files import flush, has_no_room, read_array, read_arrays, read_bytes
from sfl.run.log import note
from sfl.run.machine import sfl_version

HEADER_NAME = "format.json"
FORMAT = 5
"""A run is resumed within one format only: what optimisers, replays and generators look like may change between two."""

UNSIGNED = 3
"""The format whose header had no `kind`, `tables` and `digest`: it protects itself less."""

OLDER = (UNSIGNED, 4)
"""Older formats, which are read for evaluation and figures."""

Kind = Literal["full", "small", "slim"]
"""`full` to resume exactly; `small` for the history, in half precision; `slim` to publish, in full precision."""

Header = dict[str, Any]

RUN_KEYS = {"env", "session", "before", "window", "window_steps", "window_seconds", "seconds", "evaluated_at"}
RUN_KEYS |= {"goals_unseen", "explorer"}
"""What a checkpoint that can be resumed says of the run, beside its agent."""

LEARNING_FILES = ("optimisers.safetensors", "replay.safetensors")
"""What only learning needs; the replay of a long run has gigabytes."""

_ALWAYS = {"networks.safetensors", "graph.npz", "generators.json", "landmark_poses.npy"}
NEEDED: dict[str, set[str]] = {
    "full": _ALWAYS | set(LEARNING_FILES) | {"poses.npy"},
    "small": _ALWAYS,
    "slim": _ALWAYS,
}
"""Files of each kind."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds. Only the full kind has `run`, `poses` and all of the agent."""

    agent: AgentState
    env_id: str
    spec: EnvSpec
    env_steps: int
    run: dict[str, Any] = field(default_factory=dict)
    """The part that belongs to the run and not to the agent."""
    poses: Sequence[Array] = ()
    """Where the agent was at each environment step, [n, 3] float32 in pieces."""
    landmark_poses: Array = field(default_factory=lambda: np.zeros((0, 3), np.float32))  # [L, 3]
    tables: dict[str, Any] = field(default_factory=dict)
    """By file name what `CsvTable.kept` says of the rows that were written up to here."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the agent of the run was made with."""
    format: int = FORMAT
    """The format number of the files that it was loaded from."""


def save(folder: Path, checkpoint: Checkpoint, kind: Kind = "full") -> None:
    """Write a checkpoint; an older one in its place stays whole until the new one is."""
    draft, old = folder.with_name(folder.name + ".tmp"), folder.with_name(folder.name + ".old")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        _write_files(draft, checkpoint, kind)
        if folder.exists():
            os.rename(folder, old)
        os.rename(draft, folder)
        flush(folder.parent)
    except (OSError, SafetensorError) as error:
        if not has_no_room(error):
            raise
        before = folder.exists() or old.exists()
        hint = ", the checkpoint before it is whole; free some space and resume." if before else "; free some space."
        raise SflError(f"The disk is full: {folder} was not saved{hint}") from error
    finally:
        # Whatever happened, Ctrl-C included: nothing half-written stays, and the old one is under its own name.
        shutil.rmtree(draft, ignore_errors=True)
        if old.exists():
            os.rename(old, draft if folder.exists() else folder)
            shutil.rmtree(draft, ignore_errors=True)


def _write_poses(path: Path, pieces: Sequence[Array]) -> None:
    """As `np.save` writes one array, without making one: poses of millions of steps take as much room again."""
    rows = sum(len(piece) for piece in pieces)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 3)}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, "<f4").data)


def _write_files(draft: Path, checkpoint: Checkpoint, kind: Kind) -> None:
    state = checkpoint.agent
    networks = {name: _half(array) for name, array in state.networks.items()} if kind == "small" else state.networks
    save_file(_contiguous(networks), draft / "networks.safetensors")
    graph: dict[str, Any] = dict(state.graph)
    np.savez(draft / "graph.npz", **graph)
    np.save(draft / "landmark_poses.npy", checkpoint.landmark_poses, allow_pickle=False)
    counters: dict[str, Any] = {"counters": state.counters}
    if kind == "full":
        save_file(_contiguous(state.optimisers), draft / "optimisers.safetensors")
        save_file(_contiguous(state.replay), draft / "replay.safetensors")
        counters |= {"generators": state.generators, "run": checkpoint.run}
    if kind == "full" or (kind == "slim" and len(checkpoint.poses)):
        _write_poses(draft / "poses.npy", checkpoint.poses)
    _write_json(draft / "generators.json", counters)
    files = {path.name: _fingerprint(path) for path in sorted(draft.iterdir())}
    header = draft / HEADER_NAME
    _write_json(header, sign_header({**_header(checkpoint, kind), "files": files}))
    mode = header.stat().st_mode
    for path in draft.iterdir():
        path.chmod(mode)  # safetensors makes files that only their owner can read, whatever the umask says
        flush(path)
    flush(draft)


def _header(checkpoint: Checkpoint, kind: Kind) -> Header:
    return {
        "format": FORMAT,
        "sfl": sfl_version(),
        "kind": kind,
        "env": checkpoint.env_id,
        "observation_shape": [int(length) for length in checkpoint.spec.observation_shape],
        "action_count": int(checkpoint.spec.action_count),
        "env_steps": int(checkpoint.env_steps),
        "tables": checkpoint.tables,
        "settings": checkpoint.settings,
    }


def _contiguous(arrays: Mapping[str, Array]) -> dict[str, Array]:
    # safetensors writes the memory as it lies; ascontiguousarray would turn scalars into vectors.
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}


def _half(array: Array) -> Array:
    return array.astype(np.float16) if np.issubdtype(array.dtype, np.floating) else array


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a checkpoint's JSON cannot hold {type(value).__name__}")


def load(folder: Path, env_id: str, spec: EnvSpec, learning: bool = True) -> Checkpoint:
    """Read a checkpoint after checking that it is whole, of a known format and made in this environment.

    Without `learning`, what only learning needs is neither read nor checked; of an older format it is never read.
    """
    folder = present(folder)
    header = _header_of(folder)
    if header["format"] == UNSIGNED:
        _say_that_it_is_unsigned(folder)
    learning = learning and header["format"] == FORMAT
    _check_files(folder, header, () if learning else LEARNING_FILES)
    _check_environment(folder, header, env_id, spec)
    files: dict[str, dict[str, Any]] = header["files"]
    has_poses = "poses.npy" in files
    try:
        tensors = {
            name: dict(load_file(folder / f"{name}.safetensors")) if f"{name}.safetensors" in files else {}
            for name in (("networks", "optimisers", "replay") if learning else ("networks",))
        }
        graph = read_arrays(folder / "graph.npz", files["graph.npz"]["bytes"])
        texts = _read_texts(folder / "generators.json")
        landmarks = read_array(folder / "landmark_poses.npy", files["landmark_poses.npy"]["bytes"])
        poses = np.zeros((0, 3), np.float32)
        if has_poses:
            poses = read_array(folder / "poses.npy", files["poses.npy"]["bytes"])
    except (OSError, ValueError, KeyError, FileError, SafetensorError) as error:
        raise _broken(folder, f"cannot be read ({error})") from error
    for name, rows in (("landmark_poses.npy", landmarks), ("poses.npy", poses)):
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind != "f" or np.isinf(rows).any():
            raise _broken(folder, f"is damaged: {name} holds no places [N, 3]")
    if texts["run"] and poses.shape != (header["env_steps"], 3):  # an agent saved by itself has none
        raise _broken(folder, f"is damaged: it has {len(poses)} poses of {header['env_steps']} steps")
    generators = texts["generators"] if header["format"] == FORMAT else {}
    return Checkpoint(
        AgentState(**tensors, graph=graph, generators=generators, counters=texts["counters"]),
        env_id,
        spec,
        header["env_steps"],
        run=texts["run"],
        poses=(poses,) if has_poses else (),
        landmark_poses=landmarks,
        tables=header["tables"],
        settings=header["settings"],
        format=header["format"],
    )


def require_resumable(folder: Path, loaded: Checkpoint) -> None:
    """Refuse to resume what has another format, or lacks a part that going on exactly needs."""
    if loaded.format != FORMAT:
        raise CheckpointError(
            f"Checkpoint {folder} is of format {loaded.format}, this version of sfl resumes format {FORMAT} only: it "
            "can be evaluated and drawn. Resume it with the version that made it, or train the run again."
        )
    if missing := sorted(RUN_KEYS - set(loaded.run)):
        raise CheckpointError(f"Checkpoint {folder} lacks the keys {missing} in generators.json.")


def _read_texts(file: Path) -> dict[str, dict[str, Any]]:
    """Counters, and in full checkpoints generators and what belongs to the run."""
    try:
        body = json.loads(file.read_bytes())
    except RecursionError as error:
        raise ValueError(f"{file.name} is nested too deeply") from error
    found = {name: body.get(name, {}) for name in ("generators", "counters", "run")} if isinstance(body, dict) else {}
    if not found or not all(isinstance(part, dict) for part in found.values()):
        raise ValueError(f"{file.name} does not hold objects by name")
    return found


def read_files(folder: Path, names: Iterable[str]) -> tuple[Header, dict[str, bytes]]:
    """The header of a checkpoint and some of its files, those of them that it has.

    Each file is held against its fingerprint in the header, so that files of two checkpoints never mix, even where a
    run in training replaces one by the other meanwhile: that is an error, and another try succeeds.
    """
    folder = present(folder)
    header, found = _header_of(folder), {}
    for name in names:
        if name not in header["files"]:
            continue
        try:
            found[name] = read_bytes(folder / name, header["files"][name]["bytes"])
        except OSError as error:
            raise CheckpointError(f"Checkpoint {folder} lacks the file {name}.") from error
        except FileError as error:
            raise CheckpointError(f"Checkpoint {folder} is damaged: {error}") from error
        if hashlib.sha256(found[name]).hexdigest() != header["files"][name]["sha256"]:
            raise CheckpointError(f"Checkpoint {folder} is damaged: {name} is not what it was saved with.")
    return header, found


def load_agent(agent: Agent, folder: Path, loaded: Checkpoint) -> None:
    """Give a fresh agent the state in a checkpoint, once it is known to fit.

    What small and slim checkpoints leave out stays as it is: enough to act, not to go on training exactly.
    """
    fresh = agent.state_dict()
    check_keys(folder, loaded.agent.networks, fresh.networks)
    check_state(folder, loaded.agent, fresh)
    networks = {
        name: array.astype(fresh.networks[name].dtype, copy=False) for name, array in loaded.agent.networks.items()
    }
    parts = [part.name for part in fields(fresh) if part.name != "networks"]
    absent = {name: getattr(fresh, name) for name in parts if not getattr(loaded.agent, name)}
    del fresh  # with a whole replay
    agent.load_state_dict(replace(loaded.agent, networks=networks, **absent))


def check_keys(folder: Path, loaded: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Exact names and shapes or an error that lists what differs; what is empty in a fresh agent grows freely."""
    missing, foreign = sorted(set(expected) - set(loaded)), sorted(set(loaded) - set(expected))
    if missing or foreign:
        raise CheckpointError(f"Checkpoint {folder} does not fit the agent: missing {missing}, unknown {foreign}.")
    other = [name for name, array in expected.items() if not _fits(np.shape(loaded[name]), np.shape(array))]
    if other:
        raise CheckpointError(f"Checkpoint {folder} does not fit the agent: other shapes of {other}.")


def check_state(folder: Path, loaded: AgentState, fresh: AgentState) -> None:
    """What a checkpoint holds beside networks has the names, shapes and kinds of a fresh agent's.

    Its files may be whole and yet another agent's: folders are put together by hand, and old headers know no settings.
    Parts that it leaves out altogether are a fresh agent's; further names, such as those of candidates, come and go.
    """
    for part in ("graph", "counters", "generators"):
        found, expected = getattr(loaded, part), getattr(fresh, part)
        if found and (missing := sorted(set(expected) - set(found))):
            raise CheckpointError(f"Checkpoint {folder} does not fit the agent: its {part} lack {missing}.")
    arrays = {name: (loaded.graph[name], array) for name, array in fresh.graph.items() if loaded.graph}
    other = [name for name, (found, array) in arrays.items() if not _is_such(found, np.asarray(array))]
    if other:
        raise CheckpointError(f"Checkpoint {folder} does not fit the agent: its graph has another kind of {other}.")
    counters = {name: (loaded.counters[name], value) for name, value in fresh.counters.items() if loaded.counters}
    other = [name for name, (found, value) in counters.items() if not _kind(found) & _kind(value)]
    if other:
        raise CheckpointError(f"Checkpoint {folder} does not fit the agent: its counters have other kinds of {other}.")


def _kind(value: Any) -> set[type]:
    """What a counter may be that once was this one: of numbers any, and anything in the place of nothing."""
    plain = json.loads(json.dumps(value, default=_plain))
    kinds: set[type] = {dict, list, str, int}
    return kinds if plain is None else {int} if isinstance(plain, int | float) else {type(plain)}


def _is_such(found: Array, expected: Array) -> bool:
    return found.dtype.kind == expected.dtype.kind and _fits(found.shape, expected.shape)


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    pairs = zip(shape, expected, strict=True)
    return len(shape) == len(expected) and all(fixed in (0, length) for length, fixed in pairs)


def _header_of(folder: Path) -> Header:
    try:
        return read_header(folder)
    except ValueError as error:
        raise _broken(folder, str(error)) from error


def _check_files(folder: Path, header: Header, but: Sequence[str]) -> None:
    for name, expected in header["files"].items():
        if name in but:
            continue
        path = folder / name
        if not path.is_file():
            raise _broken(folder, f"lacks the file {name}")
        if path.stat().st_size != expected["bytes"]:
            raise _broken(folder, f"is damaged: {name} has {path.stat().st_size} bytes instead of {expected['bytes']}")
        if _fingerprint(path)["sha256"] != expected["sha256"]:
            raise _broken(folder, f"is damaged: {name} does not have the contents it was saved with")


def _check_environment(folder: Path, header: Mapping[str, Any], env_id: str, spec: EnvSpec) -> None:
    found = (header["env"], tuple(header["observation_shape"]), header["action_count"])
    expected = (env_id, tuple(spec.observation_shape), spec.action_count)
    if found != expected:
        names = ("environment {}", "observations {}", "{} actions")
        made, now = (", ".join(map(str.format, names, values)) for values in (found, expected))
        raise CheckpointError(f"Checkpoint {folder} was made in another environment: {made}; here: {now}.")


@functools.cache
def _say_that_it_is_unsigned(folder: Path) -> None:
    """Once, however often a program reads it."""
    note(f"Checkpoint {folder} is of an older format, which does not protect its own header; it is read as it is.")


def sign_header(header: Header) -> Header:
    """The header with a digest of all its fields."""
    return {**header, "digest": _digest(header)}


def _digest(header: Header) -> str:
    body = {name: value for name, value in header.items() if name != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read_header(folder: Path) -> Header:
    """The header of a checkpoint; a ValueError says what is wrong with it, as the end of a sentence about it.

    One of the format without a digest gets the kind that its files show, and no tables.
    """
    header = _parsed(folder / HEADER_NAME)
    found = header.get("format")
    if found not in (FORMAT, *OLDER) or type(found) is not int:
        raise ValueError(f"has format {_short(found)}, this version of sfl reads format {FORMAT}")
    fields = _FIELDS | ({} if found == UNSIGNED else _SIGNED_FIELDS)
    if missing := sorted(set(fields) - set(header)):
        raise ValueError(f"lacks the keys {missing} in {HEADER_NAME}")
    for name, fits in fields.items():
        if not fits(header[name]):
            raise ValueError(f"is damaged: {HEADER_NAME} has {_short(header[name])} as {name}")
    if header.get("digest") != (None if found == UNSIGNED else _digest(header)):
        raise ValueError(f"is damaged: {HEADER_NAME} is not what it was saved with")
    header.setdefault("settings", {})  # not in those that were made before there was this field
    if not isinstance(header["settings"], dict):
        raise ValueError(f"is damaged: {HEADER_NAME} has {_short(header['settings'])} as settings")
    if found == UNSIGNED:
        header |= {"kind": "full" if set(LEARNING_FILES) & set(header["files"]) else "slim", "tables": {}}
    if missing := sorted(NEEDED[header["kind"]] - set(header["files"])):
        raise ValueError(f"is damaged: {HEADER_NAME} lacks the files {missing}")
    return header


def _parsed(file: Path) -> Header:
    try:
        header = json.loads(read_bytes(file), object_pairs_hook=_unique, parse_constant=_no_number)
    except (OSError, FileError, ValueError, RecursionError) as error:
        raise ValueError(f"has no readable {HEADER_NAME}") from error
    if not isinstance(header, dict):
        raise ValueError(f"has no readable {HEADER_NAME}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _short(value: Any) -> str:
    """A value, cut to the length at which an error may quote it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python turns into text; too deep
        text = f"something of the type {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _are_files(value: Any) -> bool:
    """Names in this folder, with the size and the digest of each."""
    return isinstance(value, dict) and all(
        re.fullmatch(r"[A-Za-z0-9_-]+\.[a-z]+", name) is not None
        and name != HEADER_NAME
        and isinstance(file, dict)
        and _is_count(file.get("bytes"))
        and isinstance(file.get("sha256"), str)
        and re.fullmatch("[0-9a-f]{64}", file["sha256"]) is not None
        for name, file in value.items()
    )


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "sfl": lambda value: isinstance(value, str),
    "env": lambda value: isinstance(value, str),
    "observation_shape": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "action_count": _is_count,
    "env_steps": _is_count,
    "files": _are_files,
}
_SIGNED_FIELDS: dict[str, Callable[[Any], bool]] = {
    "kind": lambda value: isinstance(value, str) and value in NEEDED,
    "tables": lambda value: _are_files(value) and all(_is_count(table.get("rows")) for table in value.values()),
    "digest": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
}


def present(folder: Path) -> Path:
    """The folder, or the one a crash between two renames left in its place."""
    old = folder.with_name(folder.name + ".old")
    if folder.is_dir():
        return folder
    if old.is_dir():
        return old
    raise _broken(folder, "does not exist")


def tidy(checkpoints: Path) -> None:
    """Remove drafts of processes that were killed, and give one whose rename was not completed its name back."""
    for draft in checkpoints.glob("*.tmp"):
        shutil.rmtree(draft)
    for old in checkpoints.glob("*.old"):
        folder, draft = old.with_suffix(""), old.with_suffix(".tmp")
        if folder.exists():
            old.rename(draft)  # never a checkpoint of which only some files are gone
            shutil.rmtree(draft)
        else:
            old.rename(folder)


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint of that name, whole or not."""
    return folder.is_dir() or folder.with_name(folder.name + ".old").is_dir()


def _broken(folder: Path, what: str) -> CheckpointError:
    good = last_good(folder.parent, folder)
    hint = f"The last good checkpoint is {good}." if good else "There is no other checkpoint in this run."
    return CheckpointError(f"Checkpoint {folder} {what}. {hint}")


def last_good(checkpoints: Path, but: Path) -> Path | None:
    """The newest whole checkpoint beside a broken one."""
    folders = [path for path in checkpoints.glob("*") if path.is_dir() and path != but and path.suffix != ".tmp"]
    steps = {folder: _whole_steps(folder) for folder in folders}
    whole = [folder for folder in folders if steps[folder] is not None]
    return max(whole, key=lambda folder: (steps[folder], folder.name), default=None)


def _whole_steps(folder: Path) -> int | None:
    try:
        header = read_header(folder)
        whole = all(
            # The size is asked first, as a pipe or a device may have no end.
            (folder / name).is_file()
            and (folder / name).stat().st_size == expected["bytes"]
            and _fingerprint(folder / name) == expected
            for name, expected in header["files"].items()
        )
    except (OSError, ValueError):
        return None
    return int(header["env_steps"]) if whole else None
