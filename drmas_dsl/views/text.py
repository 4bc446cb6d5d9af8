"""A system for the terminal: who acts, the flow as indented blocks, and what is rewarded."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import System
from drmas_dsl.graph.wording import call_text, node_text, text_of
from drmas_dsl.views.captions import (
    agents_of,
    hyper_parameters,
    output_text,
    policies_of,
    policy_text,
    rewards,
)
from drmas_dsl.views.structure import Block, Choice, Item, Jump, Loop, Parallel, Step, structure


def draw(graph: nx.MultiDiGraph, settings: bool = False) -> str:
    """The system as text; with `settings`, every agent's hyper-parameters."""
    system = system_of(graph)
    lines = [f"system {system.name}" + (f": {system.description}" if system.description else "")]
    lines += ["", "agents", *_agents(graph, system, settings)]
    lines += ["", "policies", *_policies(graph, system)]
    if system.tools:
        width = max(len(name) for name in system.tools)
        lines += ["", "tools", *(f"  {name:{width}}  {call_text(tool.call)}" for name, tool in system.tools.items())]
    lines += ["", "flow", *("  " + line for line in _block(graph, structure(graph)))]
    lines += ["", "task", *(f"  {reward}" for reward in rewards(system))]
    return "\n".join(lines) + "\n"


def _agents(graph: nx.MultiDiGraph, system: System, settings: bool) -> Iterator[str]:
    agents = agents_of(graph, system)
    width = max((len(agent.name) for agent in agents), default=0)
    for agent in agents:
        outputs = ", ".join(output_text(output) for output in agent.outputs)
        role = f"{agent.role}  " if agent.role and agent.role != agent.name else ""
        yield f"  {agent.name:{width}}  {role}{f'-> {outputs}' if outputs else ''}".rstrip()
        if settings:
            values = hyper_parameters(agent, system)
            yield f"  {'':{width}}  " + ", ".join(f"{name} = {value}" for name, value in values)


def _policies(graph: nx.MultiDiGraph, system: System) -> Iterator[str]:
    policies = policies_of(graph, system)
    width = max((len(policy.name) for policy in policies), default=0)
    called = agents_of(graph, system)
    for policy in policies:
        agents = [agent for agent in called if agent.policy == policy.name]
        names = ", ".join(f"{agent.name} (not trained)" if agent.frozen else agent.name for agent in agents)
        who = "" if [policy.name] == [agent.name for agent in agents] else f"  for {names}"
        engine = call_text(system.models[policy.model].engine)
        yield f"  {policy.name:{width}}  {policy_text(policy, system)}{who}, on {engine}"


def _block(graph: nx.MultiDiGraph, block: Block) -> Iterator[str]:
    for item in block:
        yield from _item(graph, item)


def _item(graph: nx.MultiDiGraph, item: Item) -> Iterator[str]:
    match item:
        case Step(node):
            yield node_text(graph.nodes[node])
        case Jump(word):
            yield word
        case Loop(node, body):
            yield node_text(graph.nodes[node])
            yield from _inside(graph, body)
        case Choice(_, arms):
            for number, (condition, body) in enumerate(arms):
                word = "else" if condition is None else f"{'elif' if number else 'if'} {text_of(condition)}"
                if len(body) == 1 and isinstance(body[0], Step | Jump):
                    yield f"{word}: {next(_item(graph, body[0]))}"
                else:
                    yield word
                    yield from _inside(graph, body)
        case Parallel(node, _, branches):
            yield node_text(graph.nodes[node]) or "parallel"
            for branch in branches:
                for number, line in enumerate(_block(graph, branch)):
                    yield ("║ " if number else "╟ ") + line


def _inside(graph: nx.MultiDiGraph, body: Block) -> Iterator[str]:
    for line in _block(graph, body):
        yield "│ " + line
