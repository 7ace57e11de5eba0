"""A real Ray cluster of two nodes, one of which is killed; and addresses where there is none."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sfl.cli import main
from sfl.errors import SflError, UsageError
from sfl.reproduce import cluster
from sfl.reproduce.cluster import Order, answering, pack, resources, unpack, work
from sfl.reproduce.engine import GRID_NEED, MAZE_NEED
from sfl.reproduce.plan import Progress, checkpoint_steps, follow_move, progress_of
from sfl.reproduce.tables import Entry, _networks_of
from sfl.run.checkpoint import LEARNING_FILES
from sfl.run.folder import RunFolder, load_run, read_config
from sfl.run.train import train

from .planning import planned, random_runs, table

HAVE_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAVE_RAY, reason="ray is not installed; pip install ray")
STEPS = 6_000
"""Of a run: five times a tiny one's, so that it takes several slices."""
SLICE = 2.0
WORDS = [
    *("reproduce", "curves-minigrid", "--tiny", "--scale", "5", "--device", "cpu"),
    *("--only", "^fourroom-sfl", "--engine", "ray"),
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
    grid = resources(GRID_NEED, [large, fast])
    assert grid == {"num_cpus": 1, "memory": 1_000_000_000, "num_gpus": 0}
    assert resources(MAZE_NEED, [large]) == {"num_cpus": 4, "memory": 5_000_000_000, "num_gpus": 0}
    assert resources(GRID_NEED, []) == grid  # a cluster whose nodes are still to come


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_packed_run_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path / "there", seeds=1)
    train(run.experiment, 0, tmp_path / "there", "cpu")
    here = tmp_path / "here" / "seed-0000"
    (here / "checkpoints").mkdir(parents=True)
    (here / "checkpoints" / "old").write_text("of another time")
    unpack(pack(run.path), here)
    assert content(here) == content(run.path)
    assert [path.name for path in here.parent.iterdir()] == ["seed-0000"]  # no draft is left


def test_a_run_that_is_only_read_travels_without_what_learning_needs(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path / "there", seeds=1)
    train(run.experiment, 0, tmp_path / "there", "cpu")
    here = tmp_path / "here" / "seed-0000"
    unpack(pack(run.path, LEARNING_FILES), here)
    left = {f"checkpoints/last/{name}" for name in LEARNING_FILES}
    assert set(content(run.path)) - set(content(here)) == left
    assert load_run(here, device="cpu", learning=False).env_steps == 1_200


def test_a_run_in_slices_elsewhere_equals_one_that_was_not_interrupted(tmp_path: Path) -> None:
    """Tasks without a cluster: each gets the folder of the one before, and a run that the settings name."""
    home = tmp_path / 'päths "of" mine'
    entry = Entry("EC", "fourroom", "fourroom-ec", options=_networks_of("fourroom-ec/{first}"), name="reader")
    source, reader = planned([table(replace(entry, shared=("fourroom-ec",)), seeds=1)], home).runs
    train(source.experiment, 0, home, "cpu")
    needed = (("fourroom-ec/seed-0000", pack(source.path, LEARNING_FILES)),)
    order = Order(reader, str(home), None, needed, "cpu", 0.3, str(tmp_path))
    slices: list[tuple[bytes, bool]] = []
    while not slices or not slices[-1][1]:
        slices.append(work(order))
        unpack(slices[-1][0], reader.path)
        follow_move(reader)
        begun = None if checkpoint_steps(RunFolder(reader.path)) is None else pack(reader.path)
        order = replace(order, begun=begun, seconds=order.seconds * 2)
    assert len(slices) > 1
    assert progress_of(reader) is Progress.FINISHED
    assert read_config(reader.path) == (reader.experiment, 0)
    uninterrupted = train(reader.experiment, 0, tmp_path / "whole", "cpu")
    assert RunFolder(reader.path).episodes.read_bytes() == uninterrupted.episodes.read_bytes()
    assert not list(Path(tempfile.gettempdir()).glob("sfl-run-*/reader"))


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
    """The first of its slices has come home."""
    with contextlib.suppress(OSError, ValueError):  # just being replaced
        return 0 < json.loads((run / "checkpoints" / "last" / "format.json").read_text())["env_steps"] < STEPS
    return False


def node_at_work(nodes: list[Any]) -> Any:
    """The node that the process of a task descends from; None between two tasks."""
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, IndexError):
            if cmdline.read_bytes().startswith(b"ray::work"):
                parent = int((cmdline.parent / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in raylets:
                    return raylets[parent]
    return None


@needs_ray
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the node of a run in /proc")
def test_runs_of_a_killed_node_go_on_on_another(
    nodes: tuple[Any, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its node dies at work, after the first slice came home; how far the run is by then depends on the machine."""
    runs, killed = tmp_path / "runs", []
    monkeypatch.setattr(cluster, "SLICE", SLICE)

    def kill() -> None:
        while not (any(map(is_half_way, runs.glob("*/seed-????"))) and (node := node_at_work(nodes[1]))):
            time.sleep(0.02)
        nodes[0].remove_node(node, allow_graceful=False)
        killed.append(node)

    killer = Thread(target=kill, daemon=True)
    killer.start()
    words = [*WORDS, "--seeds", "2", "--jobs", "1", "--address", nodes[0].address, "--runs-dir", str(runs)]
    assert main(words) == 0
    killer.join(60)
    shown = capfd.readouterr().err
    assert killed, shown
    assert re.search(r"so far fourroom-sfl seed 0: step [1-9]", shown), shown
    assert "(2 of 2)" in shown
    for seed in range(2):
        experiment, _ = read_config(runs / "fourroom-sfl" / f"seed-{seed:04d}")
        assert experiment.train.steps == STEPS
        uninterrupted = train(experiment, seed, tmp_path / "whole", "cpu")
        assert RunFolder(runs / "fourroom-sfl" / f"seed-{seed:04d}").episodes.read_bytes() == (
            uninterrupted.episodes.read_bytes()
        )


@needs_ray
@pytest.mark.slow
def test_when_the_whole_cluster_is_lost_the_command_says_so_and_reports(
    nodes: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    """In a process of its own, as Ray ends one that has lost its cluster: the command has to be sooner."""
    runs, said = tmp_path / "runs", tmp_path / "said"
    words = [*WORDS, "--seeds", "2", "--address", nodes[0].address, "--runs-dir", str(runs)]
    with said.open("w") as err, subprocess.Popen([sys.executable, "-m", "sfl", *words], stderr=err) as command:
        end = time.monotonic() + 300
        while node_at_work(nodes[1]) is None:
            assert time.monotonic() < end
            assert command.poll() is None, said.read_text()
            time.sleep(0.1)
        for node in [*nodes[1], nodes[0].head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)
        assert command.wait(timeout=300) == 1
    last = said.read_text().strip().splitlines()[-1]
    assert last.startswith(f"sfl: The Ray cluster at {nodes[0].address} was lost; once it is back, the same command")
    assert "of 2 runs are finished; see " in last
    (report,) = (runs / "reports").glob("*/report.md")
    assert "fourroom-sfl seed" in report.read_text()
