"""Runs as tasks of a Ray cluster, one for each; what they write comes back into the same run folders.

A task trains in a folder of its own node and sends a parcel whenever it has saved a checkpoint. When its node is lost,
the run is resumed elsewhere from the last parcel that came. Nodes need sfl and the paper's files, and no shared disk.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sfl.config import require
from sfl.errors import SflError, UsageError
from sfl.reproduce.engine import (
    MAZE_NEED,
    STOPPED,
    Failure,
    Machine,
    Need,
    Queue,
    device_of,
    last_line,
    locked,
    need_of,
    require_usable,
    start_words,
)
from sfl.reproduce.parcels import Stamps, pack, unpack
from sfl.reproduce.plan import PlannedRun, checkpoint_steps, follow_move
from sfl.run.checkpoint import LEARNING_FILES
from sfl.run.folder import RunFolder
from sfl.run.log import note
from sfl.run.stopping import RunStoppedError, StopRequest

TIED = Path(__file__).with_name("tied.py")
LOOK_EVERY = 0.5
"""Seconds between two looks at a run or at the tasks."""
ANSWER_WITHIN = 5.0
HEALTHY_WITHIN = 15.0
"""Seconds that a cluster has to take a connection, and to say that it is well."""
SCRATCH = "sfl-run-"
"""How the temporary folder of a task is called, before the number of its process."""
GPU_SHARE = 0.25
"""Of a GPU: four runs in mazes keep one busy."""


@dataclass(frozen=True)
class Order:
    """What a task is told; plain values, because it travels."""

    run: PlannedRun
    runs_dir: str
    """The folder of runs of whoever ordered it."""
    device: str
    begun: bytes | None
    """The run folder as far as it is, to go on from; None to start."""
    needed: tuple[tuple[str, bytes], ...] = ()
    """Other runs that this one reads: where each lies within the folder of runs, and its files."""
    place: str = "."
    """Where the command was called: files that settings name are looked for there, if the node has such a folder."""


@dataclass(frozen=True)
class Parcel:
    """What a task sends back."""

    packed: bytes
    home: str
    """The folder of runs that its settings speak of."""
    code: int | None = None
    """The exit code of the run's process, once it has ended."""
    said: str = ""
    """The last line that it printed."""


def work(order: Order) -> Iterator[Parcel]:
    """Train on this node; a parcel for every checkpoint, and one at the end."""
    _sweep(Path(tempfile.gettempdir()))
    scratch = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        path, log, sent = _set_out(order, scratch), scratch / "log.txt", Stamps()
        words = start_words(_moved(order, scratch), scratch, path)
        command = [sys.executable, str(TIED), str(os.getpid()), *words, "--device", order.device]
        place = order.place if Path(order.place).is_dir() else None
        with log.open("ab") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=place
            )
        steps = checkpoint_steps(RunFolder(path))
        while process.poll() is None:
            time.sleep(LOOK_EVERY)
            saved = checkpoint_steps(RunFolder(path))
            if saved != steps and (packed := pack(path, sent)) is not None:
                steps = saved
                yield Parcel(packed, str(scratch))
        rest = pack(path, sent) if path.exists() else None
        yield Parcel(rest or b"", str(scratch), process.returncode, last_line(log))
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


