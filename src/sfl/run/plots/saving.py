"""Figures into files: pictures for the screen, vector graphics with captions for a manuscript."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

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
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, bbox_inches="tight", facecolor="white")
    return path


def save_vector(figure: Figure, path: Path) -> Path:
    """As wide as the figure was made, so that letters keep their size in print; as high as what was drawn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        figure.draw_without_rendering()  # panels find their places only now
        drawn = figure.get_tightbbox()
        box = Bbox.from_extents(0, drawn.y0 - MARGIN, figure.get_figwidth(), drawn.y1 + MARGIN)
        figure.savefig(path, bbox_inches=box, metadata={"Date" if path.suffix == ".svg" else "CreationDate": None})
    return path


def save_plates(plates: Mapping[str, Plate], folder: Path, form: Form) -> list[Path]:
    """All figures of a folder and their captions, as Markdown and as LaTeX."""
    if not plates:
        return []
    files = [save_vector(plate.figure, folder / f"{name}.{form}") for name, plate in plates.items()]
    lines = [f"**{file.name}**: {plate.caption}" for file, plate in zip(files, plates.values(), strict=True)]
    captions = folder / "captions.md"
    captions.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    latex = folder / "captions.tex"
    latex.write_text("\n".join(_latex(name, plate) for name, plate in plates.items()), encoding="utf-8")
    return [*files, captions, latex]


def _latex(name: str, plate: Plate) -> str:
    return (
        "\\begin{figure}[t]\n  \\centering\n"
        f"  \\includegraphics[width={plate.figure.get_figwidth():.2f}in]{{{name}}}\n"
        f"  \\caption{{{escaped(plate.caption)}}}\n  \\label{{fig:{name}}}\n\\end{{figure}}\n"
    )


def escaped(text: str) -> str:
    """A line for LaTeX, with every letter as itself."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)
