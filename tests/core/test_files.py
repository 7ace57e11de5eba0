"""What is read is what it should be or one line; what is written is whole or not at all."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import resource
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sfl.errors import FileError, UsageError, is_out_of_memory
from sfl.files import (
    array_in,
    arrays_in,
    copy_file,
    has_no_room,
    json_in,
    read_bytes,
    read_json,
    read_text,
    require_replaceable,
    write_bytes,
    write_text,
    written,
)


def test_text_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = write_text(tmp_path / "new" / "a.txt", "Größe\r\n")
    assert read_text(path) == "Größe\r\n"
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfa")
    assert read_text(tmp_path / "b.txt") == "a"  # without the mark that some editors put first
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress("a,ü\n".encode()))
    assert read_text(tmp_path / "c.csv.gz") == "a,ü\n"


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"abc\xff")
    with pytest.raises(FileError, match=r"a\.csv is no text in UTF-8: byte 4"):
        read_text(tmp_path / "a.csv")


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "nothing"])
def test_damaged_gzip_files_are_one_line(damage: str, tmp_path: Path) -> None:
    whole = gzip.compress(b"1,2,3\n" * 1000)
    bodies = {
        "cut": whole[:-12],
        "flipped": whole[:12] + b"\xff\xff" + whole[14:],
        "other": b"1,2,3",
        "nothing": b"\x1f",
    }
    (tmp_path / "a.csv.gz").write_bytes(bodies[damage])
    with pytest.raises(FileError, match="is damaged or no gzip file"):
        read_text(tmp_path / "a.csv.gz")


def test_no_more_is_unpacked_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(bytes(3 << 20)))
    with pytest.raises(FileError, match="holds more than 2 MB"):
        read_text(tmp_path / "a.csv.gz", 2 << 20)
    assert len(read_text(tmp_path / "a.csv.gz", 3 << 20)) == 3 << 20


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileError, match="is a pipe or a device; give a file"):
            read_bytes(path)
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "is no whole JSON"),
        ("[" * 20_000, "more than 100 brackets within each other"),
        ("[" * 101 + "]" * 101, "more than 100 brackets within each other"),
        ('{"a": NaN}', "NaN is no finite number"),
        ("[1e999]", "1e999 is no finite number"),
        ("9" * 400, r"9{20} is no finite number"),
        ("9" * 5000, r"9{20} is no finite number"),
    ],
)
def test_json_that_is_none_of_ours(text: str, line: str) -> None:
    with pytest.raises(FileError, match=f"a file .*{line}|a file {line}"):
        json_in(text, "a file")


def test_json_that_is(tmp_path: Path) -> None:
    body = {"a": [1, 2.5, None, {"b": [[]]}], "big": 2**80}
    assert read_json(write_text(tmp_path / "a.json", json.dumps(body))) == body
    deep = "[" * 100 + "]" * 100
    assert json.dumps(json_in(deep, "deep")) == deep


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(description: str, body: bytes = bytes(64)) -> bytes:
    words = (description + " " * (-(len(description) + 11) % 64) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + body


@pytest.mark.parametrize(
    "array", [np.zeros(()), np.zeros((0, 3)), np.arange(6).reshape(2, 3).T, np.array([True]), np.zeros(3, np.float16)]
)
def test_arrays_come_back(array: np.ndarray) -> None:
    found = array_in(saved(array), "a.npy")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        saved(np.arange(9))[:-1],
        saved(np.zeros(2, complex)),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 0), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
        header("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,), }"),
        header("{'descr': ('<f8', (1000000,)), 'fortran_order': False, 'shape': (1000000,), }"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        header("{'descr': ((((((((" * 9),
        header("(" * 500),
        b"\x93NUMPY\x07\x00" + bytes(99),
    ],
)
def test_arrays_that_are_none_are_one_line_and_get_no_room(content: bytes) -> None:
    with pytest.raises(FileError, match=r"a\.npy is not a saved NumPy array of numbers \(") as caught:
        array_in(content, "a.npy")
    assert "\n" not in str(caught.value)


def test_arrays_that_python_2_wrote_are_read_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    found = array_in(header("{'descr': '<f8', 'fortran_order': False, 'shape': (8L,), }"), "a.npy")
    assert found.shape == (8,)
    assert not recwarn.list


def packed(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_packs_of_arrays_come_back() -> None:
    arrays = {"a": np.arange(3), "b": np.zeros((2, 0))}
    found = arrays_in(packed(**arrays), "a.npz")
    assert found.keys() == arrays.keys()
    np.testing.assert_array_equal(found["a"], arrays["a"])


def test_packs_that_are_none_or_would_blow_up() -> None:
    whole, bomb = packed(a=np.arange(99)), io.BytesIO()
    np.savez_compressed(bomb, a=np.zeros(1_000_000))
    locked = bytearray(whole)
    locked[whole.index(b"PK\x01\x02") + 8] |= 1  # says that it has a password
    for content in (b"", whole[:50], whole[:-30], whole[:200] + b"x" + whole[201:], bomb.getvalue(), bytes(locked)):
        with pytest.raises(FileError, match=r"a\.npz is no \.npz file of ours"):
            arrays_in(content, "a.npz")
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("a.npy", b"no array")
    with pytest.raises(FileError, match=r"a in a\.npz is not a saved NumPy array"):
        arrays_in(other.getvalue(), "a.npz")


def write_half(path: Path, failure: BaseException) -> None:
    with written(path) as draft:
        draft.write_text("half")
        raise failure


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", "old")
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left") as caught:
        write_half(path, full)
    assert caught.value.filename == str(path)
    for failure in (KeyboardInterrupt(), ValueError("ours")):
        with pytest.raises(type(failure)):
            write_half(path, failure)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_file_beyond_the_size_that_is_allowed_is_not_written(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_bytes(tmp_path / "a.wad", bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert has_no_room(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_only_regular_files_are_written_over(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "null"):
        with pytest.raises(UsageError, match="is no regular file and is not written over"):
            write_bytes(path, b"")
    with pytest.raises(UsageError, match="is a folder; name a file by --out"):
        require_replaceable(tmp_path)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/file")
    write_bytes(tmp_path / "link", b"1")
    write_bytes(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"2"


def test_room_that_is_missing_is_known_in_all_its_words() -> None:
    full = [OSError(code, os.strerror(code)) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
    assert all(map(has_no_room, [*full, RuntimeError("I/O error: ... (os error 28)")]))
    assert not any(map(has_no_room, [OSError(errno.EACCES, "Permission denied"), ValueError("28")]))


def test_only_what_does_not_fit_counts_as_out_of_memory() -> None:
    import torch

    def caught(make: object) -> BaseException:
        with pytest.raises((MemoryError, RuntimeError, ValueError)) as found:
            make()  # type: ignore[operator]
        return found.value

    assert is_out_of_memory(caught(lambda: np.zeros(2**50, np.int8)))
    assert is_out_of_memory(caught(lambda: np.zeros((2**40, 2**40), np.int8)))
    assert is_out_of_memory(caught(lambda: torch.empty(2**50)))
    assert is_out_of_memory(caught(lambda: torch.empty(2**40, 2**40)))
    assert not is_out_of_memory(caught(lambda: torch.zeros(3) @ torch.zeros(4)))
    assert not is_out_of_memory(caught(lambda: np.zeros(3) + np.zeros(4)))


def test_only_regular_files_of_a_known_size_are_copied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", (2 << 20) + 1)
    for name, line in (("pipe", "a pipe or a device"), ("device", "a pipe or a device"), ("huge", "more than 2 MB")):
        with pytest.raises(FileError, match=line):
            copy_file(tmp_path / name, tmp_path / "copy", 2 << 20)
        assert not (tmp_path / "copy").exists()
    (tmp_path / "small").write_text("small")
    copy_file(tmp_path / "small", tmp_path / "copy", 2 << 20)
    assert (tmp_path / "copy").read_text() == "small"
