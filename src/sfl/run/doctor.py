"""Is everything here that a run needs? One line for each answer."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sfl.core.machine import core_count
from sfl.envs import DoomConfig, MiniGridConfig, make_env
from sfl.run.device import resolve
from sfl.run.version import PACKAGES, package_version, sfl_version

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
