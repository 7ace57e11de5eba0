"""The machine: where a run computes and how much memory it takes, versions, what a container leaves, `sfl doctor`."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import sfl
from sfl.config import require
from sfl.seeding import core_count
from sfl.worlds import DoomConfig, MiniGridConfig, make_env

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


PACKAGES = ("numpy", "scipy", "torch", "gymnasium", "minigrid", "vizdoom", "safetensors")


def sfl_version() -> str:
    """Version of the code that runs, which need not be installed."""
    return sfl.__version__


def package_version(name: str) -> str:
    """Version of an installed package, or `absent`."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def system_facts(device: str, threads: int) -> dict[str, Any]:
    """What a reader of the numbers may want to know of the machine; it goes into system.json."""
    return {
        "sfl": sfl_version(),
        "python": platform.python_version(),
        "platform": platform.system() + " " + platform.machine(),
        "cpu_count": os.cpu_count(),
        "cores_lent": core_count(),
        "device": device,
        "gpu": _gpu_name(device),
        "threads": threads,
        "packages": {name: package_version(name) for name in PACKAGES},
    }


def _gpu_name(device: str) -> str | None:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else None


def machine_words(facts: Mapping[str, Any]) -> str:
    """What system.json says of the machine, for a table."""
    cores, threads = facts.get("cores_lent", facts.get("cpu_count")), facts.get("threads")
    where = facts.get("gpu") or facts.get("device", "unknown")
    return f"{where}, {cores} cores" if where != "cpu" else f"CPU, {threads} of {cores} cores"


PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
"""Where Linux says what there is, and what a control group may have of it."""


def cores_left() -> int:
    """Cores that this process may keep busy."""
    return max(1, min([core_count(), *_core_quotas()]))


def memory_left() -> int:
    """MB that programs can still take; where the system does not say, all there is."""
    meminfo = PROC / "meminfo"
    if not meminfo.exists():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000
    available = _table(meminfo)["MemAvailable:"] * 1024
    return max(0, min([available, *_group_memory()])) // 1_000_000


def _core_quotas() -> Iterator[int]:
    for group in _groups("cpu"):
        quota = _words(group / "cpu.max") or [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(quota) == 2 and quota[0].isdigit():  # without a limit it is max, or -1 in version 1
            yield math.ceil(int(quota[0]) / int(quota[1]))


def _group_memory() -> Iterator[int]:
    for group in _groups("memory"):
        limit = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
        used = _words(group / "memory.current") or _words(group / "memory.usage_in_bytes")
        if limit and used and limit[0].isdigit():
            # Files that were read and may be dropped count as used.
            yield int(limit[0]) - int(used[0]) + _table(group / "memory.stat").get("inactive_file", 0)


def _groups(controller: str) -> Iterator[Path]:
    """The control group of this process and those around it, of version 1 or 2; some may not be visible from inside."""
    for line in _lines(PROC / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        inner = root / path.lstrip("/")
        yield from (group for group in (inner, *inner.parents) if group.is_relative_to(root))


def _table(file: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    rows = (line.split() for line in _lines(file))
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


SMALLEST_DISK = 1 << 30  # bytes; a run with its checkpoints stays well below


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    fine: bool
    answer: str


def examine(runs_dir: Path | str = "runs") -> list[Finding]:
    """Look at versions, device, disk, threads and environments."""
    return [
        Finding("sfl", True, sfl_version()),
        Finding("python", sys.version_info >= (3, 11), sys.version.split()[0]),
        *(Finding(name, package_version(name) != "absent", package_version(name)) for name in PACKAGES),
        _checked("device", _device),
        _checked("disk", lambda: _disk(Path(runs_dir))),
        Finding("cpu cores", True, f"{core_count()} of {os.cpu_count()}"),
        _checked("environments", _environments),
        _checked("games", _games),
    ]


def _checked(name: str, look: Callable[[], tuple[bool, str]]) -> Finding:
    try:
        return Finding(name, *look())
    except Exception as error:  # a doctor reports whatever is broken and goes on
        return Finding(name, False, f"{type(error).__name__}: {error}")


def _device() -> tuple[bool, str]:
    return True, resolve("auto")


def _disk(runs_dir: Path) -> tuple[bool, str]:
    place = next(folder for folder in [runs_dir.absolute(), *runs_dir.absolute().parents] if folder.exists())
    free = shutil.disk_usage(place).free
    writable = os.access(place, os.W_OK)
    return writable and free >= SMALLEST_DISK, f"{free / (1 << 30):.1f} GiB free{'' if writable else ', not writable'}"


def _environments() -> tuple[bool, str]:
    env = make_env(MiniGridConfig())
    env.reset(seed=0)
    _, _, _, _, info = env.step(0)
    env.close()
    turned = float(info["pose"][2])
    return turned == 270.0, "a step in sfl/FourRoom-v0 does what it should"


def _games() -> tuple[bool, str]:
    env = make_env(DoomConfig())
    try:
        _, before = env.reset(seed=0, options={"start": (96.0, 416.0, 90.0), "goal": None})
        _, _, _, _, after = env.step(2)
    finally:
        env.close()
    return bool(after["pose"][1] > before["pose"][1]), "a step in sfl/DoomMaze-v0 does what it should"
