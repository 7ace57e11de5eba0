"""Encoders in files: what comes back, and what is said of a file that is none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sfl.errors import CheckpointError, UsageError
from sfl.nn import weights
from sfl.nn.frame_encoders import FrameEncoder
from sfl.nn.weights import load_encoder, load_networks, read_card, save_encoder

from .test_frame_encoders import frames, trained


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made" / "one.safetensors"
    save_encoder(trained("compact"), path, {"recipe": "short", "dim": "a lie"})
    return path


def test_an_encoder_comes_back_in_half_precision(file: Path) -> None:
    loaded = load_encoder(str(file), "cpu")
    exact = trained("compact")
    with torch.no_grad():
        found, expected = loaded(frames(3, seed=2)), exact(frames(3, seed=2))
    assert loaded.name == "compact"
    assert not loaded.training
    assert float(torch.cosine_similarity(found, expected).min()) > 0.9999
    stored = load_file(file)
    assert {tensor.dtype for tensor in stored.values() if tensor.ndim > 1} == {torch.float16}
    assert torch.equal(stored["mean"], exact.mean)
    assert torch.equal(stored["std"], exact.std)


def test_the_header_says_what_it_is(file: Path) -> None:
    assert read_card(file) == {"recipe": "short", "format": "1", "kind": "compact", "dim": "128"}


def test_saving_what_was_loaded_loses_nothing_more(file: Path, tmp_path: Path) -> None:
    save_encoder(load_encoder(str(file)), tmp_path / "two.safetensors", {})
    first, second = load_file(file), load_file(tmp_path / "two.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_two_that_ship_are_small_enough(tmp_path: Path) -> None:
    sizes = {}
    for kind in weights.SHIPPED:
        path = tmp_path / f"{kind}.safetensors"
        save_encoder(FrameEncoder("place" if kind == "place" else "compact"), path, {})
        sizes[kind] = path.stat().st_size
    assert sizes["place"] <= 8e6
    assert sum(sizes.values()) <= 12e6


def test_shipped_encoders_are_found_by_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FOLDER", file.parent)
    file.rename(file.with_name("compact.safetensors"))
    assert load_encoder("compact").dim == 128
    with pytest.raises(UsageError, match="holds no weights of the encoder 'place'; make some: sfl encoder train"):
        load_encoder("place")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("compct", "No encoder 'compct'. Did you mean 'compact'?"),
        ("absent.safetensors", "Cannot read an encoder from absent.safetensors: No such file"),
    ],
)
def test_names_and_files_that_do_not_exist(name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load_encoder(name)


def test_a_truncated_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"one.safetensors is no whole .safetensors file .* make it or fetch it"):
        load_encoder(str(file))


def test_a_file_of_something_else(file: Path) -> None:
    file.write_bytes(b"PNG")
    with pytest.raises(CheckpointError, match=r"is no whole .safetensors file"):
        load_encoder(str(file))
    save_file({"weight": torch.zeros(2)}, file)
    with pytest.raises(CheckpointError, match="holds other weights than an encoder of sfl; make one with"):
        load_encoder(str(file))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"format": "9"}, "has format 9, this version of sfl reads format 1"),
        ({"kind": "vgg"}, "an encoder of unknown kind 'vgg'; sfl has resnet18, place, compact"),
        ({"kind": "place"}, "is no encoder 'place': missing body.11.bias, .* and 31 more, unknown body.2.conv.bias"),
    ],
)
def test_weights_of_another_encoder(changed: dict[str, str], complaint: str, file: Path) -> None:
    save_file(load_file(file), file, {**read_card(file), **changed})
    with pytest.raises(CheckpointError, match=complaint):
        load_encoder(str(file))


def test_other_shapes(file: Path) -> None:
    save_file({**load_file(file), "mean": torch.zeros(64)}, file, read_card(file))
    with pytest.raises(CheckpointError, match=r"is no encoder 'compact': other shapes of mean."):
        load_encoder(str(file))


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr("sfl.files.os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        save_encoder(FrameEncoder("compact"), file, {})
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["one.safetensors"]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused(number: float, file: Path, tmp_path: Path) -> None:
    with safe_open(file, framework="pt") as content:
        card, tensors = content.metadata(), {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] = number
    save_file(tensors, tmp_path / "odd.safetensors", card)
    with pytest.raises(CheckpointError, match=rf"holds numbers that are none \(NaN or infinite\) in {name}; make it"):
        load_encoder(str(tmp_path / "odd.safetensors"))
    with pytest.raises(CheckpointError, match="holds numbers that are none"):
        load_networks(str(tmp_path / "odd.safetensors"), [])


def test_kinds_of_numbers_that_are_not_ours_are_named(tmp_path: Path) -> None:
    save_file({"retrieval.weight": torch.zeros(2, dtype=torch.bfloat16)}, tmp_path / "odd.safetensors")
    with pytest.raises(CheckpointError, match=r"holds retrieval\.weight as BF16; sfl stores F16, F32"):
        load_networks(str(tmp_path / "odd.safetensors"), [])
