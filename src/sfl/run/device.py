"""Where a run computes."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path
from typing import Literal

from sfl.core.config import require

MOST_THREADS = 1_024


def prepare(device: str, threads: int) -> str:
    """Set torch's thread count and find the device; the settings are the run's, importing sfl changes nothing.

    One thread is fastest for networks as small as these. Numbers too small for full precision count as 0: the moments
    of a dead unit decay into them, and arithmetic on them is many times slower. What the imports made is for ever:
    the garbage collector need not look through it again and again. And freed memory stays with the process: a gradient
    step that gives a megabyte back to the system and asks for it again spends up to a third of its time on that.
    """
    import torch

    require(1 <= threads <= MOST_THREADS, f"--threads must be 1 to {MOST_THREADS:,}, got {threads}.")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    gc.freeze()
    _keep_freed_memory()
    return resolve(device)


def _keep_freed_memory() -> None:
    """Ask the C library, where it is one that can be asked (glibc's numbers for the two limits, from its malloc.h)."""
    trim_threshold, mmap_threshold = -1, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if sys.platform == "linux" and mallopt is not None:
        mallopt(mmap_threshold, 32 << 20)  # the most that is allowed
        mallopt(trim_threshold, 256 << 20)


def give_back_freed_memory() -> None:
    """To the system, now and then: what evaluations and saves took lies in pieces, and more of it every time."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resolve(device: str) -> str:
    """Turn `auto` into the device there is; refuse one that is not."""
    import torch

    cuda = torch.cuda.is_available()
    if device == "auto":
        return "cuda" if cuda else "cpu"
    require_known(device)
    require(device == "cpu" or cuda, f"--device {device} was asked for but torch finds no GPU; use --device cpu.")
    return device


def require_known(device: str) -> None:
    """Refuse what is no device anywhere."""
    known = isinstance(device, str) and (device in ("auto", "cpu") or device.startswith("cuda"))
    require(known, f"--device must be auto, cpu or cuda, got {device!r}.")


def memory_in_use() -> dict[str, float]:
    """`memory/host` and, where a GPU was used, `memory/gpu`: the highest so far."""
    import torch

    memory = {"memory/host": resident_megabytes("VmHWM")}
    if torch.cuda.is_initialized():
        memory["memory/gpu"] = torch.cuda.max_memory_reserved() / 1e6
    return memory


def resident_megabytes(which: Literal["VmRSS", "VmHWM"]) -> float:
    """Memory of this process, now (VmRSS) or at its highest (VmHWM); without /proc, at its highest."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith(which))
        return int(line.split()[1]) * 1024 / 1e6
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest * (1 if sys.platform == "darwin" else 1024) / 1e6
