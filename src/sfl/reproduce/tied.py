"""Run as a script: `tied.py PARENT WORD...` becomes `python -m sfl WORD...`, which ends with its parent.

A worker of a cluster that dies must not leave a run behind that nobody looks after. Nothing of sfl is imported here.
"""

from __future__ import annotations

import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl; elsewhere a run that is left behind goes on to its end, unseen


def _become_sfl(parent: int, words: list[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before the run began")
    os.execv(sys.executable, [sys.executable, "-m", "sfl", *words])


if __name__ == "__main__":
    _become_sfl(int(sys.argv[1]), sys.argv[2:])
