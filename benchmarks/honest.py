"""Hold the success that a run prints against a count over every goal that can be reached, and against chance.

python benchmarks/honest.py [WORLD...] [--steps N | --tiny] [--seed N] [--out FILE.csv] [--runs-dir FOLDER]

What can be reached, and in how many steps, is worked out here from the rules of each world, by code that shares nothing
with the collector of an exam. Each goal of a level (in large worlds an even choice of them) is then tried a few times
by the run's agent and by the random policy. Rows of a world that is run again take the place of its old ones.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sfl import experiments
from sfl.baselines.random import RandomConfig
from sfl.errors import SflError, UsageError
from sfl.registry import make_agent
from sfl.run.diagnosis import diagnose, read_facts
from sfl.run.evaluate import evaluate
from sfl.run.folder import LoadedRun, load_run
from sfl.run.train import train
from sfl.worlds import GymConfig, Task
from sfl.worlds.exam import EXAM_FILE, read_exam

HERE = Path(__file__).resolve().parent
LEVELS = ("near", "middle", "far")
MOST_TRIES = 300
"""Episodes of one policy on one level: goals are tried up to three times, or an even choice of them once."""

State = Hashable
Rules = Callable[[State], Sequence[tuple[State, bool]]]
"""state -> for each action the next state, and whether the episode ends there."""


def reachable(start: State, rules: Rules) -> dict[State, int]:
    """Fewest steps to every state; nothing follows an end."""
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        state = waiting.popleft()
        for following, ends in rules(state):
            if following not in distances:
                distances[following] = distances[state] + 1
                if not ends:
                    waiting.append(following)
    return distances


def one_hot(number: int, count: int) -> Any:
    """The observation of a numbered state."""
    vector = np.zeros(count, np.float32)
    vector[number] = 1.0
    return vector


# ---- the rules of each world


def cliff_walking() -> list[tuple[Any, int]]:
    """Four rows of twelve: start bottom left, end bottom right, and the cliff between sends back to the start."""

    def rules(state: Any) -> list[tuple[State, bool]]:
        row, column = state
        moves = []
        for down, right in ((-1, 0), (0, 1), (1, 0), (0, -1)):
            to = (min(max(row + down, 0), 3), min(max(column + right, 0), 11))
            moves.append(((3, 0), False) if to[0] == 3 and 0 < to[1] < 11 else (to, to == (3, 11)))
        return moves

    return [(one_hot(12 * state[0] + state[1], 48), far) for state, far in reachable((3, 0), rules).items()]


LAKE = ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"]


def frozen_lake() -> list[tuple[Any, int]]:
    """Eight by eight; holes and the gift end an episode."""

    def rules(state: Any) -> list[tuple[State, bool]]:
        row, column = state
        moves = ((0, -1), (1, 0), (0, 1), (-1, 0))
        to = [(min(max(row + down, 0), 7), min(max(column + right, 0), 7)) for down, right in moves]
        return [(place, LAKE[place[0]][place[1]] in "HG") for place in to]

    return [(one_hot(8 * state[0] + state[1], 64), far) for state, far in reachable((0, 0), rules).items()]


TAXI = ["R: | : :G", " : | : : ", " : : : : ", " | : | : ", "Y| : |B: "]
STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))


def taxi() -> list[tuple[Any, int]]:
    """Five by five with walls; the passenger is at one of four stands or, 4, in the taxi; delivering ends."""
    env = gym.make(taxi_id())
    code = int(env.reset(seed=0)[0])
    code, target = divmod(code, 4)
    code, passenger = divmod(code, 5)
    row, column = divmod(code, 5)

    def rules(state: Any) -> list[tuple[State, bool]]:
        row, column, passenger = state
        here = (row, column)
        right = column < 4 and TAXI[row][2 * column + 1] == ":"
        left = column > 0 and TAXI[row][2 * column - 1] == ":"
        picked = 4 if passenger < 4 and STANDS[passenger] == here else passenger
        dropped = STANDS.index(here) if passenger == 4 and here in STANDS else passenger
        return [
            ((min(row + 1, 4), column, passenger), False),
            ((max(row - 1, 0), column, passenger), False),
            ((row, column + right, passenger), False),
            ((row, column - left, passenger), False),
            ((row, column, picked), False),
            ((row, column, dropped), passenger == 4 and dropped == target),
        ]

    found = reachable((row, column, passenger), rules)
    return [(one_hot(((5 * s[0] + s[1]) * 5 + s[2]) * 4 + target, 500), far) for s, far in found.items()]


def taxi_id() -> str:
    """The newest that this Gymnasium has."""
    return max(name for name in gym.registry if name.startswith("Taxi-v"))


AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
EMPTY, WALL, DOOR, KEY, GOAL, AGENT = 1, 2, 4, 5, 8, 10
OPEN, CLOSED, LOCKED = range(3)
CARRIED = (-1, -1)


def door_key() -> list[tuple[Any, int]]:
    """A locked door, its key and a goal that ends; the grid is read from the first picture."""
    env = gym.make(DOOR_KEY)
    env.reset(seed=0)
    core: Any = env.unwrapped
    grid = core.grid.encode()

    def where(kind: int) -> tuple[int, int]:
        x, y = np.argwhere(grid[..., 0] == kind)[0].tolist()
        return x, y

    door, goal, first_key = where(DOOR), where(GOAL), where(KEY)
    key_look, door_colour = grid[first_key].copy(), int(grid[door][1])
    bare = grid.copy()
    bare[first_key] = (EMPTY, 0, 0)

    def rules(state: Any) -> list[tuple[State, bool]]:
        place, facing, key, lock = state
        ahead = (place[0] + AHEAD[facing][0], place[1] + AHEAD[facing][1])
        blocked = ahead == key or bare[ahead][0] == WALL or (ahead == door and lock != OPEN)
        bare_floor = not blocked and ahead not in (door, goal)
        turned = CLOSED if lock == OPEN else OPEN if lock == CLOSED or key == CARRIED else LOCKED
        return [
            ((place, (facing - 1) % 4, key, lock), False),
            ((place, (facing + 1) % 4, key, lock), False),
            ((place if blocked else ahead, facing, key, lock), ahead == goal),
            ((place, facing, CARRIED if ahead == key else key, lock), False),
            ((place, facing, ahead if key == CARRIED and bare_floor else key, lock), False),
            ((place, facing, key, turned if ahead == door else lock), False),
            (state, False),
        ]

    def picture(state: Any) -> Any:
        place, facing, key, lock = state
        image = bare.copy()
        image[door] = (DOOR, door_colour, lock)
        if key != CARRIED:
            image[key] = key_look
        image[place] = (AGENT, 0, facing)
        return image

    start = (tuple(map(int, core.agent_pos)), int(core.agent_dir), first_key, LOCKED)
    return [(picture(state), far) for state, far in reachable(start, rules).items()]


DOOR_KEY = "MiniGrid-DoorKey-8x8-v0"


def pixel_maze() -> list[tuple[Any, int]]:
    """Every free cell, as it is drawn."""
    import pixel_maze as module

    def rules(place: Any) -> list[tuple[State, bool]]:
        around = [(place[0] + right, place[1] + down) for right, down in ((0, -1), (1, 0), (0, 1), (-1, 0))]
        return [(to if module.MAZE[to[1]][to[0]] != "#" else place, False) for to in around]

    row = next(number for number, line in enumerate(module.MAZE) if "S" in line)
    found = reachable((module.MAZE[row].index("S"), row), rules)
    return [(module.draw(place), far) for place, far in found.items()]


@dataclass(frozen=True)
class World:
    """A world as a user would name it, and what can be reached there."""

    env: GymConfig
    truth: Callable[[], list[tuple[Any, int]]]
    """Observations and their distances from the start; the start's is 0."""


