"""Decisions per second in ViZDoom: the bare simulator, the whole training loop, and what landmarks cost there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from benchmarks.bench.encoders import usable_encoder
from benchmarks.bench.graph import ring_statistics
from benchmarks.bench.measuring import Row, Stopwatch, row, waited_for

from sfl.config import require
from sfl.errors import UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import SFLConfig
from sfl.method.presets import paper_frames
from sfl.method.schedule import FrameRepresentation
from sfl.method.states import FeatureStacks
from sfl.registry import frame_encoder
from sfl.run.coverage import PoseLog
from sfl.run.evaluate import open_world
from sfl.run.log import note
from sfl.run.machine import resident_megabytes, resolve
from sfl.run.metrics import MetricWindow
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import Experiment
from sfl.seeding import core_count, draw_seed, spawn
from sfl.worlds import DoomConfig
from sfl.worlds.doom.pool import GamePool
from sfl.worlds.doom.protocol import ACTIONS
from sfl.worlds.doom.session import PoolSession
from sfl.worlds.mazes.layout import Maze

GPU_RATE, CPU_SHARE = 8_000, 20
"""What is asked of the whole loop: decisions per second with a GPU, percent of the bare simulator without one."""

MEMORY_LIMIT = 8_000
"""Megabytes, of the process without its games, and of the GPU."""

TOGETHER = 8
"""Pieces of work that are timed at once, so that waiting for a GPU counts little."""

RANDOM_STEPS = 40
"""Of each game, before anything is learned."""

SPANS: dict[str, list[tuple[type, str]]] = {
    "simulator": [(PoolSession, "begin_episodes"), (PoolSession, "observations"), (PoolSession, "step")],
    "encode": [(FeatureStacks, "push")],
    "localize and plan": [(SFLAgent, "act")],
    "replay": [(SFLAgent, "observe")],
    "learn": [(SFLAgent, "update"), (FrameRepresentation, "learn_due")],
}
"""The methods that make up each part. The clock is this process's: with a GPU, all waiting for it is in "localize and
plan", which ends with the one answer that is waited for."""


@dataclass(frozen=True)
class DoomBench:
    """What is measured, and for how long."""

    seconds: float = 10.0
    """Length of each measurement."""
    env_count: int = 64
    """Games of the training loop."""
    device: str = "cpu"
    """Where it learns."""
    encoder: str = "compact"
    """A shipped encoder, a file, or a kind of encoder whose weights are then drawn at random."""
    experiment: Experiment | None = None
    """Measure this one's agent in its maze instead of the usual settings in the usual maze."""
    landmarks: tuple[int, ...] = (100, 1_000, 5_000)
    """Sizes of the landmark graph."""
    games: tuple[int, ...] | None = None
    """Numbers of games of the bare simulator; None: 1, 2, 4, 8 and 16 a core, up to 512."""

    @property
    def env(self) -> DoomConfig:
        """The maze."""
        env = DoomConfig() if self.experiment is None else self.experiment.env
        if env.kind != "maze":
            raise UsageError("`benchmarks.bench doom` measures in ViZDoom; choose an experiment of it.")
        return env

    def agent(self, encoder: str, landmarks: int) -> SFLConfig:
        """The settings with every part at work soon, and as many landmarks as there is room for.

        First come some random steps of every game: psi is learned from such steps alone.
        """
        config = paper_frames() if self.experiment is None else self.experiment.agent
        over_frames = isinstance(config, SFLConfig) and config.states == "frames"
        require(over_frames, "`benchmarks.bench doom` measures SFL over frames.")
        assert isinstance(config, SFLConfig)
        require(config.metric.measure == "sfs", "`benchmarks.bench doom` measures SFL with SFS as its metric.")
        return replace(
            config,
            frames=replace(config.frames, encoder=encoder),
            successor=replace(config.successor, start_step=RANDOM_STEPS * self.env_count),
            landmarks=replace(config.landmarks, limit=landmarks, start_step=RANDOM_STEPS * self.env_count),
        )


