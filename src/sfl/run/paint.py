"""Colours and shapes of the frames of a video."""

from __future__ import annotations

from PIL import Image, ImageDraw

SIDE = 576  # pixels of the world's longer side
PANEL = 288  # width of the text beside it
MARGIN = 18
SMOOTH = 2  # marks are drawn this much larger and then shrunk, which smooths their lines

Colour = tuple[int, int, int]
PAPER, INK, FAINT, WHITE = (24, 26, 31), (238, 238, 238), (150, 156, 166), (255, 255, 255)
SKY, ORANGE, YELLOW, GREEN, RED = (86, 180, 233), (230, 120, 20), (250, 225, 60), (0, 190, 130), (240, 60, 60)


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """As large as fits into a square, in its own proportions."""
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST)


def dot(
    draw: ImageDraw.ImageDraw,
    middle: tuple[float, float],
    radius: float,
    fill: Colour | None,
    edge: Colour,
    width: int = 2,
) -> None:
    """A disc with an edge, or without `fill` a ring."""
    x, y = middle
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill, outline=edge, width=max(1, width))
