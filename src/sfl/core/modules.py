"""Modules of the user's."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType


def import_module(name: str) -> ModuleType:
    """Import a module, also from the current folder, as `python -m` does and an installed command does not."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)
