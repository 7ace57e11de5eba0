"""Start-goal pairs of mazes: drawn, saved, read, and refused when they belong to another maze."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfl.errors import UsageError
from sfl.worlds.doom.tasks import (
    RANGES,
    Pair,
    Pairs,
    draw_fixed_pairs,
    draw_random_pairs,
    load_pairs,
    save_pairs,
    solved_at_start,
)
from sfl.worlds.mazes.free_space import FreeSpace
from sfl.worlds.mazes.layout import Maze
from sfl.worlds.tasks import Task

from ..mazes.test_free_space import PAPER_MAZES, box, hand_made, walk

WALL = (400.0, 0.0, 400.0, 600.0)  # splits the hall but for a passage at the top
REGIONS = {"hard": ((700.0, 100.0, 60.0),), "easy": ((100.0, 200.0, 50.0), (0.0, 400.0, 40.0))}
HALL = hand_made([*box(0, 0, 800, 800), WALL], (100, 100), regions=REGIONS)
SPOTS = dataclasses.replace(HALL, spots=((60.0, 60.0), (340.0, 60.0), (460.0, 60.0)), regions={})
FREE = FreeSpace.of(HALL)


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def drawn(pairs: Pairs) -> list[tuple[str, Pair]]:
    return [(level, pair) for level, found in pairs.levels.items() for pair in found]


@pytest.mark.parametrize("maze", [HALL, SPOTS], ids=["anywhere", "spots"])
def test_random_pairs_lie_in_the_range_of_their_level_by_the_way_on_foot(maze: Maze) -> None:
    pairs = draw_random_pairs(maze, FREE, seed=1, per_level=15)
    assert {level: len(found) for level, found in pairs.levels.items()} == {"easy": 15, "medium": 15, "hard": 15}
    for level, pair in drawn(pairs):
        least, most = RANGES[level]
        assert pair.distance is not None
        assert least <= pair.distance < most
        assert pair.distance == pytest.approx(walk(FREE, pair.start[:2], pair.goal[:2]))
        assert FREE.contains(np.array([pair.start[:2], pair.goal[:2]])).all()
        assert 0 <= pair.start[2] < 360
        assert 0 <= pair.goal[2] < 360


def test_random_pairs_start_at_the_spots_of_the_maze_if_it_has_any() -> None:
    starts = {pair.start[:2] for _, pair in drawn(draw_random_pairs(SPOTS, FREE, 1, 15))}
    assert starts == set(SPOTS.spots)
    assert len({pair.start[:2] for _, pair in drawn(draw_random_pairs(HALL, FREE, 1, 5))}) == 15


def test_a_goal_behind_a_wall_counts_by_the_way_around_it() -> None:
    """Straight across the wall it is 120 units, on foot more than 1,000: no pair of any level."""
    for _, pair in drawn(draw_random_pairs(SPOTS, FREE, 2, 40)):
        crosses = (pair.start[0] < 400) != (pair.goal[0] < 400)
        assert not crosses


def test_a_goal_around_a_corner_takes_the_level_of_its_way_on_foot() -> None:
    short = hand_made([*box(0, 0, 800, 800), (400, 0, 400, 200)], (100, 100), spots=((340, 60),))
    pairs = draw_random_pairs(short, FreeSpace.of(short), 2, 60)
    raised = [pair for pair in pairs.levels["hard"] if math.dist(pair.start[:2], pair.goal[:2]) < 400]
    assert raised
    assert all(pair.goal[0] > 400 for pair in raised)


def test_a_level_that_the_maze_is_too_small_for_is_left_out() -> None:
    tiny = hand_made(box(0, 0, 160, 160), (80, 80))  # 128 x 128 units to walk in: at most 181 apart
    assert list(draw_random_pairs(tiny, FreeSpace.of(tiny), 0, 3).levels) == ["easy"]


def test_the_same_seed_draws_the_same_pairs_and_another_seed_others() -> None:
    for draw in (draw_random_pairs, draw_fixed_pairs):
        assert draw(HALL, FREE, 4, 5) == draw(HALL, FREE, 4, 5)
        assert draw(HALL, FREE, 4, 5).levels != draw(HALL, FREE, 5, 5).levels


def test_fixed_pairs_go_from_the_start_to_free_places_in_the_discs_in_turn() -> None:
    pairs = draw_fixed_pairs(HALL, FREE, seed=3, per_level=20)
    assert (pairs.maze, pairs.spawn, pairs.seed, list(pairs.levels)) == ("hand-made", "fixed", 3, ["easy", "hard"])
    for level, found in pairs.levels.items():
        for number, pair in enumerate(found):
            x, y, radius = REGIONS[level][number % len(REGIONS[level])]
            assert math.dist(pair.goal[:2], (x, y)) <= radius
            assert pair.goal[0] >= 15.99  # the second easy disc lies half in the wall
            assert pair.start == HALL.start
            assert pair.distance == pytest.approx(walk(FREE, HALL.start[:2], pair.goal[:2]))


def test_goals_fill_a_disc_evenly() -> None:
    """Half of a disc's area lies within 1 / sqrt(2) of its radius."""
    goals = np.array([pair.goal[:2] for pair in draw_fixed_pairs(HALL, FREE, 0, 800).levels["hard"]])
    inner = np.linalg.norm(goals - (700, 100), axis=1) <= 60 / math.sqrt(2)
    assert inner.mean() == pytest.approx(0.5, abs=0.06)


