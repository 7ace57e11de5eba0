"""Training: first the loop on one screen, then what it stops for (metrics, evaluations, checkpoints) and resuming."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfl.api import Agent, EnvSpec, Policy, Step
from sfl.config import to_json
from sfl.errors import SflError, UsageError
from sfl.files import has_no_room
from sfl.registry import agent_name, make_agent, wants_poses
from sfl.run import checkpoint, folder
from sfl.run.chance import is_random, random_rows, usable_random_rows, write_random_rows
from sfl.run.coverage import PoseLog, landmark_poses
from sfl.run.evaluate import EpisodeRow, Label, evaluate, open_world, summarise
from sfl.run.folder import RunFolder
from sfl.run.indicators import Indicators, unseen_goals
from sfl.run.inputs import describe_input, pretraining_of
from sfl.run.lend import Explorer, lend_explorer
from sfl.run.log import Boards, CsvTable, Progress, note
from sfl.run.machine import give_back_freed_memory, memory_in_use, prepare, system_facts
from sfl.run.metrics import MetricWindow
from sfl.run.rollout import FreeEpisodes, rollout
from sfl.run.settings import Experiment
from sfl.run.stopping import RunStoppedError, StopNow, StopRequest
from sfl.seeding import generator_state, restore_generator, spawn


def train(
    experiment: Experiment,
    seed: int = 0,
    runs_dir: Path | str = "runs",
    device: str = "auto",
    threads: int = 1,
    wandb: bool = False,
    continued: RunFolder | None = None,
) -> RunFolder:
    """Train into a new run folder, or go on in the folder of a run that is `continued` (use `resume` for that)."""
    opened = (
        _new_run(experiment, seed, runs_dir, device, threads)
        if continued is None
        else _continued_run(experiment, seed, continued, device, threads)
    )
    with opened as run:
        if run.is_finished:
            run.complete()
            return run.folder
        with run.tables_and_boards(wandb), run.stoppable() as stop:
            try:
                run.evaluate_and_save_if_due(stop)  # a resumed run may have been stopped before it came to that
                for step in run.steps():  # act, observe and update are in `rollout`
                    run.record(step)
                    run.progress.advance(run.env_steps)
                    if run.is_due(experiment.train.log_every):
                        run.log()
                    run.evaluate_and_save_if_due(stop)
                    if run.env_steps >= experiment.train.steps:
                        break
                    stop.check()
                    run.start_clock()  # evaluating and saving is not training
                run.evaluate(stop)
            except StopNow:
                run.save(history=False)
                where = f"stopped at step {run.env_steps:,} and saved"
                raise RunStoppedError(f"{where}; {run.how_to_resume()}") from None
            run.save(history=True)
    return run.folder


def resume(path: Path | str, device: str = "auto", threads: int = 1, wandb: bool = False) -> RunFolder:
    """Go on where a run stopped; on the CPU the result equals that of a run that never stopped, bit for bit."""
    experiment, seed = folder.usable_config(path)
    found = RunFolder(Path(path))
    if not folder.has_checkpoint(found):
        raise UsageError(f"{path} has no checkpoint yet: give its `sfl train` again, which starts over, or delete it.")
    return train(experiment, seed, device=device, threads=threads, wandb=wandb, continued=found)


@contextmanager
def _new_run(
    experiment: Experiment, seed: int, runs_dir: Path | str, device: str, threads: int
) -> Iterator[TrainingRun]:
    """Nothing is written before environment and agent exist."""
    path = folder.run_path(runs_dir, experiment, seed)
    device = prepare(device, threads)
    observations = describe_input(experiment.env.observation_kind(), experiment.agent)
    run = TrainingRun(experiment, seed, device)
    try:
        run.lend_explorer()
        facts = system_facts(device, threads)
        facts["pretraining"] = [asdict(one) for one in pretraining_of(experiment.agent)]
        if run.explorer is not None:
            facts["explorer_checkpoint"] = run.explorer.checkpoint
        run.folder = folder.create(path, experiment, seed, facts)
        note(observations)
        with folder.locked(path):
            run.world.save_tasks(path, experiment.eval)
            yield run
    finally:
        run.session.close()


@contextmanager
def _continued_run(
    experiment: Experiment, seed: int, found: RunFolder, device: str, threads: int
) -> Iterator[TrainingRun]:
    """A run as its last checkpoint has it."""
    run = TrainingRun(experiment, seed, prepare(device, threads), found.path)
    try:
        with folder.locked(found.path):
            folder.tidy(found)
            run.restore(found)
            yield run
    finally:
        run.session.close()


class TrainingRun:
    """A run in memory: agent, environments, and all that its tables and checkpoints need of it."""

    folder: RunFolder
    """Set once it is made or found."""
    tables: Mapping[str, CsvTable] = {}
    boards: Boards
    progress: Progress

    def __init__(self, experiment: Experiment, seed: int, device: str, saved: Path | None = None) -> None:
        self.experiment, self.seed, self.device = experiment, seed, device
        as_written = experiment if saved is None else folder.read_config(saved)[0]
        self._settings = folder.settings_of(as_written, seed)
        count = experiment.train.env_count
        self.world, self.world_name = open_world(experiment.env, saved), experiment.env.world_name()
        self.spec: EnvSpec = experiment.env.spec(count)
        self.tasks = self.world.tasks(experiment.eval, seed)
        self.agent: Agent = make_agent(experiment.agent, self.spec, seed, device)
        self.explorer: Explorer | None = None  # until it is lent: a resumed run says which checkpoint it had
        self.rng = spawn(seed, ["env"])["env"]
        self.poses = PoseLog(self.world.squares())
        self.unseen = unseen_goals(self.world, self.tasks)
        self.random: list[EpisodeRow] | None = None  # how the random policy does on the tasks, once it was asked
        self.session = self.world.session(count, FreeEpisodes(self.rng), goal_terminates=False)
        self.env_steps = self._previous = 0  # environment steps so far, and before the last step
        self.evaluated_at = -1
        self.window = MetricWindow()
        self.seconds = self._window_seconds = 0.0  # of training, up to the last row of train.csv and since then
        self._window_steps = 0  # the environment step of that row
        self._noted: Mapping[str, Any] = {}  # what the checkpoint of a resumed run notes of its tables

    @property
    def is_finished(self) -> bool:
        """All steps made and the last evaluation written."""
        return self.env_steps >= self.experiment.train.steps and self.evaluated_at == self.env_steps

    def lend_explorer(self, saved: dict[str, Any] | None = None) -> None:
        """Where another run's policy walks for this one; `saved` is what the checkpoint of a resumed run has of it."""
        self.explorer = lend_explorer(self.agent, self.experiment.env, self.seed, self.device, saved)

    @contextmanager
    def tables_and_boards(self, wandb: bool) -> Iterator[None]:
        """Where rows of metrics go; rows after the checkpoint of a resumed run are cut off."""
        self.tables = self.folder.tables(self.experiment.eval.levels)
        for name, table in self.tables.items():
            table.cut_after(self.env_steps if name == "train" else self.evaluated_at, self._noted.get(table.path.name))
        title = f"{self.experiment.name} seed {self.seed}"
        place = self.folder.path / "tensorboard"
        self.boards = Boards(place, to_json(self.experiment), title, wandb, self.env_steps)
        self.progress = Progress(title, self.experiment.train.steps, self.env_steps)
        try:
            yield
        finally:
            self.progress.close()
            self.boards.close()

    @contextmanager
    def stoppable(self) -> Iterator[StopRequest]:
        """A first signal asks to stop, a second one stops; a full disk is said in one line."""
        try:
            with StopRequest() as stop:
                yield stop
        except KeyboardInterrupt as error:
            raise RunStoppedError(f"stopped without saving; {self.how_to_resume()}") from error
        except OSError as error:
            if has_no_room(error):
                raise SflError(f"The disk is full; {self.how_to_resume()}") from error
            raise

    def how_to_resume(self) -> str:
        """The end of a sentence that says that the run stopped."""
        if not checkpoint.exists(self.folder.last):
            return f"there is no checkpoint yet: the same command starts over, or delete {self.folder.path}."
        return f"continue with `sfl resume {self.folder.path}`."

    def complete(self) -> None:
        """Add to a finished run the rows of the random policy, where they are missing or damaged."""
        note(f"{self.folder.path} is finished ({self.env_steps:,} steps); there is nothing to resume.")
        with self.stoppable() as stop:
            try:
                self.ask_random(stop)
            except StopNow:
                raise RunStoppedError(f"stopped; the run itself is finished. {self.how_to_resume()}") from None

    def steps(self) -> Iterator[Step]:
        """The steps of training that are still to be made, and learned from; the clock runs meanwhile."""
        self.start_clock()
        if self.env_steps >= self.experiment.train.steps:
            return iter(())
        return rollout(self.agent, self.session, self.agent, tell_poses=wants_poses(self.experiment.agent))

    def start_clock(self) -> None:
        """From here on time counts as training."""
        self._started = time.perf_counter()

    def record(self, step: Step) -> None:
        """Keep of a step what tables and checkpoints need of it."""
        self.window.add(step.metrics)
        self.poses.add(step.poses)
        self.unseen.add(step)
        self._previous = self.env_steps
        self.env_steps += len(step.poses)
        self._window_seconds += time.perf_counter() - self._started

    def is_due(self, every: int) -> bool:
        """A multiple of the interval was passed by the last step."""
        return self.env_steps // every > self._previous // every

    def log(self) -> None:
        """A row of train.csv."""
        self.seconds += self._window_seconds
        rate = (self.env_steps - self._window_steps) / max(self._window_seconds, 1e-9)
        self._window_seconds, self._window_steps = 0.0, self.env_steps
        times = {"time/env_steps_per_second": rate, "time/wall_seconds": self.seconds}
        metrics = {**self.window.take(), **self.poses.metrics(), **self.session.metrics(), **memory_in_use(), **times}
        self.tables["train"].write({"env_steps": self.env_steps, **metrics})
        self.boards.write(metrics, self.env_steps)

    def evaluate_and_save_if_due(self, stop: StopRequest) -> None:
        """At this step; the end of the run has an evaluation and a checkpoint of its own."""
        plan = self.experiment.train
        if plan.eval_every and self.is_due(plan.eval_every):
            self.evaluate(stop)
        if self.is_due(plan.checkpoint_every) and self.env_steps < plan.steps:
            self.save(history=True)

    def evaluate(self, stop: StopRequest) -> None:
        """Evaluate on environments and generators of evaluation's own, at most once for each step count."""
        self.ask_random(stop)
        if self.evaluated_at == self.env_steps:
            return
        graph = self.agent.state_dict().graph
        indicators = Indicators(graph, landmark_poses(graph, self.poses), self.world)

        def watch(step: Step, policy: Policy) -> None:
            stop.check()
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
        metrics = summarise(rows) | indicators.metrics() | self.unseen.metrics(self.poses)
        self.tables["episodes"].write_all([asdict(row) for row in rows])
        self.tables["eval"].write({"env_steps": self.env_steps, **metrics})
        self.boards.write(metrics, self.env_steps)
        self.progress.evaluated(metrics, summarise(self.random or ()))
        self.evaluated_at = self.env_steps

    def ask_random(self, stop: StopRequest) -> None:
        """Pose the tasks to the random policy, once: it does not learn. Rows that are whole in the folder are kept."""
        if self.random is not None:
            return
        if is_random(self.experiment.agent):
            self.random = []
            return
        name, parallel = self.experiment.name, self.experiment.eval.parallel
        self.random = usable_random_rows(self.folder, name, self.seed, self.tasks)
        if self.random is None:
            label = Label(name, seed=self.seed)
            rows = random_rows(self.experiment.env, self.tasks, label, parallel, lambda *_: stop.check())
            write_random_rows(self.folder, rows)
            self.random = rows

    def save(self, history: bool) -> None:
        """Write the checkpoint `last`, and for the `history` a small one under its step count."""
        state = self.agent.state_dict()
        snapshot = checkpoint.Checkpoint(
            state,
            self.world_name,
            self.spec,
            self.env_steps,
            run={
                "env": generator_state(self.rng),
                "session": self.session.state(),
                "before": self._previous,
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
            tables={table.path.name: table.kept() for table in self.tables.values()},
            settings=self._settings,
        )
        # `last` comes last: a run whose `last` is that of its end has everything else.
        if history and not self.folder.history(self.env_steps).exists():
            checkpoint.save(self.folder.history(self.env_steps), snapshot, "small")
        checkpoint.save(self.folder.last, snapshot)
        del state, snapshot
        give_back_freed_memory()

    def restore(self, found: RunFolder) -> None:
        """Go on from the run's last checkpoint."""
        self.folder = found
        loaded = checkpoint.load(found.last, self.world_name, self.spec)
        if not loaded.run:
            raise UsageError(f"{found.path} is a slim copy made by `sfl export`; it can be evaluated but not resumed.")
        checkpoint.require_resumable(found.last, loaded)
        folder.require_settings(found, found.last, loaded.settings)
        folder.require_rows(found, loaded.tables)
        self._noted = loaded.tables
        checkpoint.load_agent(self.agent, found.last, loaded)
        restore_generator(self.rng, loaded.run["env"])
        self.window.load_state(loaded.run["window"])
        for piece in loaded.poses:
            self.poses.add(piece)
        self.unseen.load_state(loaded.run["goals_unseen"])
        self._window_steps, self._window_seconds = loaded.run["window_steps"], loaded.run["window_seconds"]
        self.seconds, self.evaluated_at = loaded.run["seconds"], loaded.run["evaluated_at"]
        self.env_steps, self._previous = loaded.env_steps, loaded.run["before"]
        if self.is_finished:
            return
        self.lend_explorer(loaded.run["explorer"])
        for index in self.session.restore(loaded.run["session"]):
            note(f"environment {index} did not repeat its episode; this run is not exact.")
