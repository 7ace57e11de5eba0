"""Files from anywhere, read with care, and files of ours, written whole or not at all.

What is read may be cut off, of another kind, or made to blow up: everything is held against a limit before room is made
for it, and whatever it is instead is a `FileError` of one line. An `OSError` (no such file, no right to it) is left to
the caller, who knows what to do about it.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import math
import os
import shutil
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfl.errors import FileError, UsageError

Array = NDArray[Any]

MEGABYTE = 1 << 20
MOST_BYTES = 64 * MEGABYTE
"""Of a file that people write or give away, unpacked."""

DEEPEST = 100
"""Brackets within brackets in JSON."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, the user's share of it used up, and the most that a file may have."""

_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

_BAD_HEADER = (ValueError, TypeError, SyntaxError, LookupError, OverflowError, AttributeError, EOFError)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file: a pipe may never end, and a device has no end."""
    _require_regular(path)
    with path.open("rb") as file:
        return _limited(file, str(path), most)


def _require_regular(path: Path) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a folder is refused by the system, in its words
        raise FileError(f"{path} is a pipe or a device; give a file.")


def copy_file(source: Path, target: Path, most: int) -> None:
    """Copy a regular file that is not larger than it may be: of a device, a copy would fill the disk."""
    _require_regular(source)
    if source.stat().st_size > most:
        raise _too_large(str(source), most)
    shutil.copyfile(source, target)


def _limited(file: Any, source: str, most: int) -> bytes:
    content: bytes = file.read(most + 1)
    if len(content) > most:
        raise _too_large(source, most)
    return content


def _too_large(source: str, most: int) -> FileError:
    return FileError(f"{source} holds more than {most // MEGABYTE} MB, which no such file should; give another.")


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Text in UTF-8, unpacked where the name ends in .gz."""
    content = read_bytes(path, most)
    if path.suffix == ".gz":
        try:
            with gzip.open(io.BytesIO(content)) as file:
                content = _limited(file, str(path), most)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FileError(f"{path} is damaged or no gzip file ({error}); make it or fetch it again.") from error
    return text_in(content, str(path))


def text_in(content: bytes, source: str) -> str:
    """Text in UTF-8; `source` names it in complaints, here and below."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"byte {error.start + 1:,} is none of it"
        raise FileError(f"{source} is no text in UTF-8: {where}; give another file or save it as UTF-8.") from None


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """JSON of any kind; all its numbers are finite, and none has hundreds of digits."""
    return json_in(read_text(path, most), str(path))


def json_in(text: str, source: str) -> Any:
    """The same of a text."""
    try:
        value = json.loads(text, parse_float=_finite, parse_int=_whole, parse_constant=_finite)
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError as error:
        raise FileError(f"{source} is no whole JSON: {error}.") from None
    if _deeper_than(value, DEEPEST):
        raise _too_deep(source)
    return value


def _too_deep(source: str) -> FileError:
    return FileError(f"{source} is no JSON of ours: more than {DEEPEST} brackets within each other.")


def _finite(word: str) -> float:
    if math.isfinite(value := float(word)):
        return value
    raise ValueError(f"{word[:20]} is no finite number")


def _whole(word: str) -> int:
    _finite(word)  # Python's own limit is in digits, and far higher
    return int(word)


def _deeper_than(value: Any, most: int) -> bool:
    layer = [value]
    for _ in range(most):
        inner = [part.values() if isinstance(part, dict) else part for part in layer if isinstance(part, dict | list)]
        layer = [one for parts in inner for one in parts if isinstance(one, dict | list)]
        if not layer:
            return False
    return True


def read_array(path: Path, most: int = MOST_BYTES) -> Array:
    """A saved NumPy array (.npy) of numbers, truths or words."""
    return array_in(read_bytes(path, most), str(path))


def array_in(content: bytes, source: str) -> Array:
    """The same of bytes. NumPy makes room for what a header claims; here that must be there first."""
    file = io.BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of several lines, where Python 2 wrote the file
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
            there = len(content) - file.tell()
            if dtype.kind not in "biufU" or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > there:
                raise ValueError(f"it says {shape} of {dtype}, in {there:,} bytes")
            return np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
    # What NumPy and the parser of Python that it uses raise for headers that are none.
    except (*_BAD_HEADER, tokenize.TokenError, MemoryError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise FileError(
            f"{source} is not a saved NumPy array of numbers ({reason}); save one with numpy.save."
        ) from None


def read_arrays(path: Path, most: int = MOST_BYTES, unpacked: int = 0) -> dict[str, Array]:
    """The arrays of a .npz file as we write them: not compressed, or to at most so many bytes `unpacked`."""
    return arrays_in(read_bytes(path, most), str(path), unpacked)


def arrays_in(content: bytes, source: str, unpacked: int = 0) -> dict[str, Array]:
    """The same of bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            members = packed.infolist()
            kinds = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} if unpacked else {zipfile.ZIP_STORED}
            plain = all(one.compress_type in kinds and not one.flag_bits & 1 for one in members)
            if not plain or sum(one.file_size for one in members) > max(unpacked, len(content)):
                raise ValueError("its parts are packed, or hold too much")
            named = ((one.filename.removesuffix(".npy"), one) for one in members)
            return {name: array_in(packed.read(one), f"{name} in {source}") for name, one in named}
    except (*_BAD_HEADER, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, struct.error) as error:
        raise FileError(f"{source} is no .npz file of ours ({error}); it is damaged or another file.") from None


def require_replaceable(path: Path) -> None:
    """Only a regular file may be written over: in the place of a device, the computer would lose it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file by --out.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file and is not written over; name another.")


@contextlib.contextmanager
def written(path: Path) -> Iterator[Path]:
    """The name of a draft to write: it takes the place of `path` once it is whole and on disk.

    Whatever happens meanwhile (a full disk, Ctrl-C), what `path` held stays and the draft goes. A link is written
    through. An error of the system names `path`, not the draft.
    """
    require_replaceable(path)
    target = Path(os.path.realpath(path))
    draft = target.with_name(target.name + ".tmp")
    try:
        yield draft
        flush(draft)
        os.replace(draft, target)
        flush(target.parent)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(draft)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):  # such as a folder of that name, or a disk that has gone
            draft.unlink()


def flush(path: Path) -> None:
    """Have a file or the entries of a folder on disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written(path) as draft:
        draft.write_bytes(content)
    return path


def write_text(path: Path, text: str) -> Path:
    """The same in UTF-8."""
    return write_bytes(path, text.encode())


def has_no_room(error: BaseException) -> bool:
    """The disk is full, as Python or as a library in another language says it."""
    known = getattr(error, "errno", None) in NO_ROOM
    return known or any(f"os error {code})" in str(error) or os.strerror(code) in str(error) for code in NO_ROOM)
