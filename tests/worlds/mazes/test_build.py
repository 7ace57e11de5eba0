"""Layouts into WADs and back, maps of both formats, and new textures on old maps."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.worlds.mazes.layout import Maze, read_layout
from sfl.worlds.mazes.load import build_maze, bundle, load_maze, own_mazes, read_maze, retexture
from sfl.worlds.mazes.textures import WALLS, Textures
from sfl.worlds.mazes.wad import read_udmf, read_wad, retexture_udmf

from .drawings import CORNER, UDMF_ROOM, hexen_room, hexen_wad, pwad


def lumps_of(maze: Maze) -> dict[str, bytes]:
    return {lump.name: lump.body for lump in read_wad(maze.wad, maze.name)}


def hexen_sides(maze: Maze) -> list[tuple[str, ...]]:
    """Upper, lower and middle texture of each side."""
    rows = struct.iter_unpack("<hh8s8s8sH", lumps_of(maze)["SIDEDEFS"])
    return [tuple(name.rstrip(b"\0").decode() for name in row[2:5]) for row in rows]


def test_a_built_wad_reads_back_as_the_same_maze() -> None:
    built = build_maze(read_layout(CORNER, "file"), Textures(seed=2))
    back = read_maze(built.wad, "corner", "corner.wad")
    assert back.walls.tolist() == built.walls.tolist()
    assert (back.start, back.regions, back.map_name) == (built.start, built.regions, "MAP01")
    assert back.cells is not None
    assert built.cells is not None
    assert back.cells.tolist() == built.cells.tolist()


def test_the_text_of_a_built_map() -> None:
    maze = build_maze(read_layout("heading: 45\n###\n#S#\n###", "cell"), Textures("train", seed=4))
    text = lumps_of(maze)["TEXTMAP"].decode()
    assert text.startswith('namespace = "zdoom";\n')
    assert [text.count(f"{kind} {{") for kind in ("vertex", "linedef", "sidedef", "sector", "thing")] == [4, 4, 4, 1, 1]
    assert all(f'texturemiddle = "{name}"' in text for name in Textures("train", seed=4).walls(4))
    floor, ceiling = Textures("train", seed=4).flats()
    assert f'texturefloor = "{floor}"; textureceiling = "{ceiling}"' in text
    assert "thing { x = 96.0; y = 96.0; angle = 45; type = 1; single = true; skill1 = true;" in text


def test_a_hexen_map_is_read() -> None:
    maze = read_maze(hexen_wad("MAP01", "MAP02"), "room", "room.wad", "MAP02")
    assert maze.walls.tolist() == [
        *([-256, 0, -256, 256], [-256, 256, 256, 256], [256, 256, 256, 0], [256, 0, -256, 0]),
        [0, 0, 0, 128],
    ]
    assert (maze.map_name, maze.start, maze.cells, maze.regions) == ("MAP02", (-128.0, 64.0, 90.0), None, {})
    assert maze.spots == ((128.0, 64.0), (128.0, 192.0))


def test_a_udmf_map_of_others_is_read() -> None:
    maze = read_maze(pwad(("MAP07", b""), ("TEXTMAP", UDMF_ROOM.encode()), ("ENDMAP", b"")), "room", "room.wad")
    outer = [[0, 0, 0, 256], [0, 256, 256, 256], [256, 256, 256, 0], [256, 0, 0, 0]]
    assert maze.walls.tolist() == [*outer, [0, 256, 256, 0]]  # the line with two sides that does not block is none
    assert (maze.map_name, maze.start, maze.spots) == ("MAP07", (64.5, 32.0, 270.0), ())


def test_new_textures_on_a_hexen_map_change_nothing_else() -> None:
    old = read_maze(hexen_wad("MAP01", "MAP02"), "room", "room.wad", "MAP02")
    new = retexture(old, Textures("train", seed=9))
    assert hexen_sides(new) == [("-", "-", name) for name in Textures("train", seed=9).walls(6)]
    fresh, kept = lumps_of(new), dict(hexen_room())
    assert {name for name in kept if fresh[name] != kept[name]} == {"SIDEDEFS"}
    back = read_maze(new.wad, "room", "room.wad", "MAP02")
    assert np.array_equal(back.walls, old.walls)
    assert (back.start, back.spots) == (old.start, old.spots)


def test_new_textures_on_a_udmf_map_change_nothing_else() -> None:
    old = read_maze(pwad(("MAP01", b""), ("TEXTMAP", UDMF_ROOM.encode()), ("ENDMAP", b"")), "room", "room.wad")
    new = retexture(old, Textures(seed=1), ["RED", "BLUE"])
    text = lumps_of(new)["TEXTMAP"].decode()
    drawn = Textures(seed=1).walls(8, ["RED", "BLUE"])[:4]  # sides without a texture stay without
    assert [part.split('"')[1] for part in text.split("texturemiddle = ")[1:]] == drawn
    assert 'texturetop = "-"' in text
    assert 'texturefloor = "MFLR8_1"' in text
    assert 'comment = "}"' in text
    assert np.array_equal(read_maze(new.wad, "room", "room.wad").walls, old.walls)


def test_a_maze_of_ours_in_new_textures_is_the_one_built_with_them() -> None:
    layout = read_layout(CORNER, "file")
    one, two = Textures(seed=1), Textures("train", "sparse", 2)
    assert retexture(build_maze(layout, one), two).wad == build_maze(layout, two).wad
    assert retexture(build_maze(layout, one), one).wad == build_maze(layout, one).wad


def test_a_bundle_has_one_map_for_each_maze() -> None:
    base = read_maze(hexen_wad("MAP05"), "room", "room.wad")
    copies = [retexture(base, Textures("train", seed=seed)) for seed in range(120)]
    wad = bundle(copies)
    for number in (1, 2, 100, 120):
        maze = read_maze(wad, "room", "many.wad", f"MAP{number:02d}")
        alone = retexture(maze, Textures(seed=0)), retexture(copies[number - 1], Textures(seed=0))
        assert hexen_sides(alone[0]) == hexen_sides(alone[1])
        assert np.array_equal(maze.walls, base.walls)
    sides = [lump.body for lump in read_wad(wad, "many.wad") if lump.name == "SIDEDEFS"]
    assert sides == [lumps_of(copy)["SIDEDEFS"] for copy in copies]
    assert len(set(sides)) == 120


def test_a_bundle_of_our_mazes_keeps_the_regions() -> None:
    layout = read_layout(CORNER, "file")
    wad = bundle(build_maze(layout, Textures(seed=seed)) for seed in (1, 2))
    assert read_maze(wad, "corner", "many.wad", "MAP02").regions == layout.regions


@pytest.mark.parametrize(
    ("data", "map_name", "complaint"),
    [
        (pwad(("CREDITS", b"me")), None, r"^odd\.wad holds no map; give a WAD with a map in Hexen or UDMF format\.$"),
        (
            hexen_wad("MAP01", "MAP02"),
            "MAP03",
            r"^No map 'MAP03'\. Did you mean 'MAP0.'\? odd\.wad has MAP01, MAP02\.$",
        ),
        (
            pwad(("MAP01", b""), *hexen_room()[:-1]),
            None,
            r"^MAP01 of odd\.wad is in Doom's old format; only maps in Hex",
        ),
        (
            pwad(("MAP01", b""), ("THINGS", b"123"), *hexen_room()[1:]),
            None,
            r"is not a map in Hexen format: its THINGS",
        ),
        (pwad(("MAP01", b""), ("THINGS", b""), *hexen_room()[1:]), None, r"^MAP01 of odd\.wad has no player start"),
        (pwad(("MAP01", b""), *hexen_room()[:3], *hexen_room()[4:]), None, r"is damaged: a line ends at a vertex that"),
        (
            pwad(("MAP01", b""), ("TEXTMAP", b"vertex { x = 1.0; }")),
            None,
            r"is damaged: its TEXTMAP lacks a value .*'y'",
        ),
        (pwad(("MAP01", b""), ("TEXTMAP", b"vertex { x = 1.0; y = 0.0; }")), None, r"MAP01 of odd\.wad has no player"),
    ],
)
def test_foreign_wads_are_refused_in_one_line(data: bytes, map_name: str | None, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        read_maze(data, "odd", "odd.wad", map_name)
    assert "\n" not in str(caught.value)


def test_our_own_set_is_drawn_from_without_names() -> None:
    maze = retexture(read_maze(hexen_wad(), "room", "room.wad"), Textures("test", seed=3))
    assert {middle for _, _, middle in hexen_sides(maze)} <= set(WALLS["test"])


def blocks(text: str) -> list[tuple[str, dict[str, str]]]:
    """By the regular expressions that everybody writes first, which take quadratic time for odd texts."""
    string = r'"[^"]*"'
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = re.findall(rf"(\w+)\s*\{{((?:{string}|[^}}\"])*)\}}", plain)
    return [
        (kind, {name: value.strip('"') for name, value in re.findall(rf"(\w+)\s*=\s*({string}|[^;]*?)\s*;", body)})
        for kind, body in found
    ]


@pytest.mark.parametrize("name", own_mazes())
def test_a_textmap_is_read_as_regular_expressions_would(name: str) -> None:
    body = read_wad(load_maze(name).wad, name)[1].body.decode()
    commented = body.replace("sidedef", "// }\nsidedef").replace("; }", "; /* x { y */ }")
    for text in (body, commented):
        found = read_udmf(text, name)
        vertices = [(float(at["x"]), float(at["y"])) for kind, at in blocks(text) if kind == "vertex"]
        walls = [(*vertices[int(a["v1"])], *vertices[int(a["v2"])]) for kind, a in blocks(text) if kind == "linedef"]
        np.testing.assert_array_equal(found.walls, walls)
        fresh = retexture_udmf(text, lambda count: [f"T{number}" for number in range(count)], name)
        sides = [fields for kind, fields in blocks(fresh) if kind == "sidedef"]
        assert [side["texturemiddle"] for side in sides] == [f"T{number}" for number in range(len(walls))]
        assert [kind for kind, _ in blocks(fresh)] == [kind for kind, _ in blocks(text)]


@pytest.mark.parametrize(
    "text",
    ["a" * 300_000, '"' + "\\" * 300_000, "/*" * 150_000, "a {" * 100_000, 'a { b = "' + '\\"' * 99_999, "{ " * 99_999],
)
def test_no_odd_textmap_takes_quadratic_time(text: str) -> None:
    with pytest.raises(UsageError, match="has no player start"):
        read_udmf(text, "odd")
    retexture_udmf(text, lambda count: [""] * count, "odd")  # at a microsecond a pair of letters it would take hours


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("x = 1e30; y = 0", "has a place beyond the 32,768 units"),
        ("x = nan; y = 0", "has a place beyond the 32,768 units"),
        ("x = 1; y = one", "lacks a value or holds a wrong one"),
    ],
)
def test_places_that_no_map_has_are_refused(field: str, line: str) -> None:
    text = (
        f"vertex {{ x = 0; y = 0; }} vertex {{ {field}; }} linedef {{ v1 = 0; v2 = 1; }} thing {{ type=1; x=0; y=0; }}"
    )
    with pytest.raises(UsageError, match=line):
        read_udmf(text, "odd")
    with pytest.raises(UsageError, match=r"wrong one \(vertex -1\)"):
        read_udmf("vertex { x = 0; y = 0; } linedef { v1 = -1; v2 = 0; }", "odd")
