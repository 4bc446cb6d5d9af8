"""What the drawings say about agents, policies and rewards, in words that all of them share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import networkx as nx

from drmas_dsl.graph.settings import Agent, Call, Model, Output, Policy, System
from drmas_dsl.graph.wording import call_text, text_of, value_text

_ALWAYS = ("temperature", "max_tokens", "lr")  # settings that are shown at their defaults too


def agents_of(graph: nx.MultiDiGraph, system: System) -> list[Agent]:
    """The agents that the flow calls, in the order of the declarations."""
    called = {data["agent"] for _, data in graph.nodes(data=True) if data["kind"] == "call"}
    return [agent for name, agent in system.agents.items() if name in called]


def policies_of(graph: nx.MultiDiGraph, system: System) -> list[Policy]:
    """The policies that act in the flow, in the order of their agents."""
    return [system.policies[name] for name in dict.fromkeys(agent.policy for agent in agents_of(graph, system))]


def weights_text(model: Model) -> str:
    """Which weights a model has: `Qwen/Qwen3-4B`, `tiny()`, or the remote model's name."""
    if model.engine.function == "openai":
        return str(model.engine.args.get("model", "a remote model"))
    weights = model.weights
    if isinstance(weights, Call):
        return call_text(weights)
    return str(weights["path"]) if isinstance(weights, dict) else str(weights)


def policy_text(policy: Policy, system: System) -> str:
    """Who acts: `a copy of Qwen/Qwen3-4B for Solver`."""
    model = system.models[policy.model]
    weights = weights_text(model)
    if model.engine.function == "openai":
        return f"{weights}, remote"
    how = {"full": weights, "none": f"a copy of {weights}", "adapter": f"an adapter over {weights}"}[model.sharing]
    return f"{how}, frozen" if policy.frozen else how


def output_text(output: Output) -> str:
    """An output with what it can be: `verdict: approve | reject`."""
    return f"{output.name}: {' | '.join(output.choices)}" if output.choices else output.name


def rewards(system: System) -> list[str]:
    """The rewards as they would be written, the trajectory's first."""
    task = system.task
    found = [f"reward = {text_of(task.reward)}"] if task.reward is not None else []
    found += [f"reward {agent} = {text_of(reward)}" for agent, reward in task.agent_rewards.items()]
    return found + ([f"success = {text_of(task.success)}"] if task.success is not None else [])


def hyper_parameters(agent: Agent, system: System) -> list[tuple[str, str]]:
    """The settings of an agent and of its policy that matter: the usual ones, and those that differ from their defaults."""
    policy = system.policies[agent.policy]
    found = list(_settings(agent.sampling))
    if not agent.frozen:
        found += _settings(policy.optimizer)
        found += [(f"loss.{name}", value) for name, value in _settings(agent.loss)]
        found += [("penalty", value_text(agent.penalty))]
        found += [("aggregate", policy.aggregate)] if policy.aggregate != "token_mean" else []
        found += [(f"lora.{name}", value) for name, value in _settings(policy.lora)] if policy.lora else []
    return found


def _settings(block: Any) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(block):
        value = getattr(block, field.name)
        if field.name in _ALWAYS or value != field.default:
            yield field.name, value_text(value)
