"""The public names, called with what nobody should hand them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.siege import hostile
from benchmarks.siege.case import Broken, Family, Room, chance
from benchmarks.siege.forked import Limits, call, copy_run, traceback

LIMITS = Limits(seconds=40)
REFUSED = 3
"""Exit code of a child in which sfl refused a call in one line."""


def _calls(seed: int, room: Room) -> str:
    dice = chance("library", seed)
    copy_run(room, "grid-slim", "run")
    ended = call(lambda: _try(dice), room, LIMITS)
    name = ended.out.splitlines()[0] if ended.out else "?"
    if ended.over:
        raise Broken(f"{name}: {ended.over}")
    if trace := traceback(ended.err):
        raise Broken(f"{trace} <- {name}")
    if ended.code not in (0, REFUSED):
        raise Broken(f"ended with {ended.code}: {ended.err[-300:]} <- {name}")
    return " ".join(ended.out.split())[:300]


def _try(dice: random.Random) -> int:
    """In the child: one call; sfl's own errors are how it refuses."""
    import sfl
    from sfl.errors import SflError

    action = dice.choice(CALLS)
    values = [_thing(dice) for _ in range(4)]
    print(action.__name__.strip("_"), *(ascii(value)[:60] for value in values), flush=True)
    try:
        action(sfl, dice, values)
    except SflError as error:
        if "\n" in str(error).strip():
            raise AssertionError(f"an error of several lines: {error}") from error
        print(type(error).__name__, error)
        return REFUSED
    except TypeError as error:  # Python's own way to say it
        print(error)
        return REFUSED
    return 0


def _thing(dice: random.Random) -> Any:
    import numpy as np

    things: tuple[Any, ...] = (
        *(
            None,
            0,
            -1,
            1.5,
            float("nan"),
            True,
            "",
            "nonsense",
            "sfl/FourRoom-v0",
            "CartPole-v1",
            "FrozenLake-v1",
            b"bytes",
        ),
        *([], {}, (), set(), object, object(), len, 10**30, [None], ["sfl/FourRoom-v0"] * 2, {"observation": 3}),
        *(
            np.zeros(3),
            np.zeros((7, 7, 3), np.uint8),
            np.array(None),
            np.full((25, 25, 3), 255, np.uint8),
            np.nan,
            np.int64(3),
        ),
        "run",
        "x" * 5000,
        hostile.word(dice)[:500],
        hostile.value(dice),
    )
    return dice.choice(things)


def _make(sfl: Any, _: random.Random, values: list[Any]) -> None:
    sfl.SFL(values[0])


def _make_with(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    given = {"config": values[0], "seed": values[1], "device": values[2]}
    chosen = dice.sample(sorted(given), dice.choice((1, 1, 2)))
    sfl.SFL("sfl/FourRoom-v0", **({"device": "cpu"} | {name: given[name] for name in chosen}))


def _learn(sfl: Any, _: random.Random, values: list[Any]) -> None:
    steps = values[0]
    if isinstance(steps, int | float) and steps > 1000:
        return  # right, and long
    sfl.SFL("sfl/FourRoom-v0", device="cpu").learn(steps)


def _predict(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    agent = sfl.SFL("sfl/FourRoom-v0", device="cpu")
    seen = agent.envs[0].reset(seed=0)[0]
    pair = dice.choice(((values[0], seen["desired_goal"]), (seen, values[0]), (values[0], values[1])))
    agent.predict(*pair)


def _judge(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    agent = sfl.SFL("sfl/FourRoom-v0", device="cpu").learn(50)
    if dice.random() < 0.5:
        agent.evaluate(values[0])
    elif not isinstance(values[0], int | float) or values[0] < 1000:
        agent.evaluate(episodes=values[0])


def _compare(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    agent = sfl.SFL("sfl/FourRoom-v0", device="cpu").learn(50).agent
    from sfl import experiments

    tasks = sfl.tasks_of(experiments.get("fourroom-sfl"), seed=0, episodes=2)
    pair = dice.choice(((values[0], tasks), (agent, values[0]), (values[0], values[1])))
    sfl.evaluate(*pair)


def _tasks(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    from sfl import experiments

    experiment = experiments.get("fourroom-sfl")
    if dice.random() < 0.4:
        sfl.tasks_of(values[0])
    elif not isinstance(values[0], int) or values[0] < 10**5:
        sfl.tasks_of(experiment, seed=values[1], episodes=values[0])


def _read(sfl: Any, _: random.Random, values: list[Any]) -> None:
    sfl.load_run(values[0])


def _restore(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    place = dice.choice((values[0], "run"))
    sfl.SFL.load(place, *dice.choice(((), (values[1],), ("sfl/FourRoom-v0",))), device="cpu")


def _world(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    from sfl.worlds import GymConfig, MiniGridConfig

    makers: list[Callable[[], Any]] = [
        lambda: values[0],
        lambda: MiniGridConfig(values[0]),
        lambda: GymConfig(values[0]),
        lambda: MiniGridConfig("sfl/FourRoom-v0", spawn=values[0]),
    ]
    sfl.make_env(dice.choice(makers)())


def _wrapped(sfl: Any, dice: random.Random, values: list[Any]) -> None:
    import gymnasium

    env = gymnasium.make(
        dice.choice(("FrozenLake-v1", "CliffWalking-v1", "CartPole-v1", "Acrobot-v1", "MountainCar-v0"))
    )
    given = {"goal_test": values[0], "radius": values[1], "max_steps": values[2], "observation_key": values[3]}
    chosen = dice.sample(sorted(given), dice.choice((0, 1, 1, 2)))
    world = sfl.GoalWrapper(env, **{name: given[name] for name in chosen})
    world.reset(seed=0, options=dice.choice((None, {"goal": values[3]}, {"task": values[0]})))
    world.step(world.action_space.sample())
    world.close()


CALLS = (_make, _make_with, _learn, _predict, _judge, _compare, _tasks, _read, _restore, _world, _wrapped)

FAMILIES = (
    Family(
        "library",
        "Public names called with things of other types work, or raise sfl's error of one line or a TypeError.",
        _calls,
        weight=50,
        needs=("grid-slim",),
        short=3,
    ),
)
