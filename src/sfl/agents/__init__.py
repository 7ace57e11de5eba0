"""Methods, one each; `make_agent` is the only door to them."""

from __future__ import annotations

from sfl.agents.registry import AgentConfig, agent_about, agent_name, field_score, make_agent, wants_poses

__all__ = ["AgentConfig", "agent_about", "agent_name", "field_score", "make_agent", "wants_poses"]
