"""Textures: two disjoint sets that the engine has, and draws that follow the seed."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

from sfl.errors import UsageError
from sfl.worlds.mazes.load import texture_set
from sfl.worlds.mazes.textures import FLATS, WALLS, Textures, wall_textures
from sfl.worlds.mazes.wad import map_lumps, read_wad

from .drawings import PAPER_MAZES, needs_paper


def test_the_sets_are_disjoint_and_freedoom_has_them() -> None:
    assert not set(WALLS["train"]) & set(WALLS["test"])
    assert not set(FLATS["train"]) & set(FLATS["test"])
    assert set(WALLS["train"]) | set(WALLS["test"]) <= wall_textures()
    flats = {
        lump.name for lump in read_wad((files("vizdoom") / "freedoom2.wad").read_bytes(), "") if len(lump.body) == 4096
    }
    assert set(FLATS["train"]) | set(FLATS["test"]) <= flats


@needs_paper
def test_encoders_trained_on_our_textures_never_saw_the_papers_test_mazes() -> None:
    lists = {kind: set(texture_set(kind, PAPER_MAZES).names) for kind in ("train", "test")}
    shown = set()
    for number in (1, 2, 4, 6):
        data = (PAPER_MAZES / f"test-{number}.wad").read_bytes()
        sides = next(lump.body for lump in map_lumps(read_wad(data, ""), "MAP05") if lump.name == "SIDEDEFS")
        shown |= {sides[place + 20 : place + 28].rstrip(b"\0").decode() for place in range(0, len(sides), 30)}
    assert not set(WALLS["train"]) & (lists["test"] | shown)
    assert not set(WALLS["test"]) & lists["train"]
    assert texture_set("train", PAPER_MAZES).missing == ("STEP1 P2",)


def test_dense_walls_use_the_whole_set_evenly() -> None:
    counts = Counter(Textures(seed=1).walls(100 * len(WALLS["test"])))
    assert set(counts) == set(WALLS["test"])
    assert max(counts.values()) < 150  # 100 are expected, give or take 10


def test_sparse_walls_wear_one_texture_and_now_and_then_one_of_four() -> None:
    counts = Counter(Textures("train", "sparse", 3).walls(10_000)).most_common()
    assert len(counts) == 5
    assert counts[0][1] == pytest.approx(9_200, abs=110)  # four standard deviations
    assert all(count == pytest.approx(200, abs=60) for _, count in counts[1:])


@pytest.mark.parametrize("density", ["dense", "sparse"])
def test_equal_seeds_give_equal_walls(density: str) -> None:
    one, same, other = (Textures("test", density, seed).walls(300) for seed in (7, 7, 8))  # type: ignore[arg-type]
    assert one == same != other


def test_floor_and_ceiling_differ() -> None:
    for seed in range(20):
        floor, ceiling = Textures(seed=seed).flats()
        assert floor != ceiling


def test_names_that_are_given_replace_our_own() -> None:
    assert set(Textures().walls(50, ["A", "B"])) == {"A", "B"}
    assert set(Textures(density="sparse").walls(50, ["A"])) == {"A"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"kind": "tset"}, "must be 'train' or 'test', got 'tset'"),
        ({"density": "thick"}, "must be 'dense' or 'sparse', got 'thick'"),
        ({"seed": -1}, "must be 0 or more, got -1"),
    ],
)
def test_wrong_textures_are_refused(arguments: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Textures(**arguments)  # type: ignore[arg-type]
