"""The real commands: in their own process where that matters, else through `main`."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from sfl.cli import main
from sfl.files import write_text
from sfl.run.checkpoint import FORMAT
from sfl.run.evaluate import EPISODE_COLUMNS

ROOT = Path(__file__).parents[1]
SOURCES = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
TINY = ["train", "fourroom-sfl", "--tiny", "--device", "cpu"]


def sfl(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sfl", *words],
        cwd=cwd,
        env=SOURCES | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run, made by the real command."""
    place = tmp_path_factory.mktemp("cli")
    done = sfl(*TINY, "--seed", "3", "--train.log-every", "100", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "success %" in done.stdout
    assert "evaluated at" in done.stderr
    return place / "runs" / "fourroom-sfl" / "seed-0003"


def test_figures_are_files_whatever_matplotlib_is_told_to_draw_on(run: Path, tmp_path: Path) -> None:
    drawn = sfl("plot", str(run), cwd=tmp_path, MPLBACKEND="nonsense")
    assert drawn.returncode == 0, drawn.stderr


def test_train_makes_the_run_folder(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "system.json", "train.csv", "eval.csv", "episodes.csv", "checkpoints"} <= names
    config = json.loads((run / "config.json").read_text())
    assert config["seed"] == 3
    assert config["experiment"]["train"]["log_every"] == 100
    with (run / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == EPISODE_COLUMNS
    assert {(row["experiment"], row["agent"], row["seed"]) for row in rows} == {("fourroom-sfl", "sfl", "3")}
    assert {row["level"] for row in rows} == {"paper", "any"}


def test_same_seed_same_episodes(run: Path, tmp_path: Path) -> None:
    assert main([*TINY, "--seed", "3", "--runs-dir", str(tmp_path)]) == 0
    again = tmp_path / "fourroom-sfl" / "seed-0003" / "episodes.csv"
    assert again.read_bytes() == (run / "episodes.csv").read_bytes()


def test_a_run_goes_by_the_name_it_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "fourroom-random", "--tiny", "--runs-dir", str(tmp_path)]
    assert main([*words, "--name", "mine"]) == 0
    assert main(["report", str(tmp_path / "mine" / "seed-0000"), "--json"]) == 0
    assert {row["experiment"] for row in json.loads(capsys.readouterr().out.partition("seed-0000\n")[2])} == {"mine"}
    assert main([*words, "--name", "a/b"]) == 2
    assert "'a/b'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_eval_and_report_print_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--episodes", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    tasks = [("paper", 0), ("paper", 1), ("any", 0), ("any", 1)]
    assert [(row["agent"], row["level"], row["pair"]) for row in rows] == [
        (agent, *task) for agent in ("sfl", "random") for task in tasks
    ]
    assert main(["report", str(run), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["random"]["episodes"] for row in report} == {4}
    assert {finding["run"] for row in report for finding in row["findings"]} == {"fourroom-sfl seed 3"}
    assert [(row["experiment"], row["level"], row["seeds"]) for row in report] == [
        ("fourroom-sfl", "paper", 1),
        ("fourroom-sfl", "any", 1),
    ]


def test_eval_takes_goals_as_poses_and_observations(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfl.worlds import MiniGridConfig, make_env

    observation, _ = make_env(MiniGridConfig()).reset(options={"goal": (2, 1, 0)})
    np.save(tmp_path / "goal.npy", observation["desired_goal"])
    for goal in ("2,1", str(tmp_path / "goal.npy")):
        assert main(["eval", str(run), "--goal", goal, "--start", "2,2,270", "--episodes", "4", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["agent"] for row in rows] == ["sfl"] * 4 + ["random"] * 4
        assert {row["level"] for row in rows} == {"any"}


def test_export_is_slim_and_still_evaluates(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slim = tmp_path / "slim"
    assert main(["export", str(run), "--out", str(slim)]) == 0
    assert capsys.readouterr().out.strip() == str(slim)
    assert not list(slim.rglob("replay.safetensors")) + list(slim.rglob("optimisers.safetensors"))
    results = []
    for folder in (run, slim):
        assert main(["eval", str(folder), "--episodes", "3", "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    assert main(["export", str(run), "--out", str(slim)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["resume", str(slim)]) == 2
    assert "slim copy" in capsys.readouterr().err


def test_ctrl_c_saves_says_how_to_resume_and_resume_finishes(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "sfl",
        *TINY,
        "--train.steps",
        "1000000",
        "--train.log-every",
        "1",
        "--train.env-count",
        "1",
    ]
    process = subprocess.Popen(words, cwd=tmp_path, env=SOURCES, stderr=subprocess.PIPE, text=True)
    path = tmp_path / "runs" / "fourroom-sfl" / "seed-0000"
    rows = path / "train.csv"
    while process.poll() is None and not (rows.exists() and rows.read_text().count("\n") > 20):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert "and saved; continue with `sfl resume runs/fourroom-sfl/seed-0000`" in complaint
    assert "Traceback" not in complaint

    done = json.loads((path / "checkpoints" / "last" / "format.json").read_text())["env_steps"]
    config = path / "config.json"
    config.write_text(config.read_text().replace('"steps": 1000000', f'"steps": {done + 10}'))
    assert main(["resume", str(path), "--device", "cpu"]) == 0
    with rows.open() as file:
        assert [int(row["env_steps"]) for row in csv.DictReader(file)] == list(range(1, done + 11))


WRONG_USE = {
    "fourrom": "No place 'fourrom'. Did you mean 'fourroom'?",
    "fourroom --agent papr": "No agent 'papr'. Did you mean 'paper'?",
    "fourroom --agent sgm": "There is no agent 'sgm' in fourroom; --agent can be sfl, paper, tabular, random, ec, mss.",
    "fourroom-sfl --agent paper": "fourroom-sfl has the agent sfl already; leave out --agent paper",
    "fourroom-sfl --agent.landmarks.add-treshold 0.5": "Did you mean '--agent.landmarks.add-threshold'?",
    "fourroom-sfl --agent.landmarks.add-threshold 7": "got 7",
    "fourroom-sfl --train.steps many": "Error parsing --train.steps",
    "fourroom-sfl --train.steps -1": "train.steps must be 0 or more, got -1",
    "fourroom-sfl --env.spawn nowhere": "nowhere",
    "fourroom-sfl --seed -1": "--seed must be 0 or more, got -1",
    "fourroom-sfl --device tpu": "--device must be auto, cpu or cuda, got 'tpu'",
    "fourroom-sfl --threads 0": "--threads must be 1 to 1,024, got 0",
    "fourroom-sfl extra": "Did not expect 'extra' here",
    "world-sfl --env.id MountainCarContinuous-v0": "MountainCarContinuous-v0 has continuous actions",
    "world-sfl --env.id Pendulum-v1": "Pendulum-v1 has continuous actions",
    "world-sfl --env.id CartPol-v1": "Did you mean 'CartPole-v1'?",
    "--seed 3": "Name the place first",
    "": "Name the place first",
}


@pytest.mark.parametrize("words", WRONG_USE)
def test_wrong_use_of_train_is_one_line_and_writes_nothing(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words.split()]) == 2
    out, complaint = capsys.readouterr()
    assert out == ""
    assert complaint.startswith("sfl: ")
    assert complaint.count("\n") == 1
    assert WRONG_USE[words] in complaint
    assert list(tmp_path.iterdir()) == []


def test_other_wrong_use_is_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs_dir = str(run.parents[1])
    for words, line in {
        ("trian",): "No command 'trian'. Did you mean 'train'?",
        ("report", "--jsn"): "No option '--jsn'. Did you mean '--json'?",
        ("video", str(run), "--leve", "any"): "No option '--leve'. Did you mean '--level'?",
        ("report",): "Name a run",
        ("plot",): "Name a run",
        ("resume",): "Missing from sfl resume",
        ("resume", str(tmp_path)): "is not a run folder",
        ("eval", str(run), "--goal", "4,1"): "goal (4, 1) is inside a wall of sfl/FourRoom-v0",
        ("eval", str(run), "--start", "4,1,0"): "start (4, 1) is inside a wall of sfl/FourRoom-v0",
        ("eval", str(run), "--goal", "50,1"): "goal (50, 1) is outside the 9x9 grid of sfl/FourRoom-v0",
        ("eval", str(run), "--goal", "no.png"): "no.png does not exist",
        ("eval", str(run), "--level", "hard"): "No level 'hard'",
        ("eval", str(run), "--episodes", "0"): "--episodes must be 1 to 100,000, got 0",
        ("eval", str(run), "--episodes", "few"): "Error parsing --episodes",
        ("train", "fourroom-sfl", "--seed", "3", "--runs-dir", runs_dir): "exists already; continue it with",
        ("bench",): "sfl bench has moved: `make bench`",
    }.items():
        assert main(list(words)) == 2, words
        complaint = capsys.readouterr().err
        assert line in complaint
        assert complaint.startswith("sfl: ")
        assert complaint.count("\n") == 1


def test_failures_exit_with_1(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--checkpoint", "000000001"]) == 1
    assert "does not exist. The last good checkpoint is" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main([*TINY, "--runs-dir", str(tmp_path / "file")]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"sfl: Not a directory: {tmp_path / 'file'}")
    assert complaint.endswith("; a part of that path is a file; choose another path.\n")
    assert complaint.count("\n") == 1


def damage(folder: Path) -> None:
    file = folder / "checkpoints" / "last" / "networks.safetensors"
    file.write_bytes(file.read_bytes()[:100])


def change_format(folder: Path) -> None:
    header = folder / "checkpoints" / "last" / "format.json"
    header.write_text(header.read_text().replace(f'"format": {FORMAT}', '"format": 7'))


def change_environment(folder: Path) -> None:
    config = folder / "config.json"
    config.write_text(config.read_text().replace("sfl/FourRoom-v0", "sfl/MultiRoom-N2-v0"))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (damage, "is damaged: networks.safetensors has 100 bytes instead of"),
        (change_format, f"has format 7, this version of sfl reads format {FORMAT}. The last good checkpoint is"),
        (change_environment, "was made in another environment: environment sfl/FourRoom-v0"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line_from_every_command(
    harm: Callable[[Path], None], line: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    harm(folder)
    before = sorted(tmp_path.rglob("*"))
    for words in (["eval"], ["resume"], ["plot"], ["video"], ["export", "--out", str(tmp_path / "slim")]):
        assert main([words[0], str(folder), *words[1:]]) == 1, words
        complaint = capsys.readouterr().err
        assert line in complaint
        assert complaint.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tabular_run_can_be_used_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "fourroom-tabular", "--tiny", "--device", "cpu", "--runs-dir", str(tmp_path)]) == 0
    folder, slim = tmp_path / "fourroom-tabular" / "seed-0000", tmp_path / "slim"
    assert main(["export", str(folder), "--out", str(slim)]) == 0
    capsys.readouterr()
    results = []
    for path, words in ((folder, []), (slim, []), (folder, ["--checkpoint", "000000600"])):
        assert main(["eval", str(path), "--episodes", "2", "--json", *words]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]
    assert {row["env_steps"] for row in results[2]} == {600}
    assert main(["plot", str(slim)]) == 0
    assert all(Path(figure).is_file() for figure in capsys.readouterr().out.split())


def test_help_version_list_and_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "train PLACE" in capsys.readouterr().out
    assert main([]) == 2
    capsys.readouterr()
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sfl {metadata.version('sfl')}\n"
    assert main(["list"]) == 0
    assert "fourroom " in capsys.readouterr().out
    main(["doctor"])
    shown = capsys.readouterr().out
    for world in ("FourRoom", "DoomMaze"):
        assert f"a step in sfl/{world}-v0 does what it should" in shown


@pytest.mark.parametrize("word", ["--help", "list"])
def test_a_reader_that_has_seen_enough_is_no_error(word: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "sfl", word], env=SOURCES, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_output_that_is_closed_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m sfl list >&-"
    done = subprocess.run(command, shell=True, env=SOURCES, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_of_an_experiment_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "fourroom-sfl", "--help"])
    assert not stop.value.code
    shown = capsys.readouterr().out
    for option in ("--agent.landmarks.add-threshold", "--env.spawn", "--train.steps", "--eval.episodes", "--tiny"):
        assert option in shown


def test_demo_compares_with_the_random_policy_and_names_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--tiny", "--device", "cpu", "--runs-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "random policy" in shown
    files = [line.strip() for line in shown.partition("Open these:")[2].splitlines() if line.strip()]
    assert files
    assert all(Path(file).is_file() for file in files)


def test_scale_multiplies_the_steps(tmp_path: Path) -> None:
    from sfl import experiments

    steps = experiments.tiny(experiments.get("fourroom-random")).train.steps
    assert main(["train", "fourroom-random", "--tiny", "--scale", "0.5", "--runs-dir", str(tmp_path)]) == 0
    config = json.loads((tmp_path / "fourroom-random" / "seed-0000" / "config.json").read_text())
    assert config["experiment"]["train"]["steps"] == round(steps / 2)


@contextlib.contextmanager
def small_files(most: int) -> Iterator[None]:
    """As on a full disk: no file may have more bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("words", [["plot"], ["plot", "--paper"], ["video"], ["export", "--out", "slim"]])
def test_on_a_full_disk_what_was_written_before_stays_whole(
    words: list[str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "run")
    for name in ("goals.png", "paper/goals.pdf", "episode.mp4"):
        write_text(Path("run/figures") / name, "the one before")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with small_files(1_500):
        assert main([words[0], "run", *words[1:]]) == 1
    complaint = capsys.readouterr().err
    assert "make room" in complaint or "free some space" in complaint
    assert complaint.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_does_not_fit_into_memory_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for option in ("--agent.features.dim=2147483648", "--agent.replay-size=100000000000000"):
        assert main([*TINY, option]) == 1
        complaint = capsys.readouterr().err
        assert complaint.startswith("sfl: This does not fit into memory (")
        assert "ask for less: fewer environments" in complaint
        assert complaint.count("\n") == 1
    for option, line in {
        "--agent.features.updates-per-step=inf": "updates-per-step must be a finite number below 9e+18, got inf",
        "--seed=99999999999999999999": "--seed must be a finite number below 9e+18, got 99999999999999999999",
        "--threads=2147483648": "--threads must be 1 to 1,024, got 2147483648",
        "--eval.episodes=2147483648": "eval.episodes must be 1 to 100,000, got 2147483648",
    }.items():
        assert main([*TINY, option]) == 2
        assert line in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_our_own_still_shows_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError("ours"), RuntimeError("ours"), RecursionError(), OverflowError(), KeyError("ours")):
        monkeypatch.setattr("sfl.cli.dispatch", Mock(side_effect=error))
        with pytest.raises(type(error)):
            main(["list"])


def test_no_complaint_is_longer_than_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "x" * 100_000]) == 2
    assert len(capsys.readouterr().err) < 1_100
