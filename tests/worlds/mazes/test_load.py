"""Mazes by name and by file, and what is said when there is none."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sfl.errors import UnknownNameError, UsageError
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.mazes.load import load_maze, texture_set
from sfl.worlds.mazes.textures import WALLS, Textures
from sfl.worlds.mazes.wad import map_lumps, read_wad

from .drawings import CORNER, PAPER_MAZES, hexen_room, hexen_wad, needs_paper, pwad


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as of the paper's mazes, with rooms of our own in their place."""
    (tmp_path / "sgm-base.wad").write_bytes(hexen_wad("MAP01"))
    (tmp_path / "test-1.wad").write_bytes(hexen_wad("MAP01", "MAP05"))
    (tmp_path / "textures-test.txt").write_text("WOOD1   \n\nwood3\nNOT HERE\n")
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "test-1-fixed-regions.json").write_text(json.dumps({"easy": [[1, 2, 3]], "hard": []}))
    return tmp_path


def middles(maze: Maze) -> list[str]:
    """The wall textures of a Hexen map."""
    lumps = map_lumps(read_wad(maze.wad, ""), maze.map_name)
    sides = next(lump.body for lump in lumps if lump.name == "SIDEDEFS")
    return [row[4].rstrip(b"\0").decode() for row in struct.iter_unpack("<hh8s8s8sH", sides)]


def test_sgm_is_the_base_map_in_dense_test_textures_of_seed_5(folder: Path) -> None:
    maze = load_maze("sgm", folder)
    assert middles(maze) == Textures("test", "dense", 5).walls(6, ["WOOD1", "WOOD3"])
    assert (maze.name, maze.map_name, maze.start) == ("sgm", "MAP01", (-128.0, 64.0, 90.0))
    assert maze.spots == ((128.0, 64.0), (128.0, 192.0))
    train = load_maze("sgm", folder, Textures("train", seed=0))
    assert set(middles(train)) <= set(WALLS["train"])  # the folder has no list of these


def test_test_mazes_keep_their_textures_unless_others_are_asked_for(folder: Path) -> None:
    maze = load_maze("test-1", folder)
    assert set(middles(maze)) == {"STONE2"}
    assert (maze.map_name, maze.start, maze.regions) == (
        "MAP05",
        (128.0, -64.0, 0.0),
        {"easy": ((1, 2, 3),), "hard": ()},
    )
    assert set(middles(load_maze("test-1", folder, Textures(seed=6)))) <= {"WOOD1", "WOOD3"}


def test_the_folder_may_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFL_MAZES", str(folder))
    assert load_maze("sgm").wad == load_maze("sgm", folder).wad
    assert texture_set("test", None).missing == ("NOT HERE",)


def test_files_are_mazes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    (tmp_path / "drawn.txt").write_text(CORNER)
    (tmp_path / "nameless.txt").write_text("###\n#S#\n###\n")
    (tmp_path / "mine.wad").write_bytes(hexen_wad("E1M1", "TOWN"))
    assert load_maze(str(tmp_path / "drawn.txt")).name == "corner"
    assert load_maze(str(tmp_path / "nameless.txt")).name == "nameless"
    maze = load_maze(str(tmp_path / "mine.wad"))
    assert (maze.name, maze.map_name, set(middles(maze))) == ("mine", "E1M1", {"STONE2"})
    other = load_maze(f"{tmp_path}/mine.wad:TOWN", textures=Textures("train"))
    assert other.map_name == "TOWN"
    assert set(middles(other)) <= set(WALLS["train"])


def test_our_mazes_need_no_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    alone = load_maze("small")
    assert alone.wad == load_maze("small", folder).wad
    assert alone.wad != load_maze("small", textures=Textures(seed=6)).wad


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"^No maze 'smal'\. Did you mean 'small'\? There are .*office.*test-6; or"
    ):
        load_maze("smal")


def test_missing_folders_and_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    with pytest.raises(
        UsageError, match=r"^The maze 'sgm' is the paper's: name the folder that holds sgm-base\.wad by SFL_MAZES, or"
    ):
        load_maze("sgm")
    with pytest.raises(UsageError, match=r"^No folder .*nowhere to read the paper's mazes from; correct --maze-dir\."):
        load_maze("sgm", tmp_path / "nowhere")
    monkeypatch.setenv("SFL_MAZES", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"^No folder .*nowhere to read the paper's mazes from; correct SFL_MAZES\."):
        load_maze("sgm")
    with pytest.raises(UsageError, match=r"^Cannot read the maze 'test-2' from .*test-2\.wad: No such file"):
        load_maze("test-2", tmp_path)
    with pytest.raises(UsageError, match=r"^Cannot read the maze from .*gone\.wad: No such file"):
        load_maze(str(tmp_path / "gone.wad"))
    with pytest.raises(UsageError, match=r"^Cannot read the layout from .*gone\.txt: No such file"):
        load_maze(str(tmp_path / "gone.txt"))


def test_foreign_files_are_named(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UsageError, match=r"picture\.txt is no text in UTF-8"):
        load_maze(str(tmp_path / "picture.txt"))
    (folder / "test-1.wad").write_bytes(pwad(("MAP01", b""), *hexen_room()))
    with pytest.raises(UsageError, match=r"^No map 'MAP05'\. .*test-1\.wad has MAP01\.$"):
        load_maze("test-1", folder)
    (folder / "textures-test.txt").write_text("NOTHING\n")
    with pytest.raises(UsageError, match=r"textures-test\.txt lists no texture that Freedoom has\.$"):
        load_maze("sgm", folder)


@pytest.mark.parametrize("content", ["[]x", "[1]", '{"easy": [[1, 2]]}', '{"easy": 3}', '{"steep": [[1, 2, 3]]}'])
def test_wrong_regions_are_refused(content: str, folder: Path) -> None:
    (folder / "pairs" / "test-1-fixed-regions.json").write_text(content)
    with pytest.raises(
        UsageError, match=r"regions\.json (is no whole JSON|must hold lists of \[x, y, radius\] by level: easy, )"
    ):
        load_maze("test-1", folder)


@needs_paper
def test_the_papers_mazes() -> None:
    mazes = {name: load_maze(name, PAPER_MAZES) for name in ("sgm", "test-1", "test-2", "test-4", "test-6")}
    assert {name: len(maze.walls) for name, maze in mazes.items()} == {
        **{"sgm": 299, "test-1": 63, "test-2": 224, "test-4": 106, "test-6": 96}
    }
    pairs = json.loads((PAPER_MAZES / "pairs" / "sgm-random.json").read_text())
    assert set(mazes["sgm"].spots) == {tuple(start[:2]) for level in pairs.values() for start, _ in level}
    assert len(mazes["sgm"].spots) == 20
    assert mazes["test-4"].start == (960.0, -320.0, 270.0)  # the player start of MAP05
    starts = json.loads((PAPER_MAZES / "pairs" / "test-1-fixed.json").read_text())
    assert {tuple(start) for level in starts.values() for start, _ in level} == {mazes["test-1"].start}
    assert {level: len(discs) for level, discs in mazes["test-1"].regions.items()} == {
        **dict.fromkeys(("easy", "medium", "hard", "hardest"), 4)
    }
    assert set(middles(mazes["sgm"])) <= set(texture_set("test", PAPER_MAZES).names)
