"""What every answer of the server is made of: plain numbers, and errors that a page can show."""

from __future__ import annotations

import json
import traceback
from typing import Any

import numpy as np

from sfl.api import Array
from sfl.errors import SflError
from sfl.run.log import note

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


def shares(values: Array, digits: int = 2) -> list[Any]:
    """The same of shares from 0 to 1: less than all is never rounded up to 1, more than none never down to 0."""
    values, least = np.asarray(values, np.float64), 10.0**-digits
    rounded = np.round(values, digits)
    rounded = np.where(values < 1, np.minimum(rounded, 1 - least), rounded)
    return numbers(np.where(values > 0, np.maximum(rounded, least), rounded), digits)


def whole(values: Array) -> list[int]:
    """An array of whole numbers as a list."""
    return [int(value) for value in np.asarray(values).tolist()]


def confess(what: str) -> None:
    """An error of our own that must not end the server: the page is told in one line, the console in all of them."""
    note(what)
    traceback.print_exc()
