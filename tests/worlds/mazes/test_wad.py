"""WADs are read and written byte by byte as the format says."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfl.errors import UsageError
from sfl.worlds.mazes.wad import Lump, map_lumps, maps_of, read_wad, write_wad

from .drawings import hexen_wad, pwad

NAMES = st.text("ABCXYZ0189_-", min_size=1, max_size=8)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=8))
def test_writing_agrees_with_the_format_and_reading_undoes_it(lumps: list[tuple[str, bytes]]) -> None:
    data = write_wad([Lump(*lump) for lump in lumps])
    assert data == pwad(*lumps)
    assert [(lump.name, lump.body) for lump in read_wad(data, "a.wad")] == lumps


@pytest.mark.parametrize("data", [b"", b"PWAD", b"<html></html>", b"PK\3\4" + bytes(60)])
def test_what_is_no_wad_is_named(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^maps/a\.wad is not a WAD: it does not begin with PWAD or IWAD\.$"):
        read_wad(data, "maps/a.wad")


def test_cut_off_wads_are_named() -> None:
    data = hexen_wad()
    with pytest.raises(UsageError, match=r"a\.wad is cut off: its directory of 7 lumps lies beyond its 100 bytes"):
        read_wad(data[:100], "a.wad")
    broken = bytearray(pwad(("THINGS", b"12345")))
    broken[21:25] = struct.pack("<i", 999)  # the size in the only entry of the directory
    with pytest.raises(UsageError, match=r"a\.wad is cut off: its lump THINGS lies beyond"):
        read_wad(bytes(broken), "a.wad")


def test_maps_are_found_among_other_lumps() -> None:
    lumps = [
        *(Lump("ENDMAP"), Lump("CREDITS", b"me")),
        *(Lump("MAP01"), Lump("THINGS", b"1"), Lump("LINEDEFS", b"2"), Lump("BEHAVIOR")),
        *(Lump("TOWN"), Lump("TEXTMAP", b"3"), Lump("ZNODES", b"4"), Lump("ENDMAP"), Lump("LAYOUT", b"5")),
    ]
    assert list(maps_of(lumps)) == ["MAP01", "TOWN"]
    assert [lump.name for lump in map_lumps(lumps, "MAP01")] == ["MAP01", "THINGS", "LINEDEFS", "BEHAVIOR"]
    assert [lump.name for lump in map_lumps(lumps, "TOWN")] == ["TOWN", "TEXTMAP", "ZNODES", "ENDMAP"]


def test_tables_that_would_blow_up_are_refused() -> None:
    many = 200_000
    header = struct.pack("<4sii", b"PWAD", many, 12)
    with pytest.raises(UsageError, match=r"a\.wad has 200,000 lumps"):
        read_wad(header + bytes(16 * many), "a.wad")
    whole = struct.pack("<ii8s", 0, 12 + 16 * 9, b"ALL")  # nine lumps, and each of them the whole file
    with pytest.raises(UsageError, match=r"a\.wad is damaged: its lumps hold more than there is"):
        read_wad(struct.pack("<4sii", b"PWAD", 9, 12) + whole * 9, "a.wad")
    for count, place in ((2**31 - 1, 12), (-1, 12), (1, -12)):
        with pytest.raises(UsageError, match="is cut off"):
            read_wad(struct.pack("<4sii", b"PWAD", count, place) + bytes(99), "a.wad")
