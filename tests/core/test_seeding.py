"""Cores are those that this process may use."""

from __future__ import annotations

import os

import pytest

from sfl.seeding import core_count


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lends cores to processes")
def test_cores_are_those_lent_to_this_process() -> None:
    mine = os.sched_getaffinity(0)
    assert core_count() == len(mine)
    try:
        os.sched_setaffinity(0, {min(mine)})
        assert core_count() == 1
    finally:
        os.sched_setaffinity(0, mine)


def test_elsewhere_they_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert core_count() == 7
