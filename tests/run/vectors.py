"""What a PDF file holds, read with nothing but zlib: enough to tell drawings from a picture of one."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

SHOW_TEXT, CURVE_OR_LINE = re.compile(rb"\bT[jJ]\b"), re.compile(rb" [lc]\n")


@dataclass(frozen=True)
class Vectors:
    """One page."""

    size: tuple[float, float]
    """Width and height in inches."""
    texts: int
    """Operators that show letters."""
    lines: int
    """Operators that draw a line or a curve."""
    images: list[tuple[int, int]]
    """Width and height in pixels of every bitmap on it."""
    embedded: bool
    """All fonts are in the file, as TrueType (type 42)."""


def read_pdf(path: Path) -> Vectors:
    body = path.read_bytes()
    assert body.startswith(b"%PDF-"), path
    streams = [_inflated(part) for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", body, re.DOTALL)]
    drawn = b"\n".join(part for part in streams if part is not None)
    box = re.search(rb"/MediaBox \[ ?([\d. ]+?) ?\]", body)
    assert box is not None, path
    left, bottom, right, top = map(float, box[1].split())
    images = [_image_size(part) for part in re.findall(rb"/Subtype /Image.*?stream", body, re.DOTALL)]
    fonts = b"/FontFile2" in body and b"/Subtype /Type3" not in body
    sizes = (right - left) / 72, (top - bottom) / 72
    return Vectors(sizes, len(SHOW_TEXT.findall(drawn)), len(CURVE_OR_LINE.findall(drawn)), images, fonts)


def _inflated(stream: bytes) -> bytes | None:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return None


def _image_size(header: bytes) -> tuple[int, int]:
    width, height = (re.search(rb"/" + word + rb" (\d+)", header) for word in (b"Width", b"Height"))
    assert width is not None
    assert height is not None
    return int(width[1]), int(height[1])
