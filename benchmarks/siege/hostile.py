"""Mad values and damaged bytes, from a case's own dice."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

NUMBERS = (
    *("0", "-1", "1", "2", "-0", "00", "0x10", "1_000", "1e3", "1e12", "-1e12", "1e308", "1e400", "-1e400", "1e-400"),
    *("inf", "-inf", "nan", "NaN", "Infinity", "+5", "5.", ".5", "0.5", "2147483647", "2147483648", "-2147483649"),
    *("4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e18", "3.0000000001"),
    *("9" * 400, "0." + "0" * 400 + "1", "١٢", "½", "1,5", "1 000", "True", "None", "1j", "0b1", "1e", "--5", "1/2"),
)
WORDS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "a\nb",
        "-",
        "--",
        "---",
        "=",
        "'",
        '"',
        "\\",
        "/",
        ".",
        "..",
        "~",
        "*",
        "?",
        "%s",
        "%n",
        "{}",
    ),
    *("{0}", "{x.__class__}", "$HOME", "`id`", ";ls", "|", "&&", "#", "\x1b[31mred", "\x07", "\r", "\u202e", "\ufeff"),
    *(
        "ü",
        "日本語",
        "😀",
        "e\u0301",
        "\udcff",
        "x" * 300,
        "x" * 5000,
        "ab" * 60_000,
        "/dev/null",
        "/dev/zero",
        "/dev/full",
    ),
    *(
        "/proc/self/mem",
        "/etc/passwd",
        "/",
        "con",
        "nul",
        "None",
        "null",
        "true",
        "false",
        "yes",
        "[]",
        "{}",
        "()",
        "[1,2]",
    ),
    *(
        "../../..",
        "a/../b",
        "//",
        "file:///etc",
        "http://127.0.0.1:9/",
        "last",
        "latest",
        "-h",
        "--help",
        "--version",
        "@x",
    ),
)


def number(dice: random.Random) -> str:
    """A number, or almost one, as text."""
    kind = dice.randrange(4)
    if kind == 0:
        return str(dice.randint(-(10 ** dice.randint(1, 30)), 10 ** dice.randint(1, 30)))
    if kind == 1:
        return repr(dice.uniform(-1, 1) * 10.0 ** dice.randint(-320, 300))
    return dice.choice(NUMBERS)


def word(dice: random.Random) -> str:
    """A text that nobody expects."""
    kind = dice.randrange(4)
    if kind == 0:
        return "".join(
            chr(dice.choice((dice.randrange(1, 128), dice.randrange(0xA0, 0xD7FF)))) for _ in range(dice.randint(1, 40))
        )
    return dice.choice(NUMBERS) if kind == 1 else dice.choice(WORDS)


def value(dice: random.Random, depth: int = 0) -> Any:
    """A JSON value that nobody expects."""
    makers: list[Callable[[], Any]] = [
        lambda: dice.choice([None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324]),
        lambda: dice.choice([float("nan"), float("inf"), float("-inf")]),
        lambda: dice.choice([s for s in WORDS if len(s) < 400]),
        lambda: dice.choice(["0", "1", "0.5", "true", "x" * 100_000, "last"]),
        lambda: [value(dice, depth + 1) for _ in range(dice.randint(0, 4))] if depth < 3 else [],
        lambda: (
            {dice.choice(WORDS[:40]): value(dice, depth + 1) for _ in range(dice.randint(0, 3))} if depth < 3 else {}
        ),
    ]
    return dice.choice(makers)()


def damaged(content: bytes, dice: random.Random) -> bytes:
    """Bytes of a file with something wrong: cut, halved, zeroed, flipped, doubled, mixed up, or others altogether."""
    size = max(1, len(content))
    spot = dice.randrange(size)
    length = dice.choice((1, 2, 4, 8, 64, 512, size // 2 + 1))
    head = dice.randrange(min(size, 200))
    makers: list[Callable[[], bytes]] = [
        lambda: content[:spot],
        lambda: content[: size // 2],
        lambda: content[: dice.randrange(min(size, 64) + 1)],
        lambda: b"",
        lambda: bytes(size),
        lambda: content[:spot] + bytes(length) + content[spot + length :],
        lambda: content[:spot] + dice.randbytes(length) + content[spot + length :],
        lambda: content[:head] + dice.randbytes(dice.choice((1, 2, 4, 8))) + content[head + 4 :],
        lambda: content[:head] + struct.pack("<q", dice.choice((-1, 2**31, 2**40, 2**62, 0))) + content[head + 8 :],
        lambda: content[:spot] + content[spot + length :],
        lambda: content[:spot] + content[spot : spot + length] * 3 + content[spot + length :],
        lambda: content + dice.randbytes(dice.choice((1, 100, 10_000))),
        lambda: content + content,
        lambda: dice.randbytes(dice.choice((1, 16, 1000, 100_000))),
        lambda: content[::-1],
        lambda: flipped(content, dice, dice.choice((1, 1, 1, 10, 100))),
        lambda: b"\xff\xfe" + content,
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"0", b"9"),
    ]
    return dice.choice(makers)()


def flipped(content: bytes, dice: random.Random, bits: int) -> bytes:
    """Single bits changed."""
    if not content:
        return b"\1"
    changed = bytearray(content)
    for _ in range(bits):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def changed_json(document: Any, dice: random.Random, changes: int = 1) -> Any:
    """A JSON document with values of other types, without keys, or with others."""
    copy = json.loads(json.dumps(document))
    for _ in range(changes):
        spots = list(_spots(copy))
        if not spots:
            return value(dice)
        holder, key = dice.choice(spots)
        kind = dice.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[str(key) + "x"] = holder.pop(key)
        elif kind == 2 and isinstance(holder, dict):
            holder[dice.choice(WORDS[:40])] = value(dice)
        else:
            holder[key] = value(dice)
    return copy


def _spots(document: Any) -> Any:
    keys: Any = (
        document.keys() if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    )
    for key in list(keys):
        yield document, key
        yield from _spots(document[key])


def json_text(document: Any, dice: random.Random) -> bytes:
    """A document as text, now and then as no JSON at all."""
    text = json.dumps(document)
    others: list[Callable[[], bytes]] = [
        lambda: damaged(text.encode(), dice),
        lambda: b"[" * dice.choice((2_000, 20_000, 200_000)),
        lambda: b'{"a":' * dice.choice((2_000, 20_000)) + b"1",
        lambda: text.encode(dice.choice(("utf-16", "utf-32", "utf-8-sig"))),
        lambda: text.replace('"', "'").encode(),
        lambda: dice.choice(
            (b"9" * 400, b"1e999", b"NaN", b"[" + b"9" * 5000 + b"]", b"\xff\xfe\x00", b"null", b'"\\ud800"')
        ),
    ]
    return dice.choice(others)() if dice.random() < 0.45 else text.encode()


def png(
    width: int, height: int, dice: random.Random, colour: int = 2, depth: int = 8, rows: int | None = None
) -> bytes:
    """A PNG of any size that is small as a file: rows of one colour."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 3)
    row = b"\0" + bytes([dice.randrange(256)]) * ((width * samples * depth + 7) // 8)
    packer = zlib.compressobj(9)
    count = min(height, 40_000) if rows is None else rows
    body = b"".join([*(packer.compress(row) for _ in range(count)), packer.flush()])
    header = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, depth, colour, 0, 0, 0)
    palette = [(b"PLTE", bytes(range(256)) * 3)] if colour == 3 else []
    chunks = [(b"IHDR", header), *palette, (b"IDAT", body), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def npy(header: str, body: bytes, version: bytes = b"\x01\x00") -> bytes:
    """A file of NumPy's with any header."""
    text = header.encode("latin-1", "replace") + b" " * 10 + b"\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) & (0xFFFF if version[0] == 1 else 0xFFFFFFFF))
    return b"\x93NUMPY" + version + size + text + body


def write(path: Path, content: bytes | str) -> Path:
    """A file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    return path