def worlds() -> dict[str, World]:
    """The five of them."""
    sys.path.insert(0, str(HERE / "worlds"))
    lake = GymConfig("FrozenLake-v1", kwargs=("map_name=8x8", "is_slippery=false"))
    return {
        "cliff": World(GymConfig("CliffWalking-v1"), cliff_walking),
        "lake": World(lake, frozen_lake),
        "taxi": World(GymConfig(taxi_id()), taxi),
        "doorkey": World(GymConfig(DOOR_KEY), door_key),
        "pixels": World(GymConfig("pixel_maze:PixelMaze-v0"), pixel_maze),
    }


# ---- what is printed, what is true


@dataclass(frozen=True)
class Row:
    """One level of one world."""

    world: str
    level: str
    least_steps: int
    most_steps: int
    printed_percent: float
    printed_low: float
    printed_high: float
    true_percent: float
    inside: str
    random_percent: float
    goals: int
    tries: int
    wrong_distances: int
    landmarks: int
    edges: int
    env_steps: int
    seed: int
    findings: str
    """What the run itself says of its failure, its worst finding first."""


def wilson(successes: int, tries: int) -> tuple[float, float]:
    """The 95% interval of a share, in percent."""
    z, share = 1.959964, successes / tries
    middle = (share + z * z / (2 * tries)) / (1 + z * z / tries)
    half = z / (1 + z * z / tries) * math.sqrt(share * (1 - share) / tries + z * z / (4 * tries * tries))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def thirds(truth: list[tuple[Any, int]]) -> dict[str, list[tuple[Any, int]]]:
    """Goals by level; the start is none."""
    largest = max(far for _, far in truth)
    return {
        level: [(seen, far) for seen, far in truth if number * largest < 3 * far <= (number + 1) * largest]
        for number, level in enumerate(LEVELS)
    }


