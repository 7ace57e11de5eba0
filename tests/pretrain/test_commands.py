"""`sfl encoder train` and `eval`, as a user types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sfl.cli import main
from sfl.nn.weights import load_encoder, read_card

DATA = "--kind compact --half-size --mazes small --frames 240 --walk-length 60 --walks-per-maze 2 --device cpu"
BATCH = "--contrast.mazes 2 --contrast.moments 6 --reachability.batch-size 8"
JUDGE = {"mazes": "office", "views": "20", "queries": "8", "pairs": "40", "walk-length": "60", "walks": "2"}
TRAIN = ["encoder", "train", *DATA.split(), *BATCH.split()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder that the real command has trained and evaluated."""
    folder = tmp_path_factory.mktemp("encoder")
    eval_words = [word for name, value in JUDGE.items() for word in (f"--eval.{name}", value)]
    assert main([*TRAIN, "--steps", "3", "--out", str(folder / "one.safetensors"), *eval_words]) == 0
    return folder


def test_train_writes_the_weights_the_curve_and_the_card(place: Path) -> None:
    assert {path.name for path in place.iterdir()} >= {"one.safetensors", "one.csv", "one.md"}
    with (place / "one.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["3"]
    card = read_card(place / "one.safetensors")
    assert card["kind"] == "compact"
    assert card["steps"] == "3"
    assert [row["maze"] for row in json.loads(card["scores"])] == ["office"]
    page = (place / "one.md").read_text()
    assert card["command"] in page
    assert "240 frames of 80x60" in page
    assert str(place) not in page + json.dumps(card)
    encoder = load_encoder(str(place / "one.safetensors"))
    assert not torch.equal(encoder.mean, torch.zeros(128))


def test_eval_finds_the_same_scores_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name, value in JUDGE.items() for word in (f"--{name}", value)]
    file = place / "one.safetensors"
    assert main(["encoder", "eval", str(file), "--json", "--device", "cpu", "--workers", "1", *words]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == json.loads(read_card(file)["scores"])
    assert rows[0]["unseen"] == "maze"
    assert 0 <= rows[0]["found"] <= 1
    assert 0 <= rows[0]["possible"] <= 1
    assert rows[0]["median_error"] > 0


def test_the_command_of_the_card_gives_the_same_weights(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, to the last bit; without an evaluation this time."""
    words = read_card(place / "one.safetensors")["command"].split()[1:]
    monkeypatch.chdir(place)
    words[-1] = "again.safetensors"
    assert main([*words, "--device", "cpu", "--no-evaluate"]) == 0
    first, again = load_file("one.safetensors"), load_file("again.safetensors")
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert "Not evaluated." in Path("again.md").read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["train"], "Missing from sfl encoder train: --out PATH"),
        (["train", "--out", "a.pt"], "--out must name a .safetensors file, got a.pt."),
        (["train", "--out", "here.safetensors"], "here.safetensors exists already; choose another place"),
        (["train", "--out", "beside.safetensors"], "beside.md exists already; choose another place"),
        (["train", "--out", "a.safetensors", "--mazes", "office"], "The maze 'office' is kept for evaluation"),
        (["train", "--out", "a.safetensors", "--mazes", "test-1"], "The maze 'test-1' is kept for evaluation"),
        (["train", "--out", "a.safetensors", "--kind", "vgg"], "invalid choice 'vgg'"),
        (["train", "--out", "a.safetensors", "--objectiv", "x"], "No option '--objectiv'."),
        (["train", "--out", "a.safetensors", "--distil", "here.safetensors"], "is no whole .safetensors file"),
        (["train", "--out", "a.safetensors", "--frames", "900000000000"], "ask for fewer with --frames."),
        (["eval"], "Missing from sfl encoder eval"),
        (["eval", "absent.safetensors"], "Cannot read an encoder from absent.safetensors: No such file"),
        (["eval", "plac"], "No encoder 'plac'. Did you mean 'place'?"),
        (["show"], "No command 'encoder show'."),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.safetensors").write_text("mine")
    (tmp_path / "beside.md").write_text("mine")
    assert main(["encoder", *words]) in (1, 2)
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith("sfl: ")
    assert said.count("\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("here.safetensors", "beside.md"), "mine"
    )


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encoder", "--help"]) == 0
    assert main(["encoder"]) == 2
    assert capsys.readouterr().out.count("train --out FILE.safetensors") == 2
