from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v3
import numpy as np
import pytest
from PIL import Image

from sfl.errors import UsageError
from sfl.run.goals import parse_pose, picture_in, read_goal
from sfl.worlds import GymConfig, MiniGridConfig, make_env


def rendered(env_id: str, start: tuple[float, float, float]) -> Any:
    env = gymnasium.make(env_id, render_mode="rgb_array")
    env.reset(seed=0, options={"start": start})
    return np.asarray(env.render())


@pytest.mark.parametrize("env_id", ["sfl/FourRoom-v0", "sfl/MultiRoom-N4-v0"])
def test_a_picture_of_the_map_gives_the_pose_it_shows(tmp_path: Path, env_id: str) -> None:
    env = make_env(MiniGridConfig(env_id))
    cells = env.get_wrapper_attr("free_cells")()
    for number, (x, y) in enumerate([cells[0], cells[len(cells) // 2], cells[-1]]):
        pose = (float(x), float(y), 90.0 * (number + 1))
        imageio.v3.imwrite(tmp_path / "goal.png", rendered(env_id, pose))
        assert read_goal(str(tmp_path / "goal.png"), env) == pose


def test_poses_as_text() -> None:
    assert parse_pose("3,4", "--goal") == (3.0, 4.0, 0.0)
    assert parse_pose("3,4,270", "--goal") == (3.0, 4.0, 270.0)
    for text in ("3", "3,4,5,6", "a,b"):
        with pytest.raises(UsageError, match=f"--goal must be x,y or x,y,degrees, got '{text}'"):
            parse_pose(text, "--goal")


def test_saved_observations_are_read(tmp_path: Path) -> None:
    env = make_env(MiniGridConfig())
    observation, _ = env.reset()
    np.save(tmp_path / "goal.npy", observation["desired_goal"])
    np.testing.assert_array_equal(read_goal(str(tmp_path / "goal.npy"), env), observation["desired_goal"])


def bad_files(folder: Path) -> dict[str, str]:
    (folder / "text.npy").write_text("no array")
    (folder / "text.png").write_text("no picture")
    picture = rendered("sfl/FourRoom-v0", (1, 1, 0))
    imageio.v3.imwrite(folder / "cut.png", picture[:-7])
    imageio.v3.imwrite(folder / "empty.png", make_env(MiniGridConfig()).get_wrapper_attr("map_image")(32))
    imageio.v3.imwrite(folder / "other.png", np.ascontiguousarray(picture.swapaxes(0, 1)[::-1]))
    return {
        "text.npy": "is not a saved NumPy array",
        "text.png": "cannot be read as a picture",
        "cut.png": "a picture of this 9x9 map has as many whole tiles",
        "empty.png": "must show one agent on the map, it shows 0",
        "other.png": "shows another map",
        "absent.png": "does not exist",
        "absent.npy": "does not exist",
    }


def test_files_that_show_no_goal_are_one_clear_line(tmp_path: Path) -> None:
    env = make_env(MiniGridConfig())
    for name, line in bad_files(tmp_path).items():
        with pytest.raises(UsageError, match=line) as caught:
            read_goal(str(tmp_path / name), env)
        assert "\n" not in str(caught.value)


def test_pictures_are_for_maps_only(tmp_path: Path) -> None:
    imageio.v3.imwrite(tmp_path / "goal.png", np.zeros((16, 16, 3), np.uint8))
    with pytest.raises(UsageError, match=r"has shape \(16, 16, 3\), the observations have \(16,\)"):
        read_goal(str(tmp_path / "goal.png"), make_env(GymConfig("FrozenLake-v1")))


def bomb(side: int) -> bytes:
    """A PNG of one colour: a megabyte of file for a gigabyte of pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(side * (1 + 3 * side) if side < 5_000 else 99))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_files_that_would_blow_up_or_hold_no_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb(19_000))
    (tmp_path / "large.png").write_bytes(bomb(5_000))
    (tmp_path / "cut.png").write_bytes(bomb(90)[:-30])
    (tmp_path / "tiles.png").write_bytes(bomb(9 * 65))
    np.save(tmp_path / "nan.npy", np.full((9, 9, 3), np.nan))
    np.save(tmp_path / "words.npy", np.full((9, 9, 3), "7"))
    lines = {
        "bomb.png": "is far too large; pictures of at most 4096x4096 pixels are read",
        "large.png": "is 5000x5000 pixels; at most 4096x4096 are read",
        "cut.png": "cannot be read as a picture; give a PNG or JPEG file",
        "tiles.png": "has tiles of 65 pixels; give one whose tiles have at most 64",
        "nan.npy": "holds numbers that are none: NaN or infinite",
        "words.npy": "holds words instead of numbers",
    }
    env = make_env(MiniGridConfig())
    for name, line in lines.items():
        with pytest.raises(UsageError, match=line):
            read_goal(str(tmp_path / name), env)


def test_notes_in_a_picture_that_are_damaged_are_not_complained_of(recwarn: pytest.WarningsRecorder) -> None:
    file = io.BytesIO()
    Image.new("RGB", (9, 9), (255, 0, 0)).save(file, "JPEG")
    notes = b"Exif\0\0II*\0" + b"\xff" * 99
    picture = file.getvalue()[:2] + b"\xff\xe1" + struct.pack(">H", len(notes) + 2) + notes + file.getvalue()[2:]
    assert picture_in(picture, "goal.jpg").shape == (9, 9, 3)
    assert not recwarn.list
