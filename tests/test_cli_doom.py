"""The real commands in ViZDoom: end to end, wrong use, and Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sfl import experiments
from sfl.cli import main
from sfl.config import from_json, to_json
from sfl.run.settings import Experiment
from sfl.worlds import DoomConfig

from .run.dooms import PAIRS, pairs_file

SOURCES = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def test_train_and_report_in_the_small_maze(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = str(tmp_path / "runs")
    assert main(["train", "small-random-spawn-random", "--tiny", "--device", "cpu", "--runs-dir", runs]) == 0
    out, _ = capsys.readouterr()
    assert "their success %" in out
    run = tmp_path / "runs" / "small-random-spawn-random" / "seed-0000"
    assert out.splitlines()[-1] == str(run)
    with (run / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["env_steps"] for row in rows} == {"600", "1200"}
    saved = json.loads((run / "tasks.json").read_text())
    assert {level: len(pairs) for level, pairs in saved["levels"].items()} == {"easy": 3, "medium": 3, "hard": 3}
    assert main(["report", str(run), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["maze"], row["level"]) for row in report] == [("small", level) for level in saved["levels"]]
    assert not (tmp_path / "_vizdoom").exists()


def refusals(folder: Path) -> dict[str, str]:
    """Words of a wrong command, and what is said of them."""
    inside = [{"start": [10.0, 10.0, 0.0], "goal": [96.0, 400.0, 0.0], "distance": 1.0}]
    in_wall = pairs_file(folder, levels={**PAIRS, "easy": inside})
    elsewhere = pairs_file(folder, maze="rooms")
    (folder / "flat.txt").write_text("name: flat\ncell: 64\nheading: 0\n\n####\n#S.#\n#..\n")
    random = "maze-random-spawn-random --env.maze"
    return {
        f"{random} smal": "No maze 'smal'. Did you mean 'small'?",
        f"{random} {folder}/none.wad": "Cannot read the maze from",
        f"{random} {folder}/flat.txt": "Layout flat: row 3 has 3 cells, row 1 has 4; make them equal.",
        "sgm-random-spawn-random": "The maze 'sgm' is the paper's: name the folder that holds sgm-base.wad by",
        "sgm-random-spawn-random --env.maze-dir no-such-folder": "No folder no-such-folder to read the paper's mazes",
        f"{random} small --env.pairs {elsewhere}": "holds pairs for another maze: 'rooms', not 'small'",
        f"{random} small --env.pairs {in_wall}": "the start (10.0, 10.0) of easy pair 0 is inside a wall",
        f"{random} small --env.pairs none.json": "Cannot read the pairs file none.json",
        f"{random} small --env.pairs {elsewhere} --eval.pairs-seed 1": "exclude each other",
        f"{random} small --eval.levels easy hardest": "No level 'hardest' in the pairs of 'small'",
        f"{random} small --eval.pairs-seed -1": "eval.pairs-seed must be 0 or more, got -1",
        f"{random} small --env.max-steps 0": "max_steps must be at least 1, got 0",
        f"{random} small --env.texture-seed -1": "The seed of textures must be 0 or more, got -1",
        f"{random} small --env.texture-kind tests": "tests",
        "smal-random-spawn-random": "Did you mean 'small-random-spawn-random'?",
        "maze-fixed-spawn-random --env.maz small": "Did you mean '--env.maze'?",
    }


def test_wrong_use_is_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    (tmp_path / "files").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for words, line in refusals(tmp_path / "files").items():
        assert main(["train", *words.split(), "--eval.episodes", "1"]) == 2, words
        out, complaint = capsys.readouterr()
        assert out == ""
        assert complaint.startswith("sfl: ")
        assert complaint.count("\n") == 1
        assert line in complaint
    assert list((tmp_path / "here").iterdir()) == []


def processes_of(place: Path) -> list[int]:
    """Processes whose command names a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(place) in entry.read_bytes().decode(errors="replace"):
                found.append(int(entry.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_saves_and_leaves_no_process_behind(tmp_path: Path) -> None:
    games, place = tmp_path / "games", tmp_path / "place"
    games.mkdir()
    place.mkdir()
    words = ["train", "maze-random-spawn-random", "--tiny", "--train.steps", "1000000", "--train.log-every", "10"]
    words += ["--env.pairs", pairs_file(tmp_path), "--train.eval-every", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sfl", *words],
        cwd=place,
        env={**SOURCES, "TMPDIR": str(games)},
        stderr=subprocess.PIPE,
        text=True,
    )
    path = place / "runs" / "maze-random-spawn-random" / "seed-0000"
    rows = path / "train.csv"
    while process.poll() is None and not (rows.exists() and rows.read_text().count("\n") > 5):
        time.sleep(0.05)
    assert processes_of(games)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert "and saved; continue with `sfl resume runs/maze-random-spawn-random/seed-0000`" in complaint
    assert "Traceback" not in complaint
    assert processes_of(games) == []
    assert list(games.iterdir()) == []
    assert (path / "checkpoints" / "last" / "format.json").is_file()
    assert [file.name for file in place.iterdir()] == ["runs"]


def test_the_list_is_short_and_names_every_maze(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    (random,) = [line for line in lines if line.startswith("MAZE-random-spawn")]
    assert "corridors, large, office, open, rooms, small, star, sgm, test-2, test-6" in random
    (fixed,) = [line for line in lines if line.startswith("MAZE-fixed-spawn")]
    assert fixed.endswith("star, test-1, test-4")
    (generic,) = [line for line in lines if line.startswith("maze-fixed-spawn")]
    assert "--env.maze NAME|FILE" in generic


def test_every_maze_has_its_experiment_with_the_levels_of_its_spawn() -> None:
    found = [experiment for experiment in experiments.EXPERIMENTS.values() if isinstance(experiment.env, DoomConfig)]
    agents = [experiments.words(experiment.name)[1:3] for experiment in found]
    # Variants of frontiers, of R as the metric, of the oracle and of walks from anywhere are among them; the controller
    # is also there with random spawn in a maze of fixed spawn.
    counts = Counter(words[1] if words[:1] == ["--agent"] else "sfl" for words in agents)
    single = {"random": 21, "sfl": 24, "paper": 22, "controller": 6, "mss": 3, "ec": 9}
    assert counts == single | {"sptm": 6, "sgm": 6, "ec-sptm": 2, "ec-sgm": 2}
    for experiment, words in zip(found, agents, strict=True):
        env, agent = experiment.env, words[1] if words[:1] == ["--agent"] else "sfl"
        assert isinstance(env, DoomConfig)
        assert len(experiment.eval.levels) == {"random": 3, "fixed": 4}[env.pairs or env.spawn]
        lengths = {"sfl": 500, "ec": 500, "controller": 500 if env.spawn == "random" else 2_500}
        assert env.max_steps == (200 if "sptm" in agent or "sgm" in agent else lengths.get(agent, 2_500))
        assert experiment.eval.episodes == (5 if agent == "ec" else 50)  # which has no use for goals
        assert from_json(Experiment, to_json(experiment)) == experiment


def test_worlds_are_told_apart_by_maze_and_textures() -> None:
    names = {DoomConfig(maze, texture_seed=seed).world_name() for maze in ("small", "rooms") for seed in (None, 1)}
    assert len(names) == 4
    assert DoomConfig("small").world_name() == DoomConfig("small", spawn="fixed", texture_seed=5).world_name()
