"""Colours and shapes of the frames of a video."""

from __future__ import annotations

from PIL import Image, ImageDraw

SIDE = 576  # pixels of the world's longer side
PANEL = 288  # width of the text beside it
EYE = 384  # width of what the agent sees
GOAL_SIDE = 160  # longer side of the picture of the goal
MARGIN = 18
SMOOTH = 2  # marks are drawn this much larger and then shrunk, which smooths their lines

Colour = tuple[int, int, int]
GROOVE = (44, 47, 54)
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


def dashed(
    draw: ImageDraw.ImageDraw, start: tuple[float, float], end: tuple[float, float], colour: Colour, width: int
) -> None:
    """A line of short strokes."""
    (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
    strokes = max(1, round((dx * dx + dy * dy) ** 0.5 / (8 * SMOOTH)))
    for number in range(strokes):
        begin, stop = number / strokes, (number + 0.55) / strokes
        draw.line((x + begin * dx, y + begin * dy, x + stop * dx, y + stop * dy), fill=colour, width=max(1, width))


def bar(
    draw: ImageDraw.ImageDraw, corner: tuple[int, int], width: int, height: int, share: float, colour: Colour
) -> None:
    """A horizontal bar that is filled to a share of its width."""
    x, y = corner
    draw.rectangle((x, y, x + width, y + height), fill=GROOVE)
    draw.rectangle((x, y, x + round(share * width), y + height), fill=colour)