def doom_bench(
    seconds: float, env_count: int | None, encoder: str | None, experiment: Experiment | None, device: str
) -> DoomBench:
    """What was asked for, and for what was not, the experiment's choice or one that suits the device."""
    device = resolve(device)
    require(seconds > 0, f"--seconds must be above 0, got {seconds}.")
    games, kind = (64, "place") if device.startswith("cuda") else (8, "compact")
    if experiment is not None:
        agent, games = experiment.agent, experiment.train.env_count
        kind = frame_encoder(agent)[1] or kind
    require(env_count is None or env_count >= 1, f"--envs must be 1 or more, got {env_count}.")
    return DoomBench(seconds, env_count or games, device, encoder or kind, experiment)


def measure_doom(bench: DoomBench) -> list[Row]:
    """The bare simulator at several numbers of games, then the whole loop at several numbers of landmarks."""
    rows, best = _bare_simulator(bench)
    with usable_encoder(bench.encoder, bench.device) as encoder:
        for landmarks in bench.landmarks:
            note(f"whole loop, {bench.env_count} games, {landmarks:,} landmarks")
            rows += _whole_loop(bench, encoder, landmarks, best)
    return rows


def _bare_simulator(bench: DoomBench) -> tuple[list[Row], float]:
    maze, rates = bench.env.load(), dict[int, float]()
    for count in sorted(set(bench.games or (min(512, core_count() * games) for games in (1, 2, 4, 8, 16)))):
        note(f"bare simulator, {count} games")
        rates[count] = bare_rate(maze, count, bench.seconds / 2)
    rows = [row("doom", f"bare simulator, {count} games", rate, "decisions/s") for count, rate in rates.items()]
    best = max(rates, key=lambda count: rates[count])
    return [*rows, row("doom", f"bare simulator, best ({best} games)", rates[best], "decisions/s")], rates[best]


def bare_rate(maze: Maze, count: int, seconds: float) -> float:
    """Decisions per second of games that act at random, in two halves, and of which nobody looks at the frames."""
    rng, halves = np.random.default_rng(0), min(2, count)
    with GamePool(maze, count, halves=halves) as pool:
        for half in range(halves):
            pool.send(half)

        def turn() -> int:
            decided = 0
            for half in range(halves):
                step = pool.receive(half)
                pool.send(half, rng.integers(len(ACTIONS), size=len(step.poses)))
                decided += int((~step.started).sum())
            return decided

        return rate_of(turn, seconds)


def rate_of(turn: Callable[[], int], seconds: float) -> float:
    """Decisions per second of turns that return how many they were; a fifth of the time goes by before it counts."""
    counted, end = 0, time.perf_counter() + 0.2 * seconds
    while time.perf_counter() < end:
        turn()
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds or counted == 0:
        counted += turn()
    return counted / (time.perf_counter() - begin)


class DoomLoop:
    """The loop of `sfl train` without evaluation and disk."""

    def __init__(self, bench: DoomBench, encoder: str, landmarks: int) -> None:
        world, count = open_world(bench.env), bench.env_count
        self.config = bench.agent(encoder, landmarks)
        self.agent = SFLAgent(self.config, bench.env.spec(count), 0, bench.device)
        fill_landmarks(self.agent, landmarks)
        self._session = world.session(count, FreeEpisodes(spawn(0, ["env"])["env"]), goal_terminates=False)
        self._steps = rollout(self.agent, self._session, learner=self.agent)
        self._window, self._poses = MetricWindow(), PoseLog(world.squares())

    def step(self) -> int:
        """One step of half of the games, and the learning that it calls for; returns how many decisions it was."""
        step = next(self._steps)
        self._window.add(step.metrics)
        self._poses.add(step.poses)
        return len(step.poses)

    def counts(self) -> tuple[int, int]:
        """Gradient steps and decisions so far."""
        source = self.agent.representation
        assert isinstance(source, FrameRepresentation)
        return source.successor.gradient_steps, self.agent.env_steps

    def warm_up(self) -> None:
        """Until gradient steps are made, and a GPU has its work captured."""
        while self.agent.env_steps < 2 * self.config.successor.start_step:
            self.step()

    def close(self) -> None:
        """End all games."""
        self._session.close()


