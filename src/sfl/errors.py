"""Errors a user can cause, each printed as one line by the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SflError(Exception):
    """Something the user can put right: what was wrong, what was given, what to do, in one line."""

    exit_code = 1

    def __init__(self, text: str = "") -> None:
        super().__init__(" ".join(str(text).splitlines()))  # what was given may be an array, whose text has several


class UsageError(SflError):
    """A wrong word, option or value on the command line or in a call."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that is not registered."""


class FileError(UsageError):
    """A file that is not what it should be: cut off, of another kind, too large."""


class CheckpointError(SflError):
    """A checkpoint that is incomplete, foreign or of another format."""


class NoRouteError(SflError):
    """The landmark graph holds no route between two landmarks."""


_OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",  # torch, of the computer
    "DefaultCPUAllocator: not enough memory",
    "CUDA out of memory",
    "Storage size calculation overflowed",  # torch, of more bytes than can be counted
    "std::bad_alloc",
    "array is too big",  # NumPy, likewise
    "Maximum allowed dimension exceeded",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether something was asked for that does not fit, in the words of Python, NumPy or torch."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY)


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str) -> UnknownNameError:
    """Name the closest known word, so that a typo costs the user one glance."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    return UnknownNameError(f"No {kind} {name!r}.{guess} {hint}")
