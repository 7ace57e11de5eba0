"""Where a run computes."""

from __future__ import annotations

from sfl.core.config import require


def prepare(device: str, threads: int) -> str:
    """Set torch's thread count and find the device.

    One thread is fastest for networks as small as these; the setting is the run's, importing sfl changes nothing.
    """
    import torch

    require(threads >= 1, f"--threads must be 1 or more, got {threads}.")
    torch.set_num_threads(threads)
    return resolve(device)


def resolve(device: str) -> str:
    """Turn `auto` into the device there is; refuse one that is not."""
    import torch

    cuda = torch.cuda.is_available()
    if device == "auto":
        return "cuda" if cuda else "cpu"
    require(device == "cpu" or device.startswith("cuda"), f"--device must be auto, cpu or cuda, got {device!r}.")
    require(device == "cpu" or cuda, f"--device {device} was asked for but torch finds no GPU; use --device cpu.")
    return device
