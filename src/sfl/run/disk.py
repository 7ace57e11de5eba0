"""Files that are on the disk, whole, or as they were before."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file's; what was there stays until all of it is on the disk."""
    draft = path.with_name(path.name + ".tmp")
    try:
        draft.write_text(text, encoding="utf-8", newline="")
        fsync(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    fsync(path.parent)
