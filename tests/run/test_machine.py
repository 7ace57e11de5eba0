"""Control groups lend less than the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfl.run import machine
from sfl.run.machine import cores_left, memory_left


def lend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, files: dict[str, str]) -> None:
    """Control groups as Linux shows them, this process in one of them."""
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    named = {"proc/self/cgroup": group, "proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n"}
    for name, text in {**named, **{f"cgroup/{name}": text for name, text in files.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize(
    ("group", "files", "cores", "memory"),
    [
        ("0::/\n", {}, 8, 8_192),
        (
            "0::/job\n",
            {"job/cpu.max": "max 100000\n", "job/memory.max": "max\n", "job/memory.current": "7\n"},
            8,
            8_192,
        ),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3, 8_192),
        ("0::/job/step\n", {"job/cpu.max": "400000 100000\n", "job/step/cpu.max": "50000 100000\n"}, 1, 8_192),
        (
            "0::/hidden/from/inside\n",
            {
                "memory.max": "5000000000\n",
                "memory.current": "3000000000\n",
                "memory.stat": "inactive_file 1000000000\n",
            },
            *(8, 3_000),
        ),
        (
            "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "200000\n",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
                "memory/job/memory.limit_in_bytes": "2000000000\n",
                "memory/job/memory.usage_in_bytes": "500000000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/memory.usage_in_bytes": "500000000\n",
            },
            *(2, 1_500),
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8, 8_192),
    ],
)
def test_containers_lend_less_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, files: dict[str, str], cores: int, memory: int
) -> None:
    lend(tmp_path, monkeypatch, group, files)
    assert (cores_left(), memory_left()) == (cores, memory)


def test_where_the_system_does_not_say_it_is_all_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PROC", tmp_path)
    assert cores_left() >= 1
    assert memory_left() > 0
