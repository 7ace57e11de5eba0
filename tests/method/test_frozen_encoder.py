"""A fixed encoder at work, on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfl.api import Array
from sfl.fast.cuda import Replayed
from sfl.method.states import FrozenEncoder
from sfl.nn.frame_encoders import FrameEncoder

CPU = torch.device("cpu")


def make_encoder() -> FrameEncoder:
    torch.manual_seed(0)
    return FrameEncoder("compact").eval().requires_grad_(False)


def frames(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size=(count, 120, 160, 3), dtype=np.uint8)


def test_on_the_cpu_it_is_the_encoder() -> None:
    encoder = make_encoder()
    seen = frames(3, 0)
    assert torch.equal(FrozenEncoder(encoder, CPU)(seen), encoder(torch.from_numpy(seen)))
    assert torch.equal(
        FrozenEncoder(encoder, CPU)(seen[:, ::-1])[0], encoder(torch.from_numpy(seen[:, ::-1].copy()))[0]
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_it_sees_nearly_the_same_whatever_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replayed, "PLAIN_CALLS", 2)
    monkeypatch.setattr(Replayed, "GRAPH_LIMIT", 2)
    encoder = make_encoder()
    frozen = FrozenEncoder(make_encoder().to("cuda"), torch.device("cuda"))
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for turn in range(8):  # past the warm-up; of three sizes two become graphs
        for count in (1, 4, 9):
            some = frames(count, 10 * turn + count)
            seen.append((frozen(some).clone(), encoder(torch.from_numpy(some))))
    for ours, theirs in seen:
        assert ours.dtype == torch.float32
        assert float(torch.cosine_similarity(ours.cpu(), theirs).min()) > 0.98
    assert [shapes[0][0] for shapes in frozen._encode._recordings] == [1, 4]