def _sweep(temporary: Path) -> None:
    """Remove what tasks that were killed have left on this node: a run's replay can have gigabytes."""
    for folder in temporary.glob(f"{SCRATCH}*-*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isascii() and owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # someone else's
    return True


def _set_out(order: Order, scratch: Path) -> Path:
    """Lay out what the run goes on from and what it reads; returns its folder."""
    run = order.run
    path = scratch / run.path.parent.name / run.path.name
    arrived = [*order.needed, *([] if order.begun is None else [(f"{path.parent.name}/{path.name}", order.begun)])]
    for name, packed in arrived:
        unpack(packed, scratch / name)
        _readdress(scratch / name, order.runs_dir, str(scratch))
    return path


def _moved(order: Order, scratch: Path) -> PlannedRun:
    """The same run with its words speaking of this node's folder."""
    run, home = order.run, f"{order.runs_dir}/"
    words = tuple(f"{scratch}/{word.removeprefix(home)}" if word.startswith(home) else word for word in run.words)
    return PlannedRun(run.experiment, run.seed, words, run.path, run.after)


def _readdress(folder: Path, old: str, new: str) -> None:
    """Settings that name a file among the runs follow it."""
    config = RunFolder(folder).config
    if config.is_file():
        body = json.loads(config.read_text())
        config.write_text(json.dumps(_renamed(body, f"{old}/", f"{new}/"), indent=2) + "\n")


def _renamed(value: Any, old: str, new: str) -> Any:
    """The same with another beginning of every text that begins with `old`."""
    if isinstance(value, dict):
        return {key: _renamed(part, old, new) for key, part in value.items()}
    if isinstance(value, list):
        return [_renamed(part, old, new) for part in value]
    return new + value.removeprefix(old) if isinstance(value, str) and value.startswith(old) else value


class Submitted(NamedTuple):
    """A run on its way, and what was asked for it."""

    run: PlannedRun
    asked: dict[str, float]


TASK = {"max_retries": 0, "num_returns": "streaming"}
"""A task that is lost is ordered anew, from where the run is by then."""


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


def holds(node: dict[str, float], asked: dict[str, float]) -> bool:
    """An empty node would grant it."""
    kinds = {"num_cpus": "CPU", "memory": "memory", "num_gpus": "GPU"}
    return all(node.get(kinds[name], 0) >= amount for name, amount in asked.items())


def asked_words(asked: dict[str, float]) -> str:
    """What a run asks for, for people."""
    gpu = f", {asked['num_gpus']:g} of a GPU" if asked["num_gpus"] else ""
    cores = "1 core" if asked["num_cpus"] == 1 else f"{asked['num_cpus']:g} cores"
    return f"{cores} and {asked['memory'] / 1e9:g} GB{gpu}"


class RayEngine:
    """One task for each run, with what it takes declared."""

    def __init__(self, runs_dir: Path, address: str, device: str = "auto", jobs: int | None = None) -> None:
        require(jobs is None or jobs >= 1, f"--jobs must be 1 or more, got {jobs}.")
        self._runs_dir, self._device, self._jobs = runs_dir, device, jobs
        self._ray = connect(address)
        self.failures: list[Failure] = []
        self._running: dict[Any, Submitted] = {}
        self._waiting: set[Path] = set()  # runs that no node can hold, of which that has been said

    def make(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        """Make or go on with runs; on Ctrl-C each keeps its last checkpoint."""
        queue = Queue(runs)
        self.failures = queue.failures
        try:
            with locked(self._runs_dir), StopRequest() as stop:
                while queue.waiting or self._running:
                    self._submit(queue)
                    ready, _ = self._ray.wait(list(self._running), timeout=LOOK_EVERY)
                    for task in ready:
                        self._receive(task, queue)
                    if not ready:
                        self._take_back(queue)
                    if stop.asked:
                        raise RunStoppedError("stopped; the same command goes on from the last checkpoints.")
        finally:
            self._leave()
        return queue.failures

    def room(self) -> Machine:
        """What all nodes have together; a GPU holds as many runs as their share says."""
        found = self._ray.cluster_resources()
        gpus = [int(MAZE_NEED.gpu_memory / GPU_SHARE)] * int(found.get("GPU", 0))
        return Machine(int(found.get("CPU", 0)), int(found.get("memory", 0) / 1_000_000), gpus)

    def _leave(self) -> None:
        """End the tasks that are still at work; their folders on the nodes are temporary."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._ray.shutdown()

    def _submit(self, queue: Queue) -> None:
        while (run := queue.take(self._fits)) is not None:
            device = device_of(run.experiment, self._device)
            try:
                order = self._order(run, device)
            except (SflError, OSError) as error:
                queue.fail(run, str(error))
                continue
            asked = resources(need_of(run.experiment, device), self._nodes())
            task = self._ray.remote(work).options(**asked, **TASK).remote(order)
            note(f"submit {run.title}")
            self._running[task] = Submitted(run, asked)

    def _fits(self, run: PlannedRun) -> bool:
        return self._jobs is None or len(self._running) < self._jobs

    def _order(self, run: PlannedRun, device: str) -> Order:
        resumable = checkpoint_steps(RunFolder(run.path)) is not None
        if resumable:
            require_usable(run, run.path)
        else:
            start_words(run, self._runs_dir, run.path)  # clears a folder that holds nothing to go on from
        follow_move(run)
        # Whoever reads a run reads its networks, poses and history: a controller's replay alone has 3 GB.
        packed = ((path, pack(path, {}, but=LEARNING_FILES)) for path in run.after)
        needed = tuple((f"{path.parent.name}/{path.name}", files or b"") for path, files in packed)
        begun = pack(run.path, {}) if resumable else None
        return Order(run, str(self._runs_dir), device, begun, needed, str(Path.cwd()))

    def _nodes(self) -> list[dict[str, float]]:
        """What each node that is alive has."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _take_back(self, queue: Queue) -> None:
        """Tasks that no node is left for are ordered anew, as the nodes are now: they would wait forever."""
        nodes = self._nodes()
        for task, (run, asked) in list(self._running.items()):
            if any(holds(node, asked) for node in nodes):
                self._waiting.discard(run.path)
                continue
            need = need_of(run.experiment, device_of(run.experiment, self._device))
            if resources(need, nodes) != asked:
                self._ray.cancel(task, force=True)
                del self._running[task]
                queue.killed(run, "no node is left that has what it asked for")
            elif run.path not in self._waiting:
                self._waiting.add(run.path)
                note(f"{run.title} waits for a node with {asked_words(asked)}: the cluster has none (`ray status`).")

    def _lay_down(self, parcel: Parcel, run: PlannedRun) -> None:
        if parcel.packed:
            unpack(parcel.packed, run.path)
            _readdress(run.path, parcel.home, str(self._runs_dir))

    def _receive(self, task: Any, queue: Queue) -> None:
        run, errors = self._running[task].run, self._ray.exceptions
        try:
            parcel: Parcel = self._ray.get(next(task))
        except StopIteration:
            del self._running[task]
            return
        except errors.RayTaskError as error:
            del self._running[task]
            queue.fail(run, " ".join(str(error.cause).split()))
            return
        except errors.RayError as error:
            del self._running[task]
            queue.killed(run, f"its node or worker was lost ({type(error).__name__})")
            return
        try:
            self._lay_down(parcel, run)
        except (OSError, ValueError) as error:  # no room for it, or settings that came in pieces
            self._ray.cancel(task, force=True)
            del self._running[task]
            queue.fail(run, str(error))
            return
        if parcel.code is None:
            return
        del self._running[task]
        if parcel.code < 0:
            queue.killed(run, f"its process was killed by signal {-parcel.code}")
        elif parcel.code == RunStoppedError.exit_code:
            queue.killed(run, STOPPED)
        else:
            queue.ended(run, parcel.said if parcel.code else "")


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
