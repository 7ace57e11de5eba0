"""Figures into files: pictures for the screen, vector graphics with captions for a manuscript."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from sfl.core.files import write_bytes, write_text
from sfl.run.plots.style import Plate

Form = Literal["pdf", "svg"]
DPI = 150
MARGIN = 0.03  # inches above and below a figure of a manuscript

SETTINGS: dict[Any, Any] = {"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "sfl"}
"""Letters stay letters in a PDF, with their fonts embedded (publishers refuse type 3), and look alike in every SVG."""

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}


def save_png(figure: Figure, path: Path) -> Path:
    """As large as what was drawn."""
    return write_bytes(path, png_of(figure))


def png_of(figure: Figure) -> bytes:
    """The content of a file. On a disk that is full, what draws into a file complains in words of its own."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DPI, bbox_inches="tight", facecolor="white")
    return picture.getvalue()


def save_vector(figure: Figure, path: Path) -> Path:
    """As wide as the figure was made, so that letters keep their size in print; as high as what was drawn."""
    picture, form = io.BytesIO(), path.suffix.removeprefix(".")
    with matplotlib.rc_context(SETTINGS):
        figure.draw_without_rendering()  # panels find their places only now
        drawn = figure.get_tightbbox()
        box = Bbox.from_extents(0, drawn.y0 - MARGIN, figure.get_figwidth(), drawn.y1 + MARGIN)
        date = {"Date" if form == "svg" else "CreationDate": None}
        figure.savefig(picture, format=form, bbox_inches=box, metadata=date)
    return write_bytes(path, picture.getvalue())


def save_plates(plates: Mapping[str, Plate], folder: Path, form: Form) -> list[Path]:
    """All figures of a folder and their captions, as Markdown and as LaTeX."""
    if not plates:
        return []
    files = [save_vector(plate.figure, folder / f"{name}.{form}") for name, plate in plates.items()]
    lines = [f"**{file.name}**: {plate.caption}" for file, plate in zip(files, plates.values(), strict=True)]
    captions = write_text(folder / "captions.md", "\n\n".join(lines) + "\n")
    latex = "\n".join(_latex(name, plate) for name, plate in plates.items())
    return [*files, captions, write_text(folder / "captions.tex", latex)]


def _latex(name: str, plate: Plate) -> str:
    return (
        "\\begin{figure}[t]\n  \\centering\n"
        f"  \\includegraphics[width={plate.figure.get_figwidth():.2f}in]{{{name}}}\n"
        f"  \\caption{{{escaped(plate.caption)}}}\n  \\label{{fig:{name}}}\n\\end{{figure}}\n"
    )


def escaped(text: str) -> str:
    """A line for LaTeX, with every letter as itself."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)
