"""The two ways in which every figure is drawn: for the screen, and for a manuscript with its words in a caption."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from sfl.files import write_bytes, write_text

COLUMN, TEXT = 3.25, 5.5  # inches: a column of a page with two, and the whole text of a page with one
SIDES = {1: 6.2, 2: 4.4, 3: 3.4, 4: 2.9}  # inches of a map's longer side on the screen, by the number of columns
BAR, GAP = 0.55, 0.08  # inches for a colour bar, and between two maps of a manuscript


@dataclass(frozen=True)
class Style:
    """How large letters and marks are, and where the words about a figure stand."""

    titled: bool
    """Titles stand in the figure; else its panels have letters, and a caption explains them."""
    text: float
    """Size of letters, relative to that on the screen."""
    mark: float
    """Width of lines and size of dots, relative to those on the screen."""

    def font(self, points: float) -> float:
        """The size of letters that measure so many points on the screen."""
        return self.text * points

    def size(self, points: float) -> float:
        """The same of lines and dots."""
        return self.mark * points

    def width(self, columns: int, inches: float) -> float:
        """The width of a figure with so many panels beside each other; `inches` on the screen."""
        return inches if self.titled else COLUMN if columns == 1 else TEXT

    def map_size(self, extent: tuple[float, float], columns: int) -> tuple[float, float]:
        """Width and height in inches of maps of an extent, of which so many stand beside each other."""
        across, up = extent
        if self.titled:
            scale = SIDES[columns] / max(across, up)
        else:
            slot = (self.width(columns, 0.0) - BAR) / columns - GAP
            scale = min(slot / across, 1.2 * slot / up)
        return scale * across, scale * up

    def headings(self, names: Sequence[str]) -> list[str]:
        """What stands above panels: their names, or letters where there is more than one."""
        if self.titled:
            return list(names)
        return [f"({letter})" for letter in ascii_lowercase[: len(names)]] if len(names) > 1 else [""] * len(names)


SCREEN = Style(titled=True, text=1.0, mark=1.0)
PAPER = Style(titled=False, text=0.75, mark=0.6)


@dataclass(frozen=True, eq=False)
class Plate:
    """A figure and the words that a manuscript has below it."""

    figure: Figure
    about: str
    """What is shown, in whole sentences."""
    panels: tuple[str, ...] = ()
    """What each panel shows."""
    source: str = ""
    """The runs it was made from, with seeds and steps."""

    @property
    def caption(self) -> str:
        """All in one line."""
        letters = [f"({letter}) {name}" for letter, name in zip(ascii_lowercase, self.panels, strict=False)]
        listed = f" {'; '.join(letters)}." if len(letters) > 1 else ""
        made = f" Run: {self.source}." if self.source else ""
        return " ".join(f"{self.about}{listed}{made}".split())


def legend_below(figure: FigureBase, style: Style, handles: list[Line2D], columns: int) -> None:
    """Samples of what was drawn, under the panels; two beside each other where a manuscript's figure is narrow."""
    narrow = isinstance(figure, Figure) and figure.get_figwidth() <= COLUMN
    look: dict[str, Any] = {"ncols": min(columns, 2) if narrow else columns, "fontsize": style.font(9)}
    figure.legend(handles=handles, loc="outside lower center", frameon=False, **look)


# ---- Figures into files: pictures for the screen, vector graphics with captions for a manuscript.

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
