"""A real Ray cluster of two nodes, one of which is killed; and addresses where there is none."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sfl.cli import main
from sfl.errors import SflError, UsageError
from sfl.reproduce import apart, cluster
from sfl.reproduce.cluster import answering, asked_words, holds, resources
from sfl.reproduce.engine import GRID_NEED, MAZE_NEED
from sfl.run.folder import read_config
from sfl.run.train import train

HAVE_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAVE_RAY, reason="ray is not installed; pip install ray")
STEPS = 6_000
"""Of a run: five times a tiny one's, which may end before its first checkpoint has come home."""
WORDS = [
    *("reproduce", "curves-minigrid", "--tiny", "--scale", "5", "--device", "cpu"),
    *("--only", "^sfl-fourroom", "--engine", "ray"),
]


@pytest.mark.skipif(HAVE_RAY, reason="ray is installed")
def test_without_ray_the_extra_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--runs-dir", str(tmp_path)]) == 1
    assert "pip install ray" in capsys.readouterr().err


@needs_ray
@pytest.mark.slow
def test_an_address_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(SflError, match=f"No Ray cluster answers at --address 127.0.0.1:{port} .*is its head running"):
        answering(f"127.0.0.1:{port}")
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(SflError, match=f"No Ray cluster answers at --address 127.0.0.1:{port} "):
        answering("auto")
    for nowhere in ("a..b:6379", "127.0.0.1:99999"):
        with pytest.raises(SflError, match=f"No Ray cluster answers at --address {nowhere} "):
            answering(nowhere)
    for wrong in ("somewhere", "ray://head:10001", "head:"):
        with pytest.raises(UsageError, match="--address must be auto or HOST:PORT"):
            answering(wrong)
    monkeypatch.setattr(cluster, "HEALTHY_WITHIN", 2.0)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(SflError, match="it is no healthy Ray cluster"):
            answering(f"127.0.0.1:{deaf.getsockname()[1]}")


def test_no_more_is_asked_for_than_one_node_has() -> None:
    large, fast = {"CPU": 16.0, "memory": 64e9}, {"CPU": 2.0, "memory": 3e9, "GPU": 1.0}
    maze = resources(MAZE_NEED, [large, fast])
    assert maze == {"num_cpus": 2, "memory": 3_000_000_000, "num_gpus": cluster.GPU_SHARE}
    assert [holds(node, maze) for node in (large, fast)] == [False, True]
    grid = resources(GRID_NEED, [large, fast])
    assert grid == {"num_cpus": 1, "memory": 1_000_000_000, "num_gpus": 0}
    assert resources(MAZE_NEED, [large]) == {"num_cpus": 4, "memory": 5_000_000_000, "num_gpus": 0}
    assert resources(GRID_NEED, []) == grid  # a cluster whose nodes are still to come
    assert asked_words(maze) == "2 cores and 3 GB, 0.25 of a GPU"
    assert asked_words(grid) == "1 core and 1 GB"


def test_settings_follow_the_folder_of_runs_whatever_it_is_called(tmp_path: Path) -> None:
    old = '/somewhere/päths "of" mine'
    body = {"experiment": {"networks": f"{old}/a/seed-0000/n.safetensors", "other": f"see {old}/", "several": [1, old]}}
    (tmp_path / "config.json").write_text(json.dumps(body))
    cluster._readdress(tmp_path, old, "/there")
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "experiment": {"networks": "/there/a/seed-0000/n.safetensors", "other": f"see {old}/", "several": [1, old]}
    }


def test_what_dead_tasks_have_left_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = [f"sfl-run-{dead.pid}-a", f"sfl-run-{os.getpid()}-b", "sfl-run-mine", "other"]
    for name in names:
        (tmp_path / name / "replay").mkdir(parents=True)
    cluster._sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster: a head without room for runs, and two nodes with room for one each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    monkeypatch.setattr(cluster, "HEALTHY_WITHIN", 120.0)  # as many as a busy machine takes
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made, [made.add_node(num_cpus=1) for _ in range(2)]
    made.shutdown()


def is_half_way(run: Path) -> bool:
    """A checkpoint that is not its last is at home."""
    with contextlib.suppress(OSError, ValueError):  # just being replaced
        return 0 < json.loads((run / "checkpoints" / "last" / "format.json").read_text())["env_steps"] < STEPS
    return False


def node_of_a_run(nodes: list[Any]) -> Any:
    """The node that one of the training processes descends from; None between two runs."""
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, IndexError):
            if b"sfl-run-" in cmdline.read_bytes():
                process = int(cmdline.parent.name)
                while process > 1 and process not in raylets:
                    process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
                if process in raylets:
                    return raylets[process]
    return None


@needs_ray
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the node of a run in /proc")
def test_runs_of_a_killed_node_are_resumed_on_another(
    nodes: tuple[Any, list[Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its node dies after the first checkpoint came home; how far the run is by then depends on the machine."""
    runs = tmp_path / "runs"

    def kill() -> None:
        while not (any(map(is_half_way, runs.glob("*/seed-????"))) and (node := node_of_a_run(nodes[1]))):
            time.sleep(0.02)
        nodes[0].remove_node(node, allow_graceful=False)

    killer = Thread(target=kill, daemon=True)
    killer.start()
    words = [*WORDS, "--seeds", "3", "--jobs", "1", "--address", nodes[0].address, "--runs-dir", str(runs)]
    assert main(words) == 0
    killer.join(60)
    shown = capfd.readouterr().err
    lost = re.search(
        r"KILLED sfl-fourroom seed (\d): its node or worker was lost .*it is resumed from step [1-9]", shown
    )
    assert lost, shown
    assert "(3 of 3)" in shown
    resumed = runs / "sfl-fourroom" / f"seed-{int(lost[1]):04d}"
    experiment, seed = read_config(resumed)
    assert experiment.train.steps == STEPS
    uninterrupted = train(experiment, seed, tmp_path / "whole", "cpu")
    assert (resumed / "episodes.csv").read_bytes() == uninterrupted.episodes.read_bytes()


def test_a_head_that_takes_no_connection_for_a_while_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LISTEN_EVERY", 0.0)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        head = apart.Head(f"127.0.0.1:{listening.getsockname()[1]}")
        assert not head.lost()
    assert not head.lost()  # it may come back
    monkeypatch.setattr(apart, "LOST_AFTER", 0.0)
    assert head.lost()
    assert not apart.Head("auto").lost()


@needs_ray
@pytest.mark.slow
def test_when_the_whole_cluster_is_lost_the_command_says_so_and_reports(
    nodes: tuple[Any, list[Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray then ends the process that drives it."""
    runs = tmp_path / "runs"

    def kill() -> None:
        while not any(map(is_half_way, runs.glob("*/seed-????"))):
            time.sleep(0.02)
        for node in [*nodes[1], nodes[0].head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)

    killer = Thread(target=kill, daemon=True)
    killer.start()
    words = [*WORDS, "--seeds", "2", "--address", nodes[0].address, "--runs-dir", str(runs)]
    assert main(words) == 1
    killer.join(60)
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"sfl: The Ray cluster at {nodes[0].address} was lost; once it is back, the same command")
    assert "of 2 runs are finished; see " in last
    (report,) = (runs / "reports").glob("*/report.md")
    assert "sfl-fourroom seed" in report.read_text()
