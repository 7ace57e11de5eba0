"""format.json of a checkpoint: what it says of itself and of the files beside it, and how that is checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sfl.core.errors import FileError
from sfl.core.files import read_bytes

NAME = "format.json"
FORMAT = 4
UNSIGNED = 3
"""The format before it: the same without `kind`, `tables` and `digest`. It is read, and protects itself less."""

Kind = Literal["full", "small", "slim"]
"""`full` to resume exactly; `small` for the history, in half precision; `slim` to publish, in full precision."""

Header = dict[str, Any]

_ALWAYS = {"networks.safetensors", "graph.npz", "generators.json", "landmark_poses.npy"}
_LEARNING = {"optimisers.safetensors", "replay.safetensors"}
NEEDED: dict[str, set[str]] = {"full": _ALWAYS | _LEARNING | {"poses.npy"}, "small": _ALWAYS, "slim": _ALWAYS}
"""Files of each kind."""


def signed(header: Header) -> Header:
    """With a digest of all its fields."""
    return {**header, "digest": _digest(header)}


def _digest(header: Header) -> str:
    body = {name: value for name, value in header.items() if name != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read(folder: Path) -> Header:
    """The header of a checkpoint; a ValueError says what is wrong with it, as the end of a sentence about it.

    One of the older format gets the kind that its files show, and no tables.
    """
    header = _parsed(folder / NAME)
    found = header.get("format")
    if found not in (FORMAT, UNSIGNED) or type(found) is not int:
        raise ValueError(f"has format {_short(found)}, this version of sfl reads format {FORMAT}")
    fields = _FIELDS | (_SIGNED_FIELDS if found == FORMAT else {})
    if missing := sorted(set(fields) - set(header)):
        raise ValueError(f"lacks the keys {missing} in {NAME}")
    for name, fits in fields.items():
        if not fits(header[name]):
            raise ValueError(f"is damaged: {NAME} has {_short(header[name])} as {name}")
    if header.get("digest") != (_digest(header) if found == FORMAT else None):
        raise ValueError(f"is damaged: {NAME} is not what it was saved with")
    header.setdefault("settings", {})  # not in those that were made before there was this field
    if not isinstance(header["settings"], dict):
        raise ValueError(f"is damaged: {NAME} has {_short(header['settings'])} as settings")
    if found == UNSIGNED:
        header |= {"kind": "full" if _LEARNING & set(header["files"]) else "slim", "tables": {}}
    if missing := sorted(NEEDED[header["kind"]] - set(header["files"])):
        raise ValueError(f"is damaged: {NAME} lacks the files {missing}")
    return header


def _parsed(file: Path) -> Header:
    try:
        header = json.loads(read_bytes(file), object_pairs_hook=_unique, parse_constant=_no_number)
    except (OSError, FileError, ValueError, RecursionError) as error:
        raise ValueError(f"has no readable {NAME}") from error
    if not isinstance(header, dict):
        raise ValueError(f"has no readable {NAME}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _short(value: Any) -> str:
    """A value as an error may quote it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python turns into text; too deep
        text = f"something of the type {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_kind(value: Any) -> bool:
    return isinstance(value, str) and value in NEEDED


def _are_files(value: Any) -> bool:
    """Names in this folder, with the size and the digest of each."""
    return isinstance(value, dict) and all(_is_name(name) and _is_fingerprint(file) for name, file in value.items())


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]+\.[a-z]+", name) is not None and name != NAME


def _is_fingerprint(value: Any) -> bool:
    return isinstance(value, dict) and _is_count(value.get("bytes")) and _is_digest(value.get("sha256"))


def _are_tables(value: Any) -> bool:
    return _are_files(value) and all(_is_count(table.get("rows")) for table in value.values())


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "sfl": _is_text,
    "env": _is_text,
    "observation_shape": _is_shape,
    "action_count": _is_count,
    "env_steps": _is_count,
    "files": _are_files,
}
_SIGNED_FIELDS: dict[str, Callable[[Any], bool]] = {"kind": _is_kind, "tables": _are_tables, "digest": _is_digest}
