"""What runs need that no other run makes is looked for before any starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sfl import experiments
from sfl.nn.weights import save_networks
from sfl.reproduce.plan import PlannedRun, runs_without_sources
from sfl.worlds import DoomConfig
from sfl.worlds.mazes.load import LAYOUTS

from .planning import experiment_of


def run_of(name: str, *options: str, after: tuple[Path, ...] = ()) -> PlannedRun:
    """In a maze that is always there."""
    words = (name, "--env.maze", "small", *options)
    return PlannedRun(experiment_of(words), 0, words, Path("runs") / name / "seed-0000", after)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_lacks_where_all_that_is_read_is_there() -> None:
    both = {f"{name}.weight": torch.zeros(1) for name in ("retrieval", "locomotion")}
    save_networks(both, Path("networks.safetensors"), {})
    runs = [run_of(name) for name in ("sgm-random-spawn-sfl", "test-1-fixed-spawn-mss", "sgm-random-spawn-controller")]
    assert runs_without_sources(runs) == {}


def test_a_file_with_one_of_two_networks_is_not_enough() -> None:
    save_networks({"retrieval.weight": torch.zeros(1)}, Path("networks.safetensors"), {})
    controller = run_of("sgm-random-spawn-controller")
    (reason,) = runs_without_sources([controller])
    assert reason == (
        "networks.safetensors holds no locomotion network; make one: sfl network train both --out FILE.safetensors."
    )


def test_runs_are_gathered_by_what_they_lack() -> None:
    paper = [run_of("sgm-random-spawn-paper"), run_of("test-1-fixed-spawn-paper")]
    controller = run_of("sgm-random-spawn-controller")
    found = runs_without_sources([*paper, controller, run_of("sgm-random-spawn-sfl")])
    assert list(found.values()) == [paper, [controller]]
    encoder, networks = found
    assert encoder.startswith("Cannot read an encoder from resnet18.safetensors")
    assert networks.startswith("Cannot read networks from networks.safetensors: No such file")
    assert networks.endswith("make one: sfl network train both --out FILE.safetensors.")


def test_a_maze_that_is_there_no_more(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text((LAYOUTS / "small.txt").read_text())
    run = run_of("small-random-spawn-random", "--env.maze", str(tmp_path / "own.txt"))
    assert runs_without_sources([run]) == {}
    (tmp_path / "own.txt").unlink()
    assert list(runs_without_sources([run]).values()) == [[run]]


def test_a_maze_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SFL_MAZES", raising=False)
    (reason,) = runs_without_sources([run_of("sgm-random-spawn-random", "--env.maze", "sgm")])
    assert reason.startswith("The maze 'sgm' is the paper's: name the folder that holds sgm-base.wad")


def test_what_a_run_before_it_makes_need_not_be_there() -> None:
    folder = Path("runs/sgm-random-spawn-controller/seed-0000")
    file = folder / "checkpoints" / "last" / "networks.safetensors"
    later = run_of("sgm-random-spawn-sptm", "--agent.networks", str(file), after=(folder,))
    alone = replace(run_of("sgm-random-spawn-sptm", "--agent.networks", str(file)), path=Path("runs/alone/seed-0000"))
    options = ("--agent.metric.networks", str(file), "--agent.frames.encoder", "place")
    metric = run_of("sgm-random-spawn-paper-reachability", *options, after=(folder,))
    assert runs_without_sources([later, metric]) == {}
    assert list(runs_without_sources([alone, later]).values()) == [[alone]]


def test_runs_that_read_a_failing_one_fail_with_it_in_whatever_order() -> None:
    first = run_of("sgm-random-spawn-controller")
    second = replace(run_of("small-random-spawn-random"), path=Path("runs/second"), after=(first.path,))
    third = replace(run_of("small-random-spawn-random"), path=Path("runs/third"), after=(second.path,))
    other = replace(run_of("small-random-spawn-random"), path=Path("runs/other"))
    (failing,) = runs_without_sources([third, second, first, other]).values()
    assert failing == [third, second, first]


def test_tiny_runs_need_no_file() -> None:
    """All of them work on a fresh machine, in mazes that come with the package."""
    for name in experiments.names():
        tiny = experiments.tiny(experiments.get(name))
        env = replace(tiny.env, maze="small") if isinstance(tiny.env, DoomConfig) else tiny.env
        run = PlannedRun(replace(tiny, env=env), 0, (name,), Path("runs") / name / "seed-0000")
        assert runs_without_sources([run]) == {}, name
