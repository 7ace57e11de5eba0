"""`sfl maze build`, `import` and `show`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import pytest

from sfl.cli import main
from sfl.worlds.mazes.layout import read_layout
from sfl.worlds.mazes.load import build_maze, load_maze, write_whole
from sfl.worlds.mazes.textures import Textures
from sfl.worlds.mazes.wad import maps_of, read_wad

from .drawings import CORNER, hexen_wad


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a drawing and the base map of `sgm`, to work in."""
    (tmp_path / "corner.txt").write_text(CORNER)
    (tmp_path / "sgm-base.wad").write_bytes(hexen_wad())
    (tmp_path / "textures-train.txt").write_text("WOOD1\nSTEP1 P2\nWOOD3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFL_MAZES", raising=False)
    return tmp_path


def test_build_writes_the_wad_of_a_layout(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["maze", "build", "corner.txt", "--out", "wads/corner.wad"]) == 0
    assert capsys.readouterr().out == "wads/corner.wad\n"
    layout = read_layout(CORNER, "corner")
    assert Path("wads/corner.wad").read_bytes() == build_maze(layout).wad
    words = ["--texture-kind", "train", "--texture-density", "sparse", "--texture-seed", "3"]
    assert main(["maze", "build", "corner.txt", "--out", "b.wad", *words]) == 0
    assert Path("b.wad").read_bytes() == build_maze(layout, Textures("train", "sparse", 3)).wad
    assert sorted(path.name for path in place.rglob("*.tmp")) == []


def test_import_writes_copies_in_textures_of_one_seed_after_the_other(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--texture-kind", "train", "--texture-seed", "7", "--copies", "3", "--maze-dir", "."]
    assert main(["maze", "import", "sgm", "--out", "many.wad", *words]) == 0
    said = capsys.readouterr()
    assert said.out == "many.wad\n"
    assert said.err == "Left out of the list of textures, because Freedoom has none of that name: STEP1 P2.\n"
    lumps = read_wad(Path("many.wad").read_bytes(), "")
    assert list(maps_of(lumps)) == ["MAP01", "MAP02", "MAP03"]
    sides = [lump.body for lump in lumps if lump.name == "SIDEDEFS"]
    for body, seed in zip(sides, (7, 8, 9), strict=True):
        maze = load_maze("sgm", place, Textures("train", seed=seed))
        assert body in maze.wad


def test_import_without_textures_keeps_the_map(place: Path) -> None:
    assert main(["maze", "import", "sgm-base.wad", "--out", "same.wad"]) == 0
    assert [lump.body for lump in read_wad(Path("same.wad").read_bytes(), "")] == [
        lump.body for lump in read_wad(hexen_wad(), "")
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "build corner.txt --out corner.txt",
            "corner.txt exists already; choose another place with --out, or replace it",
        ),
        ("build corner.txt --out .", ". is a folder; name a file by --out."),
        ("build sgm-base.wad --out a.wad", "'sgm-base.wad' is no layout: give a .txt file or one of corridors, large,"),
        ("build absent.txt --out a.wad", "Cannot read the layout from absent.txt: No such file or directory."),
        ("build corner.txt", "Missing from sfl maze build: --out PATH"),
        ("build corner.txt --out a.wad --texture-kind tset", "invalid choice 'tset'"),
        ("import sgm --out a.wad", "The maze 'sgm' is the paper's: name the folder that holds sgm-base.wad"),
        ("import corner.txt --out a.wad --copies 4", "Copies differ by their textures: give the first --texture-seed."),
        ("import corner.txt --out a.wad --copies 0", "copies must be 1 to 999, got 0."),
        ("import corner.txt --out a.wad --texture-seed -1", "The seed of textures must be 0 or more, got -1."),
        ("show smal --out a.png", "No maze 'smal'. Did you mean 'small'?"),
        ("show corner.txt --out a.png --views 0", "views must be at least 1, got 0."),
        ("show corner.txt --out corner.txt", "corner.txt exists already"),
        ("draw corner.txt", "No command 'maze draw'."),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    words: str, complaint: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in place.iterdir()}
    assert main(["maze", *words.split()]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith("sfl: ")
    assert said.count("\n") == 1
    assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_a_file_is_replaced_when_told_so(place: Path) -> None:
    assert main(["maze", "build", "corner.txt", "--out", "sgm-base.wad", "--force"]) == 0
    assert load_maze("sgm-base.wad").regions == read_layout(CORNER, "").regions


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfl.files.os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(place / "corner.txt", b"new", force=True)
    assert (place / "corner.txt").read_text() == CORNER
    assert not list(place.glob("*.tmp"))


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["maze", "--help"]) == 0
    assert main(["maze"]) == 2
    assert capsys.readouterr().out.count("build LAYOUT --out FILE.wad") == 2


def test_show_draws_the_map_and_views(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["maze", "show", "corner.txt", "--out", "corner.png", "--views", "2"]) == 0
    assert capsys.readouterr().out == "corner.png\n"
    picture = imageio.imread("corner.png")[..., :3]
    assert picture.shape[0] > 600
    assert picture.shape[1] > 600
    for colour in ((0xD8, 0x1B, 0x1B), (0x56, 0xB4, 0xE9), (0x00, 0x9E, 0x73)):  # the start, easy and medium goals
        assert (picture == colour).all(-1).sum() > 50
    assert {path.name for path in place.iterdir()} == {
        *("corner.txt", "sgm-base.wad", "textures-train.txt", "corner.png")
    }
