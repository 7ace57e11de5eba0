"""What every answer of the server is made of: plain numbers, and errors that a page can show."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sfl.core.errors import SflError
from sfl.data.types import Array

Document = dict[str, Any]
"""An answer as JSON: what the server serves and an export embeds."""


class NotHereError(SflError):
    """What was asked for does not exist, or not any more."""


class NotReadyError(SflError):
    """What was asked for is not there yet."""


def encode(document: Any) -> bytes:
    """As it is sent. A number that JSON does not know would be an error of the program."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def numbers(values: Array, digits: int = 2) -> list[Any]:
    """An array as nested lists, rounded; what is not finite becomes null."""
    rounded = np.round(np.asarray(values, np.float64), digits)
    if np.isfinite(rounded).all():
        return list(rounded.tolist())
    known = rounded.astype(object)
    known[~np.isfinite(rounded)] = None
    return list(known.tolist())


def whole(values: Array) -> list[int]:
    """An array of whole numbers as a list."""
    return [int(value) for value in np.asarray(values).tolist()]
