"""Runs as tasks of a Ray cluster, which starts them, chooses their nodes and tries them again.

A task works at one run for a slice of time: it is given the run folder as far as it is, trains in a folder of its own
node, and returns the folder, from which the next slice goes on. When a node or worker is lost, Ray gives the same slice
to another. Nodes need sfl and the paper's files, and no shared disk. From top to bottom: what a task does, what it asks
Ray for, the engine, and whether a cluster answers at all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfl.config import from_json, require, to_json
from sfl.errors import SflError, UsageError
from sfl.reproduce.engine import (
    ATTEMPTS,
    MAZE_NEED,
    PATIENCE,
    Failure,
    Machine,
    Need,
    Queue,
    device_of,
    locked,
    need_of,
    start_words,
)
from sfl.reproduce.plan import PlannedRun, checkpoint_steps, follow_move
from sfl.run.checkpoint import LEARNING_FILES
from sfl.run.folder import RunFolder
from sfl.run.log import note
from sfl.run.settings import Experiment
from sfl.run.stopping import RunStoppedError, StopRequest
from sfl.run.train import resume, train

SLICE = 600.0
"""Seconds that a task trains before it returns; a lost node loses as much. A run stopped and resumed equals one that
was not, and starting again takes some seconds."""
LOOK_EVERY = 0.5
LISTEN_EVERY = 5.0
"""Seconds between two looks at the tasks, and at whether the head of the cluster still takes connections."""
LOST_AFTER = 30.0
"""Seconds without a head after which the cluster is given up. After 60, Ray ends the process that drives it."""
ANSWER_WITHIN = 5.0
HEALTHY_WITHIN = 15.0
"""Seconds that a cluster has to take a connection, and to say that it is well."""
GPU_SHARE = 0.25
"""Of a GPU: four runs in mazes keep one busy."""


class ClusterLostError(SflError):
    """The cluster is gone; runs go on from what has come home of them."""


@dataclass(frozen=True)
class Order:
    """What a task is told."""

    run: PlannedRun
    runs_dir: str
    """The folder of runs of the machine that ordered it."""
    begun: bytes | None
    """The run folder as far as it is, to go on from; None to start."""
    needed: tuple[tuple[str, bytes], ...]
    """Other runs that this one reads: where each lies within the folder of runs, and its files."""
    device: str
    seconds: float
    place: str
    """Where the command was called: files that settings name are looked for there, if the node has such a folder."""


def work(order: Order) -> tuple[bytes, bool]:
    """Train on this node for a slice of time; returns the run folder, and whether the run has come to its end."""
    here = contextlib.chdir(order.place) if Path(order.place).is_dir() else contextlib.nullcontext()
    with tempfile.TemporaryDirectory(prefix="sfl-run-") as scratch, here:
        run = _moved(order.run, order.runs_dir, scratch)
        for name, packed in order.needed:
            unpack(packed, Path(scratch) / name)
        if order.begun is not None:
            unpack(order.begun, run.path)
            follow_move(run)
        ended = False
        with contextlib.suppress(RunStoppedError, KeyboardInterrupt), _stopped_after(order.seconds):
            if order.begun is None:
                train(run.experiment, run.seed, scratch, order.device)
            else:
                resume(run.path, order.device)
            ended = True
        return pack(run.path), ended


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """As if Ctrl-C were pressed then: a run in training saves itself. (A worker of Ray has the signal blocked.)"""

    def interrupt(number: int, frame: Any) -> None:
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _moved(run: PlannedRun, runs_dir: str, scratch: str) -> PlannedRun:
    """The same run in another folder of runs, where its settings look for the runs that it reads."""
    settings = _renamed(to_json(run.experiment), f"{runs_dir}/", f"{scratch}/")
    path = Path(scratch, *run.path.parts[-2:])
    return replace(run, experiment=from_json(Experiment, settings), path=path)


def _renamed(value: Any, old: str, new: str) -> Any:
    """The same with another beginning of every text that begins with `old`."""
    if isinstance(value, dict):
        return {key: _renamed(part, old, new) for key, part in value.items()}
    if isinstance(value, list):
        return [_renamed(part, old, new) for part in value]
    return new + value.removeprefix(old) if isinstance(value, str) and value.startswith(old) else value


def pack(folder: Path, but: Collection[str] = ()) -> bytes:
    """A run folder as one block of bytes, without the files of those names; empty where there is none."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name not in but:
                archive.add(file, file.relative_to(folder).as_posix())
    return out.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Put a packed run folder in the place of what is there, whole."""
    draft, old = (folder.with_name(folder.name + ending) for ending in (".new", ".old"))
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(draft, filter="data")
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def resources(need: Need, nodes: Sequence[dict[str, float]]) -> dict[str, float]:
    """What to ask Ray for: the need, or as much of it as the node has that suits it best; more is never granted."""
    best = max(
        nodes,
        key=lambda node: (bool(need.gpu_memory and node.get("GPU")), node.get("CPU", 0), node.get("memory", 0)),
        default={},
    )
    memory = need.memory * 1_000_000
    return {
        "num_cpus": min(need.cores, int(best.get("CPU", 0)) or need.cores),
        "memory": min(memory, int(best.get("memory", 0)) or memory),
        "num_gpus": GPU_SHARE if need.gpu_memory and best.get("GPU") else 0,
    }


class RayEngine:
    """One task after another for each run, with what it takes declared."""

    def __init__(self, runs_dir: Path, address: str, device: str = "auto", jobs: int | None = None) -> None:
        require(jobs is None or jobs >= 1, f"--jobs must be 1 or more, got {jobs}.")
        self._runs_dir, self._device, self._jobs = runs_dir, device, jobs
        self._ray = connect(answering(address))
        self._address: str = self._ray.get_runtime_context().gcs_address
        self._heard = self._listened = time.monotonic()
        self._running: dict[Any, PlannedRun] = {}
        self.failures: list[Failure] = []

    def make(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        """Make or go on with runs; on Ctrl-C each keeps what has come home of it."""
        queue = Queue(runs)
        self.failures = queue.failures
        with locked(self._runs_dir), StopRequest() as stop:
            while queue.waiting or self._running:
                self._submit(queue)
                ready, _ = self._ray.wait(list(self._running), timeout=LOOK_EVERY)
                for task in ready:
                    self._receive(task, queue)
                self._require_head()
                if stop.asked:
                    self._stop()
        return queue.failures

    def room(self) -> Machine:
        """What all nodes have together; a GPU holds as many runs as their share says."""
        found = self._ray.cluster_resources()
        gpus = [int(MAZE_NEED.gpu_memory / GPU_SHARE)] * int(found.get("GPU", 0))
        return Machine(int(found.get("CPU", 0)), int(found.get("memory", 0) / 1_000_000), gpus)

    def close(self) -> None:
        """Nothing more is to be made."""
        self._ray.shutdown()

    def _submit(self, queue: Queue) -> None:
        while (run := queue.take(lambda _: self._jobs is None or len(self._running) < self._jobs)) is not None:
            try:
                self._order(run)
                note(f"submit {run.title}")
            except (SflError, OSError) as error:
                queue.fail(run, str(error))

    def _order(self, run: PlannedRun) -> None:
        """The next slice of a run, from what is here of it."""
        resumed = start_words(run, self._runs_dir, run.path)[0] == "resume"  # checked, and cleared if there is nothing
        follow_move(run)
        begun = pack(run.path) if resumed else None
        device = device_of(run.experiment, self._device)
        # Only networks, poses and history are read of other runs: the replay of a controller has 3 GB.
        needed = tuple(("/".join(path.parts[-2:]), pack(path, LEARNING_FILES)) for path in run.after)
        order = Order(run, str(self._runs_dir), begun, needed, device, SLICE, str(Path.cwd()))
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        asked = resources(need_of(run.experiment, device), nodes)
        task = self._ray.remote(work).options(**asked, max_retries=ATTEMPTS - 1).remote(order)
        self._running[task] = run

    def _receive(self, task: Any, queue: Queue) -> None:
        run, errors = self._running.pop(task), self._ray.exceptions
        try:
            packed, ended = self._ray.get(task)
            unpack(packed, run.path)
            if ended:
                follow_move(run)
                queue.ended(run)
                return
            note(f"so far {run.title}: step {checkpoint_steps(RunFolder(run.path)) or 0:,}")
            self._order(run)
        except errors.RayTaskError as error:
            queue.fail(run, " ".join(str(error.cause).split()))
        except errors.RayError as error:
            if isinstance(error, errors.LocalRayletDiedError) or not takes_connection(self._address):
                raise self._lost() from error
            queue.fail(run, f"its node or worker was lost {ATTEMPTS} times ({type(error).__name__})")
        except (SflError, OSError) as error:  # such as no room for it
            queue.fail(run, str(error))

    def _require_head(self) -> None:
        now = time.monotonic()
        if now - self._listened < LISTEN_EVERY:
            return
        self._listened = now
        if takes_connection(self._address):
            self._heard = now
        elif now - self._heard > LOST_AFTER:
            raise self._lost()

    def _lost(self) -> ClusterLostError:
        return ClusterLostError(
            f"The Ray cluster at {self._address} was lost; once it is back, the same command goes on from the last "
            "checkpoints."
        )

    def _stop(self) -> None:
        """End the tasks that are still at work, after they have removed their folders."""
        note(f"stopping: {len(self._running)} runs keep what has come home of them.")
        for task in self._running:
            self._ray.cancel(task)
        self._ray.wait(list(self._running), num_returns=len(self._running), timeout=PATIENCE)
        raise RunStoppedError("stopped; the same command goes on from the last checkpoints.")


def answering(address: str) -> str:
    """The address, if a cluster answers there, and else it is refused within seconds; `auto` is what RAY_ADDRESS names,
    or a cluster of this machine."""
    if importlib.util.find_spec("ray") is None:
        raise SflError("--engine ray needs the package ray; install it with `pip install ray`.")
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if address != "auto":
        _require_answer(address)
    return address


def takes_connection(address: str) -> bool:
    """Something listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_WITHIN).close()
    except OSError:
        return False
    return True


def connect(address: str) -> Any:
    """Ray, connected to a cluster that answers."""
    import ray

    if ray.is_initialized():
        return ray
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise SflError(
            f"No Ray cluster at --address {address} ({reason}); start one with `ray start --head`."
        ) from error
    return ray


def _require_answer(address: str) -> None:
    """Ray itself would wait for a minute for a cluster that does not answer."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or "/" in host:
        raise UsageError(f"--address must be auto or HOST:PORT of a Ray cluster's head, got {address!r}.")
    try:
        socket.create_connection((host, int(port)), ANSWER_WITHIN).close()
    except (OSError, UnicodeError, OverflowError) as error:  # no such host, no name of a host, no port
        raise SflError(f"No Ray cluster answers at --address {address} ({error}); is its head running?") from error
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        healthy = subprocess.run(command, capture_output=True, check=False, timeout=HEALTHY_WITHIN).returncode == 0
    except subprocess.TimeoutExpired:
        healthy = False
    if not healthy:
        raise SflError(f"Something answers at --address {address}, but it is no healthy Ray cluster; give its head.")
