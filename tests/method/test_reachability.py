"""SFL with R as its metric: what is compared, by whom actions are chosen, over grids and over frames, and its file."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from sfl.api import Array, Decision, EnvSpec
from sfl.baselines.networks import Retrieval
from sfl.baselines.random import RandomConfig
from sfl.errors import CheckpointError, UsageError
from sfl.method.agent import SFLAgent
from sfl.method.config import (
    EdgeConfig,
    FrameSFLConfig,
    LandmarkConfig,
    MetricConfig,
    RetrievalConfig,
    SFLConfig,
    by_reachability,
)
from sfl.method.landmarks import Localization
from sfl.nn.weights import module_state
from sfl.registry import make_agent
from sfl.replay.store import WalkReplay
from sfl.worlds import Task

from ..contract.worlds import (
    CORRIDOR_FEATURES,
    CORRIDOR_PSI,
    FOURROOM,
    TINY,
    Run,
    Wanderer,
    Zigzag,
    assert_same_state,
    evaluate,
    fourrooms,
    make_corridor,
    one_hot,
)
from .ring import PLACES, SPEC, Ring, config_of


def trained(steps: int = 200) -> SFLAgent:
    """In FourRoom, with an R that knows nothing: what it says is nothing like SFS."""
    agent = make_agent(TINY["sfl-reachability"], FOURROOM, 0)
    Run(agent, fourrooms(2)).go(steps)
    assert isinstance(agent, SFLAgent)
    return agent


def r_of(agent: SFLAgent, spec: EnvSpec) -> Retrieval:
    """R as the checkpoint has it."""
    retrieval = Retrieval(agent.config.metric.retrieval, spec, 5, "cpu")
    retrieval.take(agent.state_dict().networks)
    return retrieval


def pair_by_pair(retrieval: Retrieval, some: torch.Tensor, others: torch.Tensor) -> Array:
    head = retrieval.network.head
    with torch.no_grad():
        return np.array([[float(head(torch.cat([a, b])[None]).softmax(1)[0, 1]) for b in others] for a in some])


def test_it_is_at_the_landmark_that_r_finds_nearest() -> None:
    agent = trained()
    retrieval, known = r_of(agent, FOURROOM), agent.landmarks
    landmarks = np.stack(known.observations)
    policy = agent.policy(seed=0)
    policy.begin_episode(0, landmarks[0])
    views = np.stack([env.reset(seed=seed)[0]["observation"] for seed, env in enumerate(fourrooms(12, spawn="random"))])
    expected = pair_by_pair(retrieval, retrieval.features(views), retrieval.features(landmarks))
    sfs = policy.sfs(views, landmarks)
    assert (expected.argmax(1) != sfs.argmax(1)).any()  # or nothing was tested
    known.medians.window = 1  # the newest alone
    decisions = known.localize(agent._states, views, np.zeros(12, int)).decisions()
    np.testing.assert_allclose([one.similarity for one in decisions], expected.max(1), rtol=1e-4)
    assert [one.nearest for one in decisions] == expected.argmax(1).tolist()
    threshold = agent.config.landmarks.localize_threshold
    assert [one.localized for one in decisions] == [
        int(row.argmax()) if row.max() > threshold else None for row in expected
    ]


def test_a_goal_is_joined_to_the_landmarks_that_r_finds_nearest() -> None:
    agent = trained()
    agent.local_policy._config = replace(agent.config, goal_links=3)
    landmarks = np.stack(agent.landmarks.observations)
    assert len(landmarks) > 5
    goal = fourrooms(1, spawn="random")[0].reset(seed=4)[0]["observation"]
    retrieval = r_of(agent, FOURROOM)
    (scores,) = pair_by_pair(retrieval, retrieval.features(goal[None]), retrieval.features(landmarks))
    agent.begin_episode(0, goal)
    navigator = agent.local_policy.navigators[0]
    assert navigator.goal_links is not None
    assert navigator.goal_links.tolist() == np.argsort(-scores, kind="stable")[:3].tolist()


def test_the_way_to_a_landmark_is_that_of_sfs() -> None:
    agent = trained()
    landmarks = np.stack(agent.landmarks.observations)
    with torch.no_grad():
        psi = torch.nn.functional.normalize(agent.representation.psi(landmarks), dim=2)  # [L, A, F]
        ends = torch.nn.functional.normalize(agent.representation.psi(landmarks).mean(1), dim=1)
    agent.landmarks.refresh(agent._states)
    targets = np.roll(np.arange(len(landmarks)), 1)
    expected = (psi @ ends[targets].unsqueeze(2)).squeeze(2).argmax(1)
    here = Localization(agent.landmarks, landmarks, psi, ends, torch.zeros(len(targets), len(landmarks)), (), None)
    decisions = [Decision(heading=target) for target in targets.tolist()]
    chosen = agent.local_policy._greedy(here, decisions, [0] * len(targets))
    assert chosen.tolist() == expected.tolist()


def test_a_candidate_that_r_finds_near_a_landmark_is_not_added() -> None:
    agent = trained()
    retrieval = r_of(agent, FOURROOM)
    features = retrieval.features(np.stack(agent.landmarks.observations))
    among = pair_by_pair(retrieval, features, features)
    later, earlier = np.tril_indices(len(among), -1)
    threshold = agent.config.landmarks.add_threshold
    assert len(among) > 3
    assert (among[later, earlier] < threshold).all()
    views = np.stack([env.reset(seed=seed)[0]["observation"] for seed, env in enumerate(fourrooms(30, spawn="random"))])
    near = pair_by_pair(retrieval, retrieval.features(views), features).max(1)
    assert (near >= threshold).any()  # or nothing was tested


LENGTH = 12
CORRIDOR = EnvSpec((LENGTH,), "float32", 3, 4)
R = RetrievalConfig(near=1, far=8, hidden=32, layers=1, dim=32, batch_size=64, learning_rate=3e-3)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of an R that knows which cells of a corridor are neighbours."""
    replay, rng = WalkReplay(CORRIDOR, 4_000, torch.device("cpu")), np.random.default_rng(0)
    envs = [make_corridor(LENGTH, 100, Zigzag) for _ in range(4)]
    Run(Wanderer(RandomConfig(), CORRIDOR, 0), envs).go(800, lambda step: replay.observe(step.transitions))
    retrieval = Retrieval(R, CORRIDOR, 0, "cpu")
    for _ in range(300):
        triplets = replay.triplets(rng, R.batch_size // 2, R.near, R.far)
        assert triplets is not None
        retrieval.update(triplets)
    file = tmp_path_factory.mktemp("networks") / "networks.safetensors"
    save_file(module_state(retrieval.network, "retrieval"), file)
    return str(file)


def learner(networks: str) -> SFLConfig:
    return SFLConfig(
        CORRIDOR_FEATURES,
        replace(CORRIDOR_PSI, updates_per_step=0.4),
        LandmarkConfig(
            limit=8, add_threshold=0.5, localize_threshold=0.6, start_step=1_600, add_every=100, update_every=200
        ),
        EdgeConfig(threshold=0.0, form_every=100),
        metric=MetricConfig("reachability", networks, R),
    )


def test_it_learns_to_walk_a_corridor_by_what_r_has_learned(taught: str) -> None:
    agent = make_agent(learner(taught), CORRIDOR, seed=0)
    Run(agent, [make_corridor(LENGTH, 60) for _ in range(4)]).go(1_000)
    assert isinstance(agent, SFLAgent)
    assert 4 <= agent.landmarks.set.count <= LENGTH // 2 + 1  # neighbours are near by R: one of them is enough
    tasks = [Task("any", pair, None, one_hot(goal, LENGTH), 40) for pair, goal in enumerate([11, 9, 7] * 8)]
    envs = [make_corridor(LENGTH, 40) for _ in range(8)]
    assert evaluate(agent.policy(seed=0), envs, tasks)[0] >= 0.9
    chance = make_agent(RandomConfig(), CORRIDOR, seed=0)
    assert evaluate(chance.policy(seed=0), envs, tasks)[0] < 0.5


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ("nothing", r"Cannot read networks from .*: No such file.*make one: sfl network train both --out FILE"),
        ("text", r"is no whole \.safetensors file"),
        ("locomotion", "holds no retrieval network; make one: sfl network train both"),
        ("other", "holds another retrieval network than the settings describe"),
    ],
)
def test_a_file_without_r_is_refused(keep: str, words: str, tmp_path: Path) -> None:
    file, retrieval = tmp_path / "a.safetensors", Retrieval(replace(R, dim=8), CORRIDOR, 0, "cpu")
    if keep == "text":
        file.write_text("not a network, but long enough to be one")
    elif keep != "nothing":
        name = "locomotion" if keep == "locomotion" else "retrieval"
        save_file(module_state(retrieval.network, name), file)
    with pytest.raises((UsageError, CheckpointError), match=words) as caught:
        make_agent(learner(str(file)), CORRIDOR, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("landmarks", "metric", "words"),
    [
        ({"trust": 0.5}, {"measure": "reachability"}, "landmarks.trust goes with metric.measure sfs only, got 0.5"),
        (
            {"formation": "clustered"},
            {"measure": "reachability"},
            "landmarks.formation clustered goes with metric",
        ),
        ({}, {"networks": "a.safetensors"}, "metric.networks goes with metric.measure reachability only, got a.safet"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    landmarks: dict[str, object], metric: dict[str, object], words: str
) -> None:
    for config in (SFLConfig(), FrameSFLConfig()):
        with pytest.raises(UsageError, match=words):
            replace(
                config,
                landmarks=replace(config.landmarks, **landmarks),  # type: ignore[arg-type]
                metric=MetricConfig(**metric),  # type: ignore[arg-type]
            )


# ---- over frames


def frames_config(encoder: str) -> FrameSFLConfig:
    config = by_reachability(config_of(encoder), "")
    return replace(
        config,
        landmarks=replace(config.landmarks, add_threshold=0.9, localize_threshold=0.2),
        metric=replace(config.metric, retrieval=RetrievalConfig(hidden=8, layers=2, encoder="compact")),
    )


def test_a_state_over_frames_has_the_code_of_its_newest_one(encoder: str, views: Array) -> None:
    agent = SFLAgent(frames_config(encoder), SPEC, 0, "cpu")
    plain = SFLAgent(config_of(encoder), SPEC, 0, "cpu").representation
    retrieval = r_of(agent, SPEC)
    codes = retrieval.features(views)
    for env in (0, 1):
        agent._states.begin_episode(env)
        plain.begin_episode(env)
    for places in ([2, 3], [5, 1]):
        states = agent._states.perceive(views[places], np.arange(2))
        expected = plain.perceive(views[places], np.arange(2))
    assert isinstance(states, torch.Tensor)
    assert isinstance(expected, torch.Tensor)
    width = expected.shape[1]
    torch.testing.assert_close(states[:, :width], expected)
    torch.testing.assert_close(states[:, width:], codes[[5, 1]], atol=1e-4, rtol=1e-4)
    goal = agent._states.goal_state(views[6])
    torch.testing.assert_close(goal[0, width:], codes[6], atol=1e-4, rtol=1e-4)
    chance = agent.landmarks.compare(agent._states.keys(states), agent._states.keys(goal))
    wanted = pair_by_pair(retrieval, codes[[5, 1]], codes[[6]])
    np.testing.assert_allclose(chance.numpy(), wanted, rtol=1e-3)
    _, keys = agent._states.directions(states)
    torch.testing.assert_close(keys, agent._states.keys(states.numpy()))  # as landmarks are kept


@pytest.mark.parametrize("steps", [105, 112])
def test_over_frames_a_loaded_agent_goes_on_alike(encoder: str, views: Array, steps: int) -> None:
    agent, other = (SFLAgent(frames_config(encoder), SPEC, seed, "cpu") for seed in (0, 1))
    ring = Ring(views, agent)
    ring.go(steps)
    assert agent.landmarks.set.count >= 3
    policy, twin_policy = other.policy(seed=1), other.policy(seed=1)
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    twin = Ring(views, other)
    twin.time, twin.at = ring.time, ring.at.copy()
    assert twin.go(60) == ring.go(60)
    assert_same_state(agent.state_dict(), other.state_dict())
    # Policies made before keep the R that they were made with.
    for one in (policy, twin_policy):
        one.begin_episode(0, views[3])
    assert policy._source.keys(policy._source.goal_state(views[2])).equal(
        twin_policy._source.keys(twin_policy._source.goal_state(views[2]))
    )
    assert not agent._states.keys(agent._states.goal_state(views[2])).equal(
        policy._source.keys(policy._source.goal_state(views[2]))
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_r_says_about_what_it_says_on_the_cpu(encoder: str, views: Array) -> None:
    agent = SFLAgent(frames_config(encoder), SPEC, 0, "cuda")
    Ring(views, agent).go(150)
    assert agent.landmarks.set.count >= 3
    other = SFLAgent(frames_config(encoder), SPEC, 1, "cpu")
    other.load_state_dict(agent.state_dict())
    tables = []
    for one in (agent, other):
        keys = torch.cat([one._source.keys(one._source.goal_state(views[place])) for place in range(PLACES)])
        tables.append(one.landmarks.similarity(keys).cpu())
    torch.testing.assert_close(tables[0], tables[1], atol=0.02, rtol=0)
