"""A run folder on its way between two machines: what changed since the last parcel, as one block of bytes."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Collection
from pathlib import Path

from sfl.run.folder import RunFolder

Stamps = dict[str, tuple[int, int]]
"""Time and size of each file that was sent."""

CHECKPOINTS = "checkpoints"


def pack(folder: Path, sent: Stamps, but: Collection[str] = ()) -> bytes | None:
    """The files that are new since `sent`, which is brought up to date; None where a checkpoint is just being written.

    Files called as those in `but` stay where they are.
    Tables may be ahead of the checkpoint beside them: a run that goes on from it cuts them.
    """
    mark = RunFolder(folder).last / "format.json"
    before = _stamp(mark)
    out, packed = io.BytesIO(), dict(sent)
    try:
        with tarfile.open(fileobj=out, mode="w") as archive:
            for file in _files(folder):
                name, stamp = file.relative_to(folder).as_posix(), _stamp(file)
                if file.name not in but and stamp is not None and sent.get(name) != stamp:
                    archive.add(file, name)
                    packed[name] = stamp
    except FileNotFoundError:
        return None
    if _stamp(mark) != before:
        return None
    sent.update(packed)
    return out.getvalue()


def _files(folder: Path) -> list[Path]:
    """Everything but drafts and what is left of older checkpoints."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    drafts = (".tmp", ".old")
    return [file for file in found if not any(part.endswith(drafts) for part in file.relative_to(folder).parts)]


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_size


def unpack(packed: bytes, folder: Path) -> None:
    """Lay a parcel over a run folder. Checkpoints come last and whole: the tables are never behind them."""
    draft = folder.with_name(folder.name + ".parcel")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(draft, filter="data")
        for file in _files(draft):
            name = file.relative_to(draft)
            if name.parts[0] != CHECKPOINTS:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, folder / name)
        for arrived in sorted((draft / CHECKPOINTS).glob("*")):
            _swap(arrived, folder / CHECKPOINTS / arrived.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _swap(arrived: Path, place: Path) -> None:
    """As a checkpoint is saved: the old one is whole under one name or the other until the new one is there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    old = place.with_name(place.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        os.rename(place, old)
    os.rename(arrived, place)
    shutil.rmtree(old, ignore_errors=True)
