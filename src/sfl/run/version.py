"""The version of sfl and of what it stands on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import sfl
from sfl.core.machine import core_count

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
