"""Landmarks by clustering."""

from __future__ import annotations

import numpy as np

from sfl.api import Array
from sfl.method.candidates import cluster_centres


def at_angles(*degrees: float) -> Array:
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_middle_of_each_group_is_found() -> None:
    groups = at_angles(0, 10, 20, 90, 94, 98, 200, 201, 202)
    assert cluster_centres(groups, 3).tolist() == [1, 4, 7]


def test_one_cluster_has_its_centre_at_the_mean() -> None:
    assert cluster_centres(at_angles(0, 20, 50, 80), 1).tolist() == [2]  # the mean direction is at 37 degrees


def test_every_row_is_a_centre_when_there_are_no_more() -> None:
    rows = at_angles(0, 120, 240)
    assert cluster_centres(rows, 3).tolist() == [0, 1, 2]
    assert cluster_centres(rows, 10).tolist() == [0, 1, 2]


def test_equal_rows_are_one_centre() -> None:
    assert cluster_centres(at_angles(0, 0, 0, 90), 3).tolist() == [0, 3]


def test_centres_stand_in_the_middle_not_at_the_rim() -> None:
    rng = np.random.default_rng(0)
    cloud = np.concatenate([at_angles(*rng.normal(middle, 15, 40)) for middle in (0, 180)])
    centres = cloud[cluster_centres(cloud, 2)]
    assert (np.abs(centres[:, 0]) > np.cos(np.deg2rad(6))).all()