def fill_landmarks(agent: SFLAgent, count: int) -> None:
    """Landmarks of random states in a graph of six edges each."""
    known, source = agent.landmarks, agent.representation
    assert isinstance(source, FrameRepresentation)
    generator = torch.Generator().manual_seed(draw_seed(spawn(0, ["landmarks"])["landmarks"]))
    states = torch.randn(count, source.state_dim, generator=generator).numpy()  # features have mean 0 and deviation 1
    for index in range(count):
        known.set.add(index, 0)
    filled = known.state() | {"observations": states}
    filled["psi"] = np.zeros((count, source.dim), np.float32)
    filled["history"] = np.zeros((known.config.window, 0, count), np.float32)
    known.load_state(filled)
    known.refresh(source)
    agent.statistics = ring_statistics(count)
    agent._form_edges()


def _whole_loop(bench: DoomBench, encoder: str, landmarks: int, bare: float) -> list[Row]:
    gpu = bench.device.startswith("cuda")
    loop, name = DoomLoop(bench, encoder, landmarks), f"{landmarks} landmarks"
    try:
        loop.warm_up()
        before = loop.counts()
        rate = rate_of(loop.step, bench.seconds)
        updates, decisions = (after - then for after, then in zip(loop.counts(), before, strict=True))
        shares = _shares(loop, bench.seconds / 2)
        host = resident_megabytes("VmRSS")
    finally:
        loop.close()
    # Less than the configuration says would make the loop look faster than it is; one step, and the steps of one turn,
    # may fall outside the time that was measured.
    per_decision = loop.config.successor.updates_per_step
    wanted = per_decision - (1 + per_decision * bench.env_count) / decisions
    rows = [
        row("doom", f"{name}: gradient steps", updates / decisions, "per decision", at_least=wanted),
        row("doom", f"{name}: whole loop", rate, "decisions/s", at_least=GPU_RATE if gpu else None),
        row("doom", f"{name}: whole loop", 1e3 / rate, "ms per decision"),
        row("doom", f"{name}: of the bare simulator", 100 * rate / bare, "percent", None if gpu else CPU_SHARE),
        *(row("doom", f"{name}: {part}", percent, "percent") for part, percent in shares.items()),
        row("doom", f"{name}: memory", host, "MB", at_most=MEMORY_LIMIT),
    ]
    if gpu:
        megabytes = torch.cuda.max_memory_reserved() / 1e6
        rows.append(row("doom", f"{name}: GPU memory", megabytes, "MB", at_most=MEMORY_LIMIT))
    return rows + _parts(loop, bench)


def _shares(loop: DoomLoop, seconds: float) -> dict[str, float]:
    """Percent of the time for each part."""
    watch = Stopwatch()
    with watch.watching(SPANS):
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            loop.step()
        total = time.perf_counter() - begin
    parts = {part: 100 * watch.seconds[part] / total for part in SPANS}
    return {**parts, "rest": 100 - sum(parts.values())}


def _parts(loop: DoomLoop, bench: DoomBench) -> list[Row]:
    """Time of each piece of work by itself, waited for."""
    source, known = loop.agent.representation, loop.agent.landmarks
    assert isinstance(source, FrameRepresentation)
    envs = np.arange(-(-bench.env_count // 2))
    frames = np.random.default_rng(0).integers(0, 256, size=(len(envs), 120, 160, 3), dtype=np.uint8)
    states = source.perceive(frames, envs)
    decisions = round(TOGETHER / loop.config.successor.updates_per_step)

    def learn() -> int:
        source.update(loop.agent.env_steps, decisions)
        source.learn_due()
        return TOGETHER

    def repeated(action: Callable[[], object]) -> Callable[[], int]:
        return lambda: len([action() for _ in range(TOGETHER)])

    actions: dict[str, Callable[[], int]] = {
        "a gradient step": learn,
        f"encoding {len(envs)} frames": repeated(lambda: source.perceive(frames, envs)),
        f"localizing {len(envs)} states": repeated(lambda: known.localize(source, states, envs).decisions()),
    }
    with torch.no_grad():
        turns = {name: waited_for(action, bench.device) for name, action in actions.items()}
        rates = {name: rate_of(turn, 0.1 * bench.seconds) for name, turn in turns.items()}
    return [row("doom", f"{known.set.count} landmarks: {name}", 1e3 / rate, "ms") for name, rate in rates.items()]
