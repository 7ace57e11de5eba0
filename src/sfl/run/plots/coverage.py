"""Where training has been in a maze, of one run or of several beside each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

from sfl.run.plots.panels import Site, count_bar, headline, map_panels
from sfl.run.plots.style import Plate

UNSEEN = "#EEEEEE"
COLUMNS = 3


def coverage_figure(sites: Sequence[Site]) -> Plate:
    """Squares of 50 units by how often training was in them, a map for each run in the same maze."""
    first = sites[0]
    squares = first.world.squares()
    side, visits = squares.side, [squares.visits(site.run.poses) for site in sites]
    shares = [f"{100 * (seen > 0).mean():.0f}% of {len(seen)} squares" for seen in visits]
    names = shares
    if len(sites) > 1:
        spawns = [site.world.places.spawn for site in sites]
        names = [
            f"{headline(site.run)}, {spawn} spawn: {share}"
            for site, spawn, share in zip(sites, spawns, shares, strict=True)
        ]
    figure, panels = map_panels(first, "Where training has been", names, min(COLUMNS, len(sites)))
    norm = LogNorm(1, max(2, *(int(seen.max()) for seen in visits)))
    for axes, seen in zip(panels, visits, strict=True):
        tiles = PatchCollection([Rectangle((side * x, side * y), side, side) for x, y in squares.reachable])
        tiles.set(edgecolor="white", linewidth=first.style.size(0.4), norm=norm, array=np.ma.masked_equal(seen, 0))
        tiles.set_cmap(colormaps["viridis"].with_extremes(bad=UNSEEN))
        axes.add_collection(tiles)
    count_bar(figure, panels, tiles, f"decisions in a square of {side:g} units", first.style)
    covered = f" Visited: {shares[0]}." if len(sites) == 1 else ""
    about = (
        f"State coverage in the maze {first.world.maze}: squares of {side:g} units by the number of training decisions "
        f"made in them; pale ones were never visited.{covered}"
    )
    return Plate(figure, about, tuple(names), headline(first.run) if len(sites) == 1 else "")
