"""What the machine lends to this process."""

from __future__ import annotations

import os


def core_count() -> int:
    """Cores that this process may use: `taskset` and batch systems lend fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
