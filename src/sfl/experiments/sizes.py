"""The same experiment, smaller: in seconds, or with another budget."""

from __future__ import annotations

from dataclasses import replace

from sfl.baselines.config import ControllerConfig, ECConfig, SGMConfig, SPTMConfig
from sfl.baselines.mss.config import MSSConfig
from sfl.method.config import FrameSFLConfig, SFLConfig, TabularConfig
from sfl.registry import AgentConfig
from sfl.run.settings import Experiment, require_scale


def tiny(experiment: Experiment) -> Experiment:
    """The same experiment in seconds: every part runs, nothing is learned well."""
    train = replace(experiment.train, steps=1_200, eval_every=600, checkpoint_every=600, log_every=200)
    env, tasks = experiment.env, replace(experiment.eval, episodes=4, exam_steps=2_000)
    if env.kind == "maze":  # games take a second each to start
        env, tasks = replace(env, max_steps=150), replace(tasks, episodes=3, parallel=4)
        train = replace(train, env_count=min(train.env_count, 4))
    return replace(experiment, env=env, agent=_tiny_agent(experiment.agent), train=train, eval=tasks)


def _tiny_agent(agent: AgentConfig) -> AgentConfig:
    if isinstance(agent, SFLConfig | FrameSFLConfig | TabularConfig):
        return _tiny_sfl(agent)
    if isinstance(agent, ControllerConfig | SPTMConfig | SGMConfig | ECConfig):
        return _tiny_networks(agent)
    if isinstance(agent, MSSConfig):
        return _tiny_mss(agent)
    return agent


def _tiny_sfl(agent: SFLConfig | FrameSFLConfig | TabularConfig) -> AgentConfig:
    landmarks = replace(agent.landmarks, start_step=400, add_every=100, update_every=100)
    metric = replace(agent.metric, networks="", retrieval=replace(agent.metric.retrieval, encoder="compact", hidden=32))
    agent = replace(agent, landmarks=landmarks, edges=replace(agent.edges, form_every=100), metric=metric)
    if isinstance(agent, TabularConfig):
        return replace(agent, solve_every=200)
    successor = replace(agent.successor, start_step=200, updates_per_step=0.05, batch_size=32)
    agent = replace(agent, successor=successor)
    if isinstance(agent, FrameSFLConfig):  # the paper's encoder is a file that not everyone has made
        return replace(agent, frames=replace(agent.frames, encoder="compact"))
    features = replace(agent.features, start_step=100, stop_step=0, updates_per_step=0.05, batch_size=32)
    return replace(agent, features=features)


def _tiny_networks(agent: ControllerConfig | SPTMConfig | SGMConfig | ECConfig) -> AgentConfig:
    retrieval = replace(agent.retrieval, encoder="compact", hidden=32, batch_size=16)
    locomotion = replace(agent.locomotion, encoder="compact", batch_size=16)
    strangers = min(agent.strangers, 3)  # a batch has so few observations
    agent = replace(agent, networks="", retrieval=retrieval, locomotion=locomotion, strangers=strangers)
    agent = replace(agent, updates_per_step=0.02, replay_size=600)
    if isinstance(agent, ECConfig):
        ppo = replace(agent.ppo, horizon=32, dim=32, epochs=1, minibatches=1, decay_steps=1_200)
        return replace(agent, train_every=200, ppo=ppo)
    if isinstance(agent, SPTMConfig | SGMConfig):
        return replace(agent, memory=replace(agent.memory, steps=500, explorer=""))
    return agent


def _tiny_mss(agent: MSSConfig) -> AgentConfig:
    uvfa = replace(agent.uvfa, start_step=200, updates_per_step=0.05, batch_size=32)
    landmarks = min(agent.map.landmarks, 20)
    agent = replace(agent, uvfa=uvfa, map=replace(agent.map, landmarks=landmarks, candidates=100, redraw_every=200))
    if agent.states == "frames":
        return replace(agent, encoder="compact", cycle_steps=20, uvfa=replace(agent.uvfa, hidden=(64, 64)))
    return agent


def scaled(experiment: Experiment, factor: float) -> Experiment:
    """The same experiment with another budget of environment steps."""
    require_scale(factor)
    train, agent = experiment.train, experiment.agent
    steps = max(1, round(train.steps * factor))
    if factor < 1:  # as many evaluations and checkpoints as ever, not fewer: curves keep their points
        intervals = {name: getattr(train, name) for name in ("eval_every", "checkpoint_every", "log_every")}
        train = replace(train, **{name: max(1, round(every * factor)) for name, every in intervals.items() if every})
    if isinstance(agent, ECConfig):  # its learning rate falls over the run
        agent = replace(agent, ppo=replace(agent.ppo, decay_steps=steps))
    if isinstance(agent, SFLConfig) and agent.landmarks.formation == "clustered":  # else none would ever be formed
        every = max(1, round(agent.landmarks.add_every * factor))
        agent = replace(agent, landmarks=replace(agent.landmarks, add_every=every))
    if isinstance(agent, SPTMConfig | SGMConfig):  # else the walks would take the whole run: no graph, no cleanup
        walked = max(1, round(agent.memory.steps * factor))
        agent = replace(agent, memory=replace(agent.memory, steps=walked))
    return replace(experiment, agent=agent, train=replace(train, steps=steps))
