"""Places, agents, and the experiments that they make together: PLACE-AGENT, and variants of a few with a word behind.

Here are the two lists, then how an experiment is found by its words, and last what `sfl list` shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from sfl.errors import UsageError, unknown_name
from sfl.experiments import baselines, grids, mazes
from sfl.old_names import new_name
from sfl.run.settings import Experiment

EXPERIMENTS = {
    experiment.name: experiment for experiment in (*grids.experiments(), *mazes.experiments(), *baselines.experiments())
}

AGENTS = {
    "sfl": "Successor Feature Landmarks, our settings",
    "paper": "Successor Feature Landmarks, the paper's settings",
    "tabular": "SFL with one-hot features and exact successor features",
    "random": "the uniform random policy",
    "controller": "the visual controller: one network that acts towards the picture of the goal",
    "sptm": "semi-parametric topological memory",
    "sgm": "sparse graphical memory",
    "ec": "Episodic Curiosity: an explorer that has no goals",
    "ec-sptm": "SPTM over walks of Episodic Curiosity",
    "ec-sgm": "SGM over walks of Episodic Curiosity",
    "mss": "Mapping State Space",
}
"""What `--agent` takes; the first one is meant where nothing is said."""

OURS = next(iter(AGENTS))


def _split(name: str) -> tuple[str, str, str]:
    """Place, agent and variant of an experiment's name; the variant is empty or begins with a hyphen."""
    mazes_there = [maze for known in mazes.MAZES.values() for maze in known]
    places = [*grids.MINIGRID, "world", mazes.LAPTOP]
    places += [mazes.maze_place(spawn, maze) for spawn in mazes.MAZES for maze in (None, *mazes_there)]
    place = next(place for place in places if name.startswith(f"{place}-"))
    rest = name.removeprefix(f"{place}-")
    agent = next(one for one in sorted(AGENTS, key=len, reverse=True) if f"{rest}-".startswith(f"{one}-"))
    return place, agent, rest.removeprefix(agent)


_PARTS = {name: _split(name) for name in EXPERIMENTS}

PLACES = tuple(dict.fromkeys(place for place, _, _ in _PARTS.values()))


def names() -> list[str]:
    """All experiments, ours first."""
    return list(EXPERIMENTS)


def agents_in(place: str) -> list[str]:
    """The agents that go with a place, in the order of `AGENTS`."""
    there = {agent for where, agent, _ in _PARTS.values() if where == place}
    return [agent for agent in AGENTS if agent in there]


def get(name: str, agent: str | None = None) -> Experiment:
    """The experiment of a place and an agent (by default SFL in our settings), or one by its name, also an old one."""
    if agent is not None and agent not in AGENTS:
        raise unknown_name("agent", agent, AGENTS, "`sfl list` shows all.")
    if name in PLACES:
        wanted = agent or OURS
        if wanted not in agents_in(name):
            raise UsageError(f"There is no agent {wanted!r} in {name}; --agent can be {', '.join(agents_in(name))}.")
        return EXPERIMENTS[f"{name}-{wanted}"]
    found = EXPERIMENTS.get(new_name(name))
    if found is None:
        raise unknown_name("place", name, [*PLACES, *EXPERIMENTS], "`sfl list` shows all.")
    own = _PARTS[found.name][1]
    if agent not in {None, own}:
        raise UsageError(f"{name} has the agent {own} already; leave out --agent {agent}, or name a place.")
    return found


def words(name: str) -> list[str]:
    """What to write behind `sfl train` for an experiment: its place, its agent, and a variant's options and name."""
    place, agent, variant = _PARTS[name]
    found = [place] if agent == OURS else [place, "--agent", agent]
    if variant:
        found += [*_options(EXPERIMENTS[f"{place}-{agent}"], EXPERIMENTS[name], "--"), "--name", name]
    return found


def _options(plain: Any, changed: Any, prefix: str) -> Iterator[str]:
    """The options that make the settings `changed` of the settings `plain`."""
    for field in dataclasses.fields(plain):
        before, after = getattr(plain, field.name), getattr(changed, field.name)
        option = f"{prefix}{field.name.replace('_', '-')}"
        if before == after or option == "--name":
            continue
        if dataclasses.is_dataclass(before):
            yield from _options(before, after, f"{option}.")
        elif isinstance(after, bool):
            yield option if after else f"{prefix}no-{field.name.replace('_', '-')}"
        else:
            yield from (option, *(map(str, after) if isinstance(after, tuple) else [str(after)]))


# ---- What `sfl list` shows.


def overview() -> Iterator[str]:
    """Each place and each agent, and what else is an option."""
    rows = [("PLACE", ""), *_places(), ("", ""), ("AGENT", "")]
    rows += [(agent, f"{about}; {', '.join(_where(agent))}") for agent, about in AGENTS.items()]
    width = max(len(name) for name, _ in rows)
    yield "sfl train PLACE [--agent AGENT] [OPTIONS]"
    yield ""
    yield from (f"{name:{width}}  {text}".rstrip() for name, text in rows)
    yield ""
    yield "Without AGENT it is sfl. Everything else is an option, such as --agent.navigator.frontier uniform,"
    yield "--agent.landmarks.formation clustered, --agent.metric.measure reachability, --agent.oracle;"
    yield "`sfl train PLACE --agent AGENT --help` shows all."


def _places() -> Iterator[tuple[str, str]]:
    """Mazes share the lines of their two kinds of spawn."""
    yield "fourroom", "the grid of the paper's first figures"
    yield _together(place for place in grids.MINIGRID if place != "fourroom"), "so many rooms in a row, behind doors"
    yield "world", "any Gymnasium environment with discrete actions: --env.id ID"
    yield mazes.LAPTOP, "the maze `small` in ViZDoom, with networks for a laptop without a GPU"
    starts: dict[mazes.Spawn, str] = {"random": "anywhere", "fixed": "at one place"}
    for spawn, where in starts.items():
        there = [maze for maze in _mazes() if mazes.maze_place(spawn, maze) in PLACES]
        yield mazes.maze_place(spawn, "MAZE"), f"ViZDoom, episodes start {where}; MAZE is one of {', '.join(there)}"
        yield mazes.maze_place(spawn), "the same in any other maze: --env.maze NAME|FILE"


def _mazes() -> list[str]:
    return list(dict.fromkeys(maze for known in mazes.MAZES.values() for maze in known))


def _together(places: Iterable[str]) -> str:
    """multiroom-n2, multiroom-n3 as multiroom-n{2,3}."""
    rooms = [place.removeprefix("multiroom-n") for place in places]
    return f"multiroom-n{{{','.join(rooms)}}}" if len(rooms) > 1 else f"multiroom-n{rooms[0]}"


def _where(agent: str) -> Iterator[str]:
    """The places of an agent, those that differ in the number of rooms or in the maze together."""
    there = [place for place in PLACES if agent in agents_in(place)]
    if rooms := [place for place in there if place.startswith("multiroom-")]:
        there.insert(there.index(rooms[0]), _together(rooms))
    for spawn in mazes.MAZES:
        known = [maze for maze in _mazes() if mazes.maze_place(spawn, maze) in there]
        if known:
            every = set(mazes.MAZES[spawn]) <= set(known)
            there.append(mazes.maze_place(spawn, "MAZE" if every else f"{{{','.join(known)}}}"))
        there = [place for place in there if place not in {*rooms, *(mazes.maze_place(spawn, maze) for maze in known)}]
    yield from there
