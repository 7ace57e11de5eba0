"""Training: act, observe, update; every so often write metrics, evaluate and save."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from sfl.api import Agent, EnvSpec, OracleAgent, Policy, Step
from sfl.config import to_json
from sfl.errors import CheckpointError, SflError, UsageError
from sfl.files import has_no_room
from sfl.registry import agent_name, make_agent, wants_poses
from sfl.run import checkpoint, folder
from sfl.run.chance import is_random, keep_rows, kept_rows, random_rows
from sfl.run.evaluate import EpisodeRow, Label, evaluate, summarise
from sfl.run.folder import RunFolder
from sfl.run.indicators import Indicators
from sfl.run.lend import Explorer, lend_explorer
from sfl.run.log import Boards, Progress, note
from sfl.run.machine import give_back_freed_memory, memory_in_use, prepare, system_facts
from sfl.run.metrics import MetricWindow
from sfl.run.poses import PoseLog, landmark_poses
from sfl.run.pretraining import pretraining_of
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import Experiment
from sfl.run.sight import kind_in, look
from sfl.run.stopping import RunStoppedError, StopRequest
from sfl.run.unseen import unseen_goals
from sfl.run.worlds import open_world
from sfl.seeding import generator_state, restore_generator, spawn
from sfl.worlds import world_name


def train(
    experiment: Experiment,
    seed: int = 0,
    runs_dir: Path | str = "runs",
    device: str = "auto",
    threads: int = 1,
    wandb: bool = False,
) -> RunFolder:
    """Train from scratch into a new run folder; nothing is written before environment and agent exist."""
    path = folder.run_path(runs_dir, experiment, seed)
    device = prepare(device, threads)
    seen = look(kind_in(experiment.env), experiment.agent)
    run = _Training(experiment, seed, device)
    try:
        run.lend_explorer()
        before = [asdict(one) for one in pretraining_of(experiment.agent)]
        walks = {} if run.explorer is None else {"explorer_checkpoint": run.explorer.checkpoint}
        made = folder.create(path, experiment, seed, system_facts(device, threads) | {"pretraining": before} | walks)
        note(seen)
        with folder.held(made.path):
            run.world.save_tasks(made.path, experiment.eval)
            run.go(made, wandb)
    finally:
        run.session.close()
    return made


def resume(path: Path | str, device: str = "auto", threads: int = 1, wandb: bool = False) -> RunFolder:
    """Go on where a run stopped; on the CPU the result equals that of a run that never stopped, bit for bit."""
    experiment, seed = folder.usable_config(path)
    found = RunFolder(Path(path))
    if not folder.has_checkpoint(found):
        raise UsageError(f"{path} has no checkpoint yet: give its `sfl train` again, which starts over, or delete it.")
    run = _Training(experiment, seed, prepare(device, threads), found.path)
    try:
        with folder.held(found.path):
            folder.tidy(found)
            run.restore(found)
            if run.finished:
                note(f"{path} is finished ({run.env_steps:,} steps); there is nothing to resume.")
                run.complete(found)
            else:
                run.go(found, wandb)
    finally:
        run.session.close()
    return found


class _StopNow(Exception):  # noqa: N818  # no error: how a request to stop leaves the loop
    """The user asked to stop."""


def _check(stop: StopRequest) -> None:
    if stop.asked:
        raise _StopNow


class _Training:
    """The state of a run in memory."""

    def __init__(self, experiment: Experiment, seed: int, device: str, saved: Path | None = None) -> None:
        self.experiment, self.seed = experiment, seed
        as_written = experiment if saved is None else folder.read_config(saved)[0]
        self._settings = folder.settings_of(as_written, seed)
        count = experiment.train.env_count
        self.world, self.world_name = open_world(experiment.env, saved), world_name(experiment.env)
        self.spec: EnvSpec = folder.config_spec(experiment.env, count)
        self.tasks = self.world.tasks(experiment.eval, seed)
        self.agent: Agent = make_agent(experiment.agent, self.spec, seed, device)
        self.device = device
        self.explorer: Explorer | None = None  # until it is lent: a resumed run says which checkpoint it had
        self.rng = spawn(seed, ["env"])["env"]
        self.poses = PoseLog(self.world.squares())
        self.unseen = unseen_goals(self.world, experiment.env, self.tasks)
        self.random: list[EpisodeRow] | None = None  # what the random policy makes of the tasks, once it was asked
        self.session = self.world.session(count, FreeEpisodes(self.rng), goal_terminates=False)
        self.window = MetricWindow()
        self.env_steps = 0
        self._before = 0  # environment steps before the last step
        self._noted: Mapping[str, Any] = {}  # what the checkpoint of a resumed run knows of its tables
        self.evaluated_at = -1
        self.seconds = self._window_seconds = 0.0
        self._window_steps = 0

    @property
    def finished(self) -> bool:
        """All steps made and the last evaluation written."""
        return self.env_steps >= self.experiment.train.steps and self.evaluated_at == self.env_steps

    def lend_explorer(self, saved: dict[str, Any] | None = None) -> None:
        """Where another run's policy walks for this one; `saved` is what the checkpoint of a resumed run has of it."""
        self.explorer = lend_explorer(self.agent, self.experiment.env, self.seed, self.device, saved)

    def go(self, where: RunFolder, wandb: bool) -> None:
        """Train to the end, or until the user asks to stop."""
        self.folder, train = where, self.experiment.train
        self.tables = where.tables(self.experiment.eval.levels)
        for name, table in self.tables.items():
            table.cut_after(self.env_steps if name == "train" else self.evaluated_at, self._noted.get(table.path.name))
        title = f"{self.experiment.name} seed {self.seed}"
        self.boards = Boards(where.path / "tensorboard", to_json(self.experiment), title, wandb, self.env_steps)
        self.progress = Progress(title, train.steps, self.env_steps)
        try:
            with self._stoppable() as stop:
                self._loop(stop)
        finally:
            self.progress.close()
            self.boards.close()

    def complete(self, where: RunFolder) -> None:
        """Of a finished run: the rows of the random policy where they are missing, as in folders of older versions."""
        self.folder = where
        with self._stoppable() as stop:
            try:
                self._ask_random(stop)
            except _StopNow:
                raise RunStoppedError(f"stopped; the run itself is finished. {self._how_to_resume()}") from None

    @contextmanager
    def _stoppable(self) -> Iterator[StopRequest]:
        """A first signal asks to stop, a second one stops; a full disk is said in one line."""
        try:
            with StopRequest() as stop:
                yield stop
        except KeyboardInterrupt as error:
            raise RunStoppedError(f"stopped without saving; {self._how_to_resume()}") from error
        except OSError as error:
            if has_no_room(error):
                raise SflError(f"The disk is full; {self._how_to_resume()}") from error
            raise

    def _how_to_resume(self) -> str:
        if not checkpoint.exists(self.folder.last):
            return f"there is no checkpoint yet: the same command starts over, or delete {self.folder.path}."
        return f"continue with `sfl resume {self.folder.path}`."

    def _loop(self, stop: StopRequest) -> None:
        try:
            self._catch_up(stop)
            self._train(stop)
            self._evaluate(stop)
        except _StopNow:
            self._save(history=False)
            raise RunStoppedError(f"stopped at step {self.env_steps:,} and saved; {self._how_to_resume()}") from None
        self._save(history=True)

    def _train(self, stop: StopRequest) -> None:
        if self.env_steps >= self.experiment.train.steps:
            return
        started = time.perf_counter()
        for step in rollout(self.agent, self.session):
            self._learn(step)
            self._window_seconds += time.perf_counter() - started
            self._look_up(stop)
            if self.env_steps >= self.experiment.train.steps:
                return
            _check(stop)
            started = time.perf_counter()

    def _learn(self, step: Step) -> None:
        if wants_poses(self.experiment.agent):
            cast(OracleAgent, self.agent).observe_poses(step.poses, step.next_poses)
        self.agent.observe(step.transitions)
        self.window.add(self.agent.update())
        self.poses.add(step.poses)
        self.unseen.add(step)
        self._before = self.env_steps
        self.env_steps += len(step.poses)

    def _look_up(self, stop: StopRequest) -> None:
        self.progress.advance(self.env_steps)
        if self._due(self.experiment.train.log_every):
            self._log()
        self._catch_up(stop)

    def _catch_up(self, stop: StopRequest) -> None:
        """Evaluate and save where due at this step; a resumed run may have been stopped before it came to that."""
        train = self.experiment.train
        if train.eval_every and self._due(train.eval_every):
            self._evaluate(stop)
        if self._due(train.checkpoint_every) and self.env_steps < train.steps:
            self._save(history=True)

    def _due(self, every: int) -> bool:
        """A multiple of the interval was passed by the last step."""
        return self.env_steps // every > self._before // every

    def _log(self) -> None:
        self.seconds += self._window_seconds
        rate = (self.env_steps - self._window_steps) / max(self._window_seconds, 1e-9)
        self._window_seconds, self._window_steps = 0.0, self.env_steps
        times = {"time/env_steps_per_second": rate, "time/wall_seconds": self.seconds}
        metrics = {**self.window.take(), **self.poses.metrics(), **self.session.metrics(), **memory_in_use(), **times}
        self.tables["train"].write({"env_steps": self.env_steps, **metrics})
        self.boards.write(metrics, self.env_steps)

    def _evaluate(self, stop: StopRequest) -> None:
        """Evaluate on environments and generators of evaluation's own, at most once for each step count."""
        self._ask_random(stop)
        if self.evaluated_at == self.env_steps:
            return
        graph = self.agent.state_dict().graph
        indicators = Indicators(graph, landmark_poses(graph, self.poses), self.world)

        def watch(step: Step, policy: Policy) -> None:
            _check(stop)
            indicators(step, policy)

        rows = evaluate(
            self.agent,
            self.experiment.env,
            self.tasks,
            seed=self.seed,
            parallel=self.experiment.eval.parallel,
            label=Label(self.experiment.name, agent_name(self.experiment.agent), self.seed, self.env_steps),
            watch=watch,
        )
        self._write_evaluation(rows, indicators)

    def _ask_random(self, stop: StopRequest) -> None:
        """Pose the tasks to the random policy, once: it does not learn. What is whole in the folder is kept."""
        if self.random is not None:
            return
        if is_random(self.experiment.agent):
            self.random = []
            return
        name, env, config = self.experiment.name, self.experiment.env, self.experiment.eval
        self.random = kept_rows(self.folder, name, self.seed, self.tasks)
        if self.random is None:
            label = Label(name, seed=self.seed)
            rows = random_rows(env, self.tasks, label, config.parallel, lambda *_: _check(stop))
            keep_rows(self.folder, rows)
            self.random = rows

    def _write_evaluation(self, rows: list[EpisodeRow], indicators: Indicators) -> None:
        metrics = summarise(rows) | indicators.metrics() | self.unseen.metrics(self.poses)
        self.tables["episodes"].write_all([asdict(row) for row in rows])
        self.tables["eval"].write({"env_steps": self.env_steps, **metrics})
        self.boards.write(metrics, self.env_steps)
        self.progress.evaluated(metrics, summarise(self.random or ()))
        self.evaluated_at = self.env_steps

    def _checkpoint(self) -> checkpoint.Checkpoint:
        state = self.agent.state_dict()
        return checkpoint.Checkpoint(
            state,
            self.world_name,
            self.spec,
            self.env_steps,
            run={
                "env": generator_state(self.rng),
                "session": self.session.state(),
                "before": self._before,
                "window": self.window.state(),
                "window_steps": self._window_steps,
                "window_seconds": self._window_seconds,
                "seconds": self.seconds,
                "evaluated_at": self.evaluated_at,
                "goals_unseen": self.unseen.state(),
                "explorer": None if self.explorer is None else self.explorer.state(),
            },
            poses=self.poses.pieces(),
            landmark_poses=landmark_poses(state.graph, self.poses),
        )

    def _save(self, history: bool) -> None:
        kept = {table.path.name: table.kept() for table in self.tables.values()}
        snapshot = replace(self._checkpoint(), tables=kept, settings=self._settings)
        # `last` comes last: a run whose `last` is that of its end has everything else.
        if history and not self.folder.history(self.env_steps).exists():
            checkpoint.save(self.folder.history(self.env_steps), snapshot, "small")
        checkpoint.save(self.folder.last, snapshot)
        del snapshot
        give_back_freed_memory()

    def restore(self, found: RunFolder) -> None:
        """Take up the state of the run's last checkpoint."""
        loaded = checkpoint.load(found.last, self.world_name, self.spec)
        _require_complete(found, loaded.run)
        folder.require_settings(found, found.last, loaded.settings)
        folder.require_rows(found, loaded.tables)
        self._noted = loaded.tables
        fresh = self.agent.state_dict()
        checkpoint.check_keys(found.last, loaded.agent.networks, fresh.networks)
        checkpoint.check_state(found.last, loaded.agent, fresh)
        del fresh  # with a whole replay
        self.agent.load_state_dict(loaded.agent)
        restore_generator(self.rng, loaded.run["env"])
        self.window.restore(loaded.run["window"])
        for piece in loaded.poses:
            self.poses.add(piece)
        self.unseen.restore(loaded.run.get("goals_unseen"))
        self._window_steps, self._window_seconds = loaded.run["window_steps"], loaded.run["window_seconds"]
        self.seconds, self.evaluated_at = loaded.run["seconds"], loaded.run["evaluated_at"]
        self.env_steps, self._before = loaded.env_steps, loaded.run["before"]
        if self.finished:
            return
        self.lend_explorer(loaded.run.get("explorer"))
        for index in self.session.restore(loaded.run["session"]):
            note(f"environment {index} did not repeat its episode; this run is not exact.")


def _require_complete(found: RunFolder, run: dict[str, Any]) -> None:
    if not run:
        raise UsageError(f"{found.path} is a slim copy made by `sfl export`; it can be evaluated but not resumed.")
    needed = {"env", "session", "before", "window", "window_steps", "window_seconds", "seconds", "evaluated_at"}
    if missing := sorted(needed - set(run)):
        raise CheckpointError(f"Checkpoint {found.last} lacks the keys {missing} in generators.json.")
