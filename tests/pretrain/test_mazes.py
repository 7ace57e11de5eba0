"""What encoders learn from never holds what they are judged on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.pretrain.config import (
    EVALUATION_MAZES,
    HELD_OUT,
    TRAINING_MAZES,
    EncoderJudgement,
    EncoderRecipe,
    TrainingMazes,
    check_textures,
    evaluation_mazes,
)
from sfl.worlds.mazes.load import LAYOUT_LUMP, load_maze, own_mazes
from sfl.worlds.mazes.textures import FLATS, WALLS
from sfl.worlds.mazes.wad import read_wad, write_wad

OWN = {"large", "open", "rooms", "corridors", "small"}


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a stand-in for the paper's `sgm`: our small maze, without the drawing that it was made from."""
    small = read_wad(load_maze("small").wad, "small")
    (tmp_path / "sgm-base.wad").write_bytes(write_wad([lump for lump in small if lump.name != LAYOUT_LUMP]))
    (tmp_path / "textures-train.txt").write_text("WOOD1\nWOOD3\n")
    (tmp_path / "textures-test.txt").write_text("BRICK7\n")
    return tmp_path


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(0))


def test_no_maze_is_both_for_training_and_held_out() -> None:
    assert not set(TRAINING_MAZES) & set(HELD_OUT)
    assert set(EVALUATION_MAZES) == {*TRAINING_MAZES, *HELD_OUT}
    assert set(own_mazes()) <= set(EVALUATION_MAZES)


@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_mazes_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"The maze '{name}' is kept for evaluation; encoders are trained in sgm"):
        EncoderRecipe(mazes=("small", name))


def test_unknown_training_mazes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"No training maze 'smal'. Did you mean 'small'\?"):
        EncoderRecipe(mazes=("smal",))


@pytest.mark.usefixtures("no_folder")
def test_training_mazes_wear_training_textures_only_and_differ() -> None:
    supply = TrainingMazes((), None, rng())
    assert set(supply.names) == OWN
    drawn = [supply.draw() for _ in range(12)]
    assert {maze.name for maze in drawn} <= OWN
    assert len({maze.wad for maze in drawn}) == 12
    for maze in drawn:
        words = {word.decode(errors="replace").strip('"') for word in maze.wad.replace(b";", b" ").split()}
        assert words & set(WALLS["train"])
        assert not words & set(WALLS["test"])
        assert not words & set(FLATS["test"])


def test_the_papers_map_is_drawn_in_its_training_textures(folder: Path) -> None:
    supply = TrainingMazes((), folder, rng())
    assert supply.names[0] == "sgm"
    names = [supply.draw().name for _ in range(60)]
    assert 15 <= names.count("sgm") <= 45  # half of them
    only = TrainingMazes(("sgm",), folder, rng()).draw()
    assert b"WOOD1" in only.wad or b"WOOD3" in only.wad
    assert not any(f'"{name}"'.encode() in only.wad for name in ("BRICK7", *WALLS["test"]))  # some were worn before


@pytest.mark.parametrize("shared", ["BRICK7", WALLS["test"][0]])
def test_a_list_of_training_textures_with_test_textures_is_refused(shared: str, folder: Path) -> None:
    check_textures(folder)
    (folder / "textures-train.txt").write_text(f"WOOD1\n{shared}\n")
    with pytest.raises(UsageError, match=f"hold 1 that are kept for evaluation, such as {shared}; take them out"):
        TrainingMazes(("small",), folder, rng())


@pytest.mark.usefixtures("no_folder")
def test_without_a_folder_encoders_are_judged_in_our_own_mazes() -> None:
    mazes = evaluation_mazes((), None)
    assert {maze.name for maze in mazes} == {*OWN, "office", "star"}
    for maze in mazes:
        assert not any(f'"{name}"'.encode() in maze.wad for name in WALLS["train"])
    with pytest.raises(UsageError, match="The maze 'sgm' is the paper's"):
        evaluation_mazes(("sgm",), None)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"frames": 0}, "--frames must be at least 1, got 0"),
        ({"walk_length": 1}, "--walk-length must be at least 2, got 1"),
        ({"workers": 0}, "--workers must be at least 1, got 0"),
        ({"minutes": 0.0}, "--minutes must be positive, got 0.0"),
        ({"steps": -1}, "--steps must be 0 or more, got -1"),
        ({"steps": 5, "minutes": 1.0}, "Give --minutes or --steps, not both"),
        ({"half_size": True}, "--half-size is for the encoder 'compact'; 'place' looks at frames of 160x120"),
        ({"kind": "compact", "half_size": True, "distil": "place"}, "--half-size does not go with --distil"),
        ({"learning_rate": 0.0}, "--learning-rate must be positive, got 0.0"),
        ({"weight_decay": -1.0}, "--weight-decay must be 0 or more, got -1.0"),
    ],
)
def test_wrong_recipes(settings: dict[str, float], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        EncoderRecipe(**settings)  # type: ignore[arg-type]


def test_wrong_judgements() -> None:
    with pytest.raises(UsageError, match="--views must be at least 1, got 0"):
        EncoderJudgement(views=0)


def test_sizes_follow_from_the_recipe() -> None:
    recipe = EncoderRecipe(kind="compact", frames=1_001, walk_length=50, walks_per_maze=4, half_size=True)
    assert recipe.maze_count == 6
    assert recipe.frame_size == (60, 80)
    assert recipe.seconds == 480.0
    assert EncoderRecipe(minutes=0.5).seconds == 30.0
    assert EncoderRecipe(steps=3).seconds is None
