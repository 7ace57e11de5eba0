"""The figure of the leading indicators draws every line that it has numbers for."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from sfl.show.curves import PANELS, Panel, _draw, _lines


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_every_line_of_a_panel_is_drawn(panel: Panel) -> None:
    table = {"env_steps": [1.0, 2.0]} | {name.format(100): [0.5, 0.6] for name in panel.lines}
    lines = _lines(panel, [table], radius=100)
    axes = Figure().add_subplot()
    _draw(axes, panel, lines, "map units")
    assert [line.get_label() for line in axes.get_lines()] == list(lines)
    assert len(lines) == len(panel.lines)
    assert len({line.get_color() for line in axes.get_lines()}) == len(lines)
    np.testing.assert_allclose(axes.get_lines()[0].get_xdata(), [1, 2])
