"""Run as a script between ViZDoom and its engine: `launcher.py FOLDER PARENT ENGINE ARGUMENT...`.

It becomes the engine, after it has made sure that the engine ends with its parent, even a killed one (an engine left
alone would wait for ever), noted its process and instance, and sent what it prints to a file.
"""

from __future__ import annotations

import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl; other systems rely on the worker's end of the process group
_NO_SOUND_SERVER = {"ALSOFT_DRIVERS": "null", "SDL_AUDIODRIVER": "dummy"}
"""OpenAL and SDL look for one even where sound is off; PulseAudio's library leaves a temporary folder behind."""


def _become_engine(folder: str, parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before its game began")
    instance = command[command.index("+viz_instance_id") + 1]
    with open(os.path.join(folder, "engine.txt"), "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {instance}")
    log = os.open(os.path.join(folder, "engine.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execve(command[0], command, os.environ | _NO_SOUND_SERVER)


if __name__ == "__main__":
    _become_engine(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
