"""docs/agents/controller.md, sptm.md and sgm.md tell the presets as they are."""

from __future__ import annotations

import pytest

from sfl import experiments
from sfl.agents import AgentConfig
from sfl.agents.controller import ControllerConfig
from sfl.agents.sgm import SGMConfig
from sfl.agents.sptm import SPTMConfig
from sfl.graph.navigator import NavigatorConfig

from .pages import read
from .test_agents import options, text

DEFAULTS: dict[str, AgentConfig] = {"controller": ControllerConfig(), "sptm": SPTMConfig(), "sgm": SGMConfig()}


def presets(method: str) -> list[AgentConfig]:
    names = [name for name in experiments.names() if name.startswith(f"{method}-doom-")]
    return [experiments.get(name).agent for name in names]


def settings_table(method: str) -> str:
    """Every option but the file; of networks for the controller alone, of the navigator where it departs from SFL's."""
    preset, usual = dict(options(presets(method)[0])), dict(options(DEFAULTS[method]))
    walks = {f"navigator.{word}": value for word, value in options(NavigatorConfig())}
    rows = []
    for word, value in preset.items():
        elsewhere = word.split(".")[0] in ("retrieval", "locomotion") and method != "controller"
        if word != "networks" and not elsewhere and walks.get(word) != value:
            rows.append(f"| `{word}` | {text(value)} | {text(usual[word])} |\n")
    return "".join(rows)


@pytest.mark.parametrize("method", DEFAULTS)
def test_the_settings_table_is_that_of_the_presets(method: str) -> None:
    table, page = settings_table(method), f"docs/agents/{method}.md"
    assert read(page).count(table) == 1, f"put this table into {page}:\n{table}"


@pytest.mark.parametrize("method", DEFAULTS)
def test_all_mazes_have_the_settings_of_the_table(method: str) -> None:
    first, *others = (
        {word: value for word, value in options(agent) if word != "networks"} for agent in presets(method)
    )
    assert all(other == first for other in others)