def test_without_regions_the_levels_are_quarters_of_free_space_by_distance() -> None:
    plain = dataclasses.replace(HALL, regions={})
    pairs = draw_fixed_pairs(plain, FREE, seed=3, per_level=25)
    assert {level: len(found) for level, found in pairs.levels.items()} == dict.fromkeys(
        ("easy", "medium", "hard", "hardest"), 25
    )
    field = FREE.distances_from(np.array(plain.start[:2]))
    everywhere = FREE.at(field, FREE.sample(np.random.default_rng(0), 4000))
    for quarter, found in enumerate(pairs.levels.values()):
        shares = [(everywhere < pair.distance).mean() for pair in found]
        assert quarter / 4 - 0.03 <= min(shares) <= max(shares) <= (quarter + 1) / 4 + 0.03


def test_a_region_inside_a_wall_is_refused() -> None:
    walled = dataclasses.replace(HALL, regions={"easy": ((-100.0, 0.0, 20.0),)})
    with pytest.raises(UsageError, match=r"no free place in the easy region \(-100.0, 0.0, 20.0\); move it"):
        draw_fixed_pairs(walled, FREE, 0)
    unknown = dataclasses.replace(HALL, regions={"harder": ((100.0, 100.0, 20.0),)})
    with pytest.raises(UsageError, match="unknown level 'harder'; the levels are easy, medium, hard, hardest"):
        draw_fixed_pairs(unknown, FREE, 0)


def test_tasks_carry_level_number_poses_and_budget() -> None:
    pairs = draw_fixed_pairs(dataclasses.replace(HALL, regions={}), FREE, 3, 2)
    tasks = pairs.tasks()
    budgets = {"easy": 100, "medium": 200, "hard": 300, "hardest": 400}
    assert [(task.level, task.pair, task.budget) for task in tasks] == [
        (level, number, budget) for level, budget in budgets.items() for number in (0, 1)
    ]
    assert tasks[5].options() == {"start": HALL.start, "goal": pairs.levels["hard"][1].goal}
    assert [task.level for task in pairs.tasks("hard", "easy")] == ["hard", "hard", "easy", "easy"]
    with pytest.raises(UsageError, match=r"No level 'harder' in .* with --eval.levels easy .*hardest"):
        pairs.tasks("harder")


def test_a_task_is_trivial_within_63_units_of_its_goal() -> None:
    assert solved_at_start(Task("easy", 0, (10, 10, 0), (10, 73, 180), 100))
    assert not solved_at_start(Task("easy", 0, (10, 10, 0), (10, 73.1, 0), 100))
    assert not solved_at_start(Task("any", 0, None, np.zeros(3), 100))


def test_saved_pairs_are_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text("an older file")
    pairs = draw_random_pairs(SPOTS, FREE, 6, 4)
    save_pairs(path, pairs)
    assert load_pairs(path, SPOTS, FREE) == pairs
    assert [len(found) for found in load_pairs(path, SPOTS, FREE, per_level=3).levels.values()] == [3, 3, 3]
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.json"]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text("an older file")
    odd = Pairs("hand-made", "fixed", 0, {"easy": (Pair((0, 0, 0), (0, 0, object())),)})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        save_pairs(path, odd)
    assert path.read_text() == "an older file"
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.json"]


def test_files_of_the_authors_kind_are_read_as_they_are(tmp_path: Path) -> None:
    one, two = [[100, 100, 0], [1, 150.5, 20]], [[100, 100, 0], [300, 300, 359.5]]
    pairs = load_pairs(write(tmp_path / "a.json", {"medium": [two, one], "easy": [one] * 60}), HALL, FREE)
    assert (pairs.spawn, pairs.seed) == ("fixed", None)
    assert {level: len(found) for level, found in pairs.levels.items()} == {"easy": 50, "medium": 2}
    assert pairs.levels["medium"][1] == Pair((100, 100, 0), (1, 150.5, 20))
    three = [[150, 100, 0], [300, 300, 0]]
    assert load_pairs(write(tmp_path / "b.json", {"easy": [one, three]}), HALL, FREE).spawn == "random"


