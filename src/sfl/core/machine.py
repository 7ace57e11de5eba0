"""What the machine lends to this process."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Literal


def core_count() -> int:
    """Cores that this process may use: `taskset` and batch systems lend fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def resident_megabytes(which: Literal["VmRSS", "VmHWM"]) -> float:
    """Memory of this process, now (VmRSS) or at its highest (VmHWM); without /proc, at its highest."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith(which))
        return int(line.split()[1]) * 1024 / 1e6
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest * (1 if sys.platform == "darwin" else 1024) / 1e6
