"""What a PDF file holds, read with nothing but zlib: enough to tell a drawing from a picture of one."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from sfl.show.style import COLUMN, TEXT

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


def check(files: list[Path], pictures: tuple[str, ...] = ()) -> list[str]:
    """Each file is a drawing, and has a caption; returns their names. `pictures` show frames of the game."""
    drawings = [file for file in files if file.suffix == ".pdf"]
    for file in drawings:
        found = read_pdf(file)
        assert found.size[0] in (pytest.approx(COLUMN), pytest.approx(TEXT)), file
        assert found.texts > 0, file
        assert found.lines > 20, file
        assert found.embedded, file
        assert bool(found.images) == (file.stem in pictures), file
        assert set(found.images) <= {(160, 120)}, f"{file} is a picture of a drawing"
    for folder in {file.parent for file in drawings}:
        check_captions(folder, [file for file in drawings if file.parent == folder])
    return [file.stem for file in drawings]


def check_captions(folder: Path, drawings: list[Path]) -> None:
    lines = (folder / "captions.md").read_text().strip().split("\n\n")
    assert [re.match(r"\*\*(.+?)\*\*: ", line)[1] for line in lines] == [file.name for file in drawings]  # type: ignore[index]
    for line in lines:
        assert re.search(r"[\w-]+, seed [\d, ]+, [\d,]+ steps", line), line
        assert line.endswith("."), line
    latex = (folder / "captions.tex").read_text()
    assert re.findall(r"\\includegraphics\[width=\d\.\d\din\]\{(.+)\}", latex) == [file.stem for file in drawings]
    assert latex.count(r"\caption{") == latex.count(r"\label{fig:") == len(drawings)