def wrong_distances(run: LoadedRun, goals: list[tuple[Any, int]], level: str) -> int:
    """Goals of the run's exam that are not there, or elsewhere than it says."""
    exam = read_exam(run.folder.path / EXAM_FILE)
    true = {seen.tobytes(): far for seen, far in goals}
    own = exam.of_level(level).tolist()
    return sum(true.get(exam.goals[goal].tobytes()) != int(exam.distances[goal]) for goal in own)


def posed(level: str, goals: list[tuple[Any, int]], budget: int) -> list[Task]:
    """Each goal up to three times; of too many an even choice."""
    chosen = [
        goals[place]
        for place in np.unique(np.linspace(0, len(goals) - 1, min(len(goals), MOST_TRIES)).round(0).astype(int))
    ]
    times = max(1, min(3, MOST_TRIES // len(chosen)))
    return [Task(level, pair, None, seen, budget) for pair, (seen, _) in enumerate(chosen * times)]


def examine(run: LoadedRun, name: str, world: World) -> list[Row]:
    """One row for each level."""
    chance = make_agent(RandomConfig(), world.env.spec(), run.seed, "cpu")
    printed = [row for row in run.episode_rows() if row.env_steps == run.env_steps]
    findings = "; ".join(finding.name for finding in diagnose(read_facts(run.folder.path)))
    rows = []
    for level, goals in thirds(world.truth()).items():
        own = [row.success for row in printed if row.level == level]
        if not own:
            continue
        tasks = posed(level, goals, printed[0].budget)
        ours, random = (evaluate(who, world.env, tasks, seed=1_000 + run.seed) for who in (run.agent, chance))
        share = 100 * sum(row.success for row in ours) / len(ours)
        low, high = wilson(sum(own), len(own))
        rows.append(
            Row(
                name,
                level,
                min(far for _, far in goals),
                max(far for _, far in goals),
                round(100 * sum(own) / len(own), 1),
                round(low, 1),
                round(high, 1),
                round(share, 1),
                "yes" if low - 1e-9 <= share <= high + 1e-9 else "no",
                round(100 * sum(row.success for row in random) / len(random), 1),
                len(goals),
                len(ours),
                wrong_distances(run, goals, level),
                len(run.landmark_poses),
                len(run.graph["edge_weights"]),
                run.env_steps,
                run.seed,
                findings,
            )
        )
    return rows


def write(file: Path, rows: list[Row]) -> None:
    """Put the rows of their worlds in the place of older ones."""
    names = [field.name for field in fields(Row)]
    mine = {row.world for row in rows}
    old: list[dict[str, Any]] = []
    if file.exists():
        with file.open(newline="") as text:
            old = [row for row in csv.DictReader(text) if row["world"] not in mine]
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*old, *map(asdict, rows)])


def main(args: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help="cliff, lake, taxi, doorkey, pixels; by default all")
    parser.add_argument("--steps", type=int, help="training steps; by default those of world-sfl")
    parser.add_argument("--tiny", action="store_true", help="train for seconds, to see that everything works")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/honest"))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "honest.csv")
    options = parser.parse_args(args)
    known = worlds()
    try:
        if strange := [name for name in options.worlds if name not in known]:
            raise UsageError(f"No world {strange[0]!r}; there are {', '.join(known)}.")
        for name in options.worlds or known:
            experiment = experiments.get("world-sfl")
            if options.tiny:
                experiment = experiments.tiny(experiment)
            if options.steps is not None:
                experiment = experiments.scaled(experiment, options.steps / experiment.train.steps)
            experiment = replace(experiment, name=f"honest-{name}", env=known[name].env)
            path = options.runs_dir / experiment.name / f"seed-{options.seed:04d}"
            if not path.exists():
                train(experiment, options.seed, options.runs_dir, "cpu")
            rows = examine(load_run(path, device="cpu"), name, known[name])
            write(options.out, rows)
            for row in rows:
                print(*asdict(row).values(), flush=True)
    except SflError as error:
        print(f"honest.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