def test_pairs_for_another_maze_are_refused_by_name_and_by_place(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    save_pairs(path, dataclasses.replace(draw_fixed_pairs(HALL, FREE, 0, 2), maze="rooms"))
    with pytest.raises(UsageError, match="pairs for another maze: 'rooms', not 'hand-made'; choose that maze"):
        load_pairs(path, HALL, FREE)
    good, in_wall, outside = [[100, 100, 0], [200, 200, 0]], [[100, 5, 0], [200, 200, 0]], [[100, 100, 0], [-50, 9, 0]]
    write(path, {"easy": [good], "hard": [good, outside]})
    with pytest.raises(UsageError, match=r"the goal \(-50.0, 9.0\) of hard pair 1 is inside a wall or out of reach"):
        load_pairs(path, HALL, FREE)
    write(path, {"easy": [in_wall]})
    with pytest.raises(UsageError, match=r"the start \(100.0, 5.0\) of easy pair 0 .* pairs for another maze\?$"):
        load_pairs(path, HALL, FREE)


POSE, GOOD = [100, 100, 0], {"maze": "hand-made", "spawn": "fixed", "seed": 1}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([1, 2], "is no pairs file: it must hold a JSON object"),
        ({}, "levels must be a JSON object, got {}"),
        ({"easy": []}, "level 'easy' must be a list of pairs"),
        ({"simple": [[POSE, POSE]]}, "has an unknown level 'simple'; the levels are easy, medium, hard, hardest"),
        ({"easy": [[POSE, POSE], [POSE]]}, r"easy pair 1 must be \[start, goal\], got \[\[100, 100, 0\]\]"),
        ({"easy": [[POSE, [1, 2]]]}, r"easy pair 0: a pose must be \[x, y, degrees\], got \[1, 2\]"),
        ({"easy": [[POSE, [1, 2, math.nan]]]}, "NaN is no finite number"),
        ({"levels": {"easy": [[POSE, POSE]]}}, r"it has \['levels'\], not \['levels', 'maze', 'seed', 'spawn'\]"),
        ({**GOOD, "spawn": "any", "levels": {}}, "spawn must be 'random' or 'fixed', got 'any'"),
        ({**GOOD, "levels": {"easy": [{"start": POSE}]}}, "easy pair 0: a pose must be .*, got None"),
        (
            {**GOOD, "levels": {"easy": [{"start": POSE, "goal": POSE, "distance": "far"}]}},
            "distance must be a number or null, got 'far'",
        ),
    ],
)
def test_files_that_are_no_pairs_are_refused_in_one_line(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        load_pairs(write(tmp_path / "pairs.json", content), HALL, FREE)
    assert "\n" not in str(caught.value)


def test_absent_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Cannot read the pairs file .*none.json .*; give a JSON file of pairs"):
        load_pairs(tmp_path / "none.json", HALL, FREE)
    (tmp_path / "cut.json").write_text('{"easy": [')
    with pytest.raises(UsageError, match=r"cut\.json is no whole JSON: Expecting value"):
        load_pairs(tmp_path / "cut.json", HALL, FREE)


needs_paper = pytest.mark.skipif(not (PAPER_MAZES / "pairs").is_dir(), reason="SFL_MAZES names no folder of the mazes")


@needs_paper
def test_the_authors_levels_on_sgm_agree_with_ours() -> None:
    from sfl.worlds.mazes.load import load_maze

    maze = load_maze("sgm")
    free = FreeSpace.of(maze)
    pairs = load_pairs(PAPER_MAZES / "pairs" / "sgm-random.json", maze, free)
    assert sum(map(solved_at_start, pairs.tasks("easy"))) == 20
    fields = {spot: free.distances_from(np.array(spot), limit=700) for spot in maze.spots}
    for level, found in pairs.levels.items():
        ways = np.array([free.at(fields[pair.start[:2]], np.array(pair.goal[:2]))[0] for pair in found])
        ways = ways[np.isfinite(ways)]
        assert len(ways) >= 44  # the other goals lie too close to a wall for a player to stand there
        least, most = RANGES[level]
        assert ((ways >= least - 6) & (ways < most + 6)).all()


@needs_paper
def test_the_authors_pairs_of_one_maze_are_refused_in_another() -> None:
    from sfl.worlds.mazes.load import load_maze

    sgm, test_1 = load_maze("sgm"), load_maze("test-1")
    with pytest.raises(UsageError, match="are these pairs for another maze"):
        load_pairs(PAPER_MAZES / "pairs" / "test-1-fixed.json", sgm, FreeSpace.of(sgm))
    free = FreeSpace.of(test_1)
    with pytest.raises(UsageError, match="are these pairs for another maze"):
        load_pairs(PAPER_MAZES / "pairs" / "sgm-random.json", test_1, free)
    pairs = load_pairs(PAPER_MAZES / "pairs" / "test-1-fixed.json", test_1, free)
    assert pairs.spawn == "fixed"
    field = free.distances_from(np.array(pairs.levels["easy"][0].start[:2]))
    goals = [np.array([pair.goal[:2] for pair in found]) for found in pairs.levels.values()]
    ways = [float(np.median(free.at(field, places))) for places in goals]
    assert ways == sorted(ways)
