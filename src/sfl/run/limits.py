"""What containers and batch systems leave of the machine to this process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from sfl.core.machine import core_count

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
