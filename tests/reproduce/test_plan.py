"""Which runs are planned, in which order, and what is found in their folders."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sfl.config import to_json
from sfl.errors import UsageError
from sfl.reproduce.plan import PlannedRun, Progress, Sizes, differences, follow_move, progress_of, refuse_other_settings
from sfl.reproduce.tables import Entry
from sfl.run.folder import RunFolder, read_config
from sfl.run.train import train

from .planning import planned, random_runs, table

RANDOM = Entry("Random", "fourroom", "fourroom-random")
OURS = Entry("SFL", "fourroom", "fourroom-sfl")


def test_first_seeds_come_first_and_shared_runs_are_made_once(tmp_path: Path) -> None:
    other = replace(table(replace(OURS, row="again"), seeds=3), name="other")
    plan = planned([table(RANDOM, OURS), other], tmp_path)
    made = [(run.experiment.name, run.seed) for run in plan.runs]
    assert made == [
        *(("fourroom-random", 0), ("fourroom-sfl", 0), ("fourroom-random", 1), ("fourroom-sfl", 1)),
        ("fourroom-sfl", 2),
    ]
    assert len(plan.paths(plan.tables[0], OURS)) == 2
    assert plan.paths(plan.tables[1], OURS)[2] == tmp_path / "fourroom-sfl" / "seed-0002"


def test_sizes_reach_the_runs(tmp_path: Path) -> None:
    (run,) = planned([table(OURS)], tmp_path, tiny=False, scale=0.1, seeds=1).runs
    assert run.experiment.train.steps == 4_000
    assert run.words == ("fourroom-sfl", "--seed", "0", "--scale", "0.1")
    for wrong, message in (
        ({"seeds": 0}, "--seeds must be 1 or more, got 0"),
        ({"scale": 0.0}, "--scale must be a pos"),
    ):
        with pytest.raises(UsageError, match=message):
            Sizes(**wrong)  # type: ignore[arg-type]


def test_only_picks_rows_by_run_or_name(tmp_path: Path) -> None:
    both = [table(RANDOM, OURS)]
    assert {run.experiment.name for run in planned(both, tmp_path, "^sfl").runs} == {"fourroom-sfl"}
    assert {run.experiment.name for run in planned(both, tmp_path, "Random").runs} == {"fourroom-random"}
    with pytest.raises(UsageError, match="No row matches --only 'mss'; the runs are called fourroom-random, four"):
        planned(both, tmp_path, "mss")
    with pytest.raises(UsageError, match="no regular expression"):
        planned(both, tmp_path, "(")


def test_rows_without_an_experiment_or_an_option_are_listed(tmp_path: Path) -> None:
    absent = Entry("Absent", "fourroom", "absent-fourroom")
    waiting = Entry("Waiting", "fourroom", "fourroom-sfl", after=("absent-fourroom",), name="waiting")
    odd = Entry("Odd", "fourroom", "fourroom-sfl", options=("--agent.no-such", "1"), name="odd")
    plan = planned([table(absent, waiting, odd, OURS)], tmp_path)
    reasons = {lack.entry.row: lack.reason for lack in plan.lacking}
    assert list(reasons) == ["Absent", "Waiting", "Odd"]
    assert reasons["Absent"] == reasons["Waiting"] == "there is no experiment 'absent-fourroom' yet"
    assert "No option '--agent.no-such'" in reasons["Odd"]
    assert {run.experiment.name for run in plan.runs} == {"fourroom-sfl"}


def test_a_run_that_reads_another_comes_with_it(tmp_path: Path) -> None:
    options = ("--agent.frames.encoder", "{runs}/fourroom-random/{seed}")
    reader = Entry("Reader", "fourroom", "laptop-maze-sfl", options=options, name="reader", after=("fourroom-random",))
    plan = planned([table(reader, seeds=1)], tmp_path)
    first, second = plan.runs
    assert (first.experiment.name, second.after) == ("fourroom-random", (first.path,))
    assert second.words[-1] == str(first.path)


def test_progress_is_read_from_the_folder(tmp_path: Path) -> None:
    (run,) = random_runs(tmp_path, seeds=1)
    assert progress_of(run) is Progress.MISSING
    run.path.mkdir(parents=True)
    assert progress_of(run) is Progress.STARTED
    run.path.rmdir()
    folder = train(run.experiment, 0, tmp_path, "cpu")
    assert progress_of(run) is Progress.FINISHED
    generators = folder.last / "generators.json"
    body = json.loads(generators.read_text())
    generators.write_text(json.dumps({**body, "run": {**body["run"], "evaluated_at": 600}}))
    assert progress_of(run) is Progress.BROKEN_OFF  # stopped before its last evaluation
    longer = replace(run.experiment, train=replace(run.experiment.train, steps=5_000))
    assert progress_of(replace(run, experiment=longer)) is Progress.BROKEN_OFF


def test_a_folder_of_other_settings_is_refused(tmp_path: Path) -> None:
    run, twin = random_runs(tmp_path)
    train(run.experiment, 0, tmp_path, "cpu")
    refuse_other_settings([run, twin])
    other = replace(run.experiment, train=replace(run.experiment.train, steps=7, env_count=2))
    expected = "seed-0000 was made by other settings: train.steps is 1200 there and 7 here, train.env-count is 1 there"
    with pytest.raises(UsageError, match=re.escape(expected)):
        refuse_other_settings([replace(run, experiment=other)])
    with pytest.raises(UsageError, match="seed is 0 there and 1 here"):
        refuse_other_settings([replace(run, seed=1)])
    for damage in ("{", "{}", '{"experiment": null}'):
        RunFolder(run.path).config.write_text(damage)
        with pytest.raises(UsageError, match=r"has no readable config\.json; move it away or choose another"):
            refuse_other_settings([run])


def test_a_folder_of_runs_may_be_moved(tmp_path: Path) -> None:
    options = ("--agent.frames.encoder", "{runs}/fourroom-random/{seed}/weights.safetensors")
    reader = Entry("Reader", "fourroom", "laptop-maze-sfl", options=options, name="reader", after=("fourroom-random",))

    def reading(runs: Path) -> PlannedRun:
        return planned([table(reader, seeds=1)], runs).runs[1]

    old = reading(tmp_path / "old")
    old.path.mkdir(parents=True)
    body = {"experiment": to_json(old.experiment), "seed": 0}
    RunFolder(old.path).config.write_text(json.dumps(body))
    (tmp_path / "old").rename(tmp_path / "new")
    new = reading(tmp_path / "new")
    refuse_other_settings([new])
    follow_move(new)
    assert read_config(new.path) == (new.experiment, 0)
    assert str(tmp_path / "old") not in RunFolder(new.path).config.read_text()
    elsewhere = json.loads(json.dumps(body).replace("fourroom-random/seed-0000", "fourroom-random/seed-0001"))
    RunFolder(new.path).config.write_text(json.dumps(elsewhere))
    with pytest.raises(UsageError, match=r"agent\.frames\.encoder is .*seed-0001.* there and"):
        refuse_other_settings([new])


def test_differences_name_what_only_one_side_has() -> None:
    there, here = {"a": 1, "b": {"c_d": 2, "old": 3}}, {"a": 1, "b": {"c_d": 5, "new": 4}}
    assert differences(there, here) == [
        "b.c-d is 2 there and 5 here",
        "b.new is absent there and 4 here",
        "b.old is 3 there and absent here",
    ]
    assert differences(here, here) == []
