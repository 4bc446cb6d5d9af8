"""An execution graph made ready to walk: edges in order, prompts compiled, functions found, tokenizers bound.

Made once per rollout. It says nothing on trajectories; those are the interpreter's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any

import networkx as nx
from jinja2 import Template

from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import ordered_edges, start_of, system_of
from drmas_dsl.graph.expressions import parts
from drmas_dsl.graph.settings import Agent, Chat, Expression, Output, Sampling, System, Tool
from runtime.models import REMOTE_BYTES, context_length, is_remote
from runtime.rollout import prompts
from runtime.rollout.failures import Failure, described
from runtime.rollout.functions import BUILT_IN, Function, find, resolved

ENCODINGS_KEPT = 256  # the members of a group share their first prompt


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph. `visits` is how often a walk can come by at most; `agents` and `variables` are those that are
    bound between a fork and its join."""

    name: str
    kind: str
    data: Mapping[str, Any]
    loops: tuple[str, ...]
    edges: tuple[tuple[str, Expression | None], ...]
    visits: int
    agents: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Speaker:
    """An agent made ready to speak. `room` is the longest prompt that leaves `max_tokens` of the context free, in ids."""

    agent: Agent
    sampling: Sampling
    room: int
    template: Template
    encode: Callable[[str], tuple[int, ...]]
    decode: Callable[[tuple[int, ...]], str]
    parsers: tuple[tuple[str, Callable[[str], Any], Any], ...]  # name of the output, its parser, its default

    def read(self, text: str) -> tuple[dict[str, Any], bool, bool]:
        """The outputs of a response, whether all of them parsed, and whether one took its default.

        Raises:
            Failure: a parser of a plug-in does.
        """
        outputs: dict[str, Any] = {}
        valid, defaulted = True, False
        for name, parse, default in self.parsers:
            try:
                value = parse(text)
            except Exception as error:
                raise Failure(f"{self.agent.name}.{name} cannot be parsed: {described(error)}") from error
            valid = valid and value is not None
            defaulted = defaulted or (value is None and default is not None)
            outputs[name] = default if value is None else value
        return outputs, valid, defaulted


@dataclass(frozen=True, slots=True)
class Program:
    """A graph to walk. `outputs` and `variables` are all that are known by name; `slow` functions block for long enough
    that they must not run on the event loop."""

    system: System
    nodes: Mapping[str, Node]
    start: str
    speakers: Mapping[str, Speaker]
    tools: Mapping[str, tuple[Function, Mapping[str, Any]]]
    functions: Mapping[str, Function]
    slow: frozenset[str]
    outputs: tuple[str, ...]
    variables: tuple[str, ...]

    def is_slow(self, expression: Expression) -> bool:
        """Whether the expression calls a slow function."""
        return any(part["kind"] == "call" and part["function"] in self.slow for part in parts(expression))


def prepare(
    graph: nx.MultiDiGraph, tokenizers: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> Program:
    """Make the graph ready. `tokenizers` are those of its models, by name; `overrides` replace settings of every agent's
    sampling.

    Raises:
        UserError: a function or prompt that cannot be used, or agents that leave no room for a prompt.
    """
    system = system_of(graph)
    nodes = {name: _node(graph, name) for name in graph}
    called = {part["function"] for part in _expressions(system, nodes) if part["kind"] == "call"}
    return Program(
        system,
        nodes,
        start_of(graph),
        {
            agent.name: _speaker(system, agent, tokenizers[agent.model], overrides or {})
            for agent in _callees(system, nodes)
        },
        {tool.name: _tool(system, tool) for tool in system.tools.values()},
        {name: find(system, "reducer" if ("reducer", name) in BUILT_IN else "reward", name) for name in called},
        frozenset(name for name in called if ("reducer", name) not in BUILT_IN),
        tuple(dict.fromkeys(output.name for agent in system.agents.values() for output in agent.outputs)),
        tuple(dict.fromkeys(node.data["bind"] for node in nodes.values() if "bind" in node.data)),
    )


def _node(graph: nx.MultiDiGraph, name: str) -> Node:
    data = graph.nodes[name]
    loops = tuple(data["loops"])
    own = data["max"] + 1 if data["kind"] == "loop" else 1
    visits = own * math.prod(graph.nodes[head]["max"] for head in loops)
    inside = [graph.nodes[node] for node in _region(graph, name)] if data["kind"] == "fork" else []
    return Node(
        name,
        data["kind"],
        data,
        loops,
        tuple(ordered_edges(graph, name)),
        visits,
        tuple(dict.fromkeys(node["agent"] for node in inside if node["kind"] == "call")),
        tuple(dict.fromkeys(node["bind"] for node in inside if "bind" in node)),
    )


def _region(graph: nx.MultiDiGraph, fork: str) -> set[str]:
    """The nodes between a fork and its join."""
    join = graph.nodes[fork]["join"]
    inner = nx.restricted_view(graph, [join], [])
    return set(nx.descendants(inner, fork))


def _callees(system: System, nodes: Mapping[str, Node]) -> list[Agent]:
    return [
        system.agents[name] for name in {node.data["agent"]: None for node in nodes.values() if node.kind == "call"}
    ]


def _speaker(system: System, agent: Agent, tokenizer: Any, overrides: Mapping[str, Any]) -> Speaker:
    model = system.models[agent.model]
    sampling = replace(agent.sampling, **overrides)
    chat = _over(agent.chat, model.chat)
    context = context_length(model, system.base)
    left = context - sampling.max_tokens
    if left < 1:
        raise UserError(
            f"agent {agent.name} may write {sampling.max_tokens} tokens, and the context of model {model.name} has {context}",
            f"lower {agent.name}.sampling.max_tokens, or raise {model.name}.context",
        )

    @lru_cache(maxsize=ENCODINGS_KEPT)
    def encode(prompt: str) -> tuple[int, ...]:
        return prompts.encode(prompt, chat, tokenizer)

    def decode(ids: tuple[int, ...]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=True)

    room = left * REMOTE_BYTES if is_remote(model) else left
    parsers = tuple(_parser(system, output) for output in agent.outputs)
    return Speaker(agent, sampling, room, prompts.template(agent.prompt), encode, decode, parsers)


def _parser(system: System, output: Output) -> tuple[str, Callable[[str], Any], Any]:
    """An output's name, its parser without the default, and the default: whoever takes it must know that it did."""
    args = {name: resolved(value, system.base) for name, value in output.parser.args.items()}
    default = args.pop("default", None)
    return output.name, partial(find(system, "parser", output.parser.function), **args), default


def _tool(system: System, tool: Tool) -> tuple[Function, dict[str, Any]]:
    """The function of a tool, and the settings that it was declared with."""
    settings = {name: resolved(value, system.base) for name, value in tool.call.args.items()}
    return find(system, "tool", tool.call.function), settings


def _over(chat: Chat, base: Chat) -> Chat:
    """The agent's chat settings over the model's."""
    own = {field.name: getattr(chat, field.name) for field in fields(Chat)}
    return replace(base, **{name: value for name, value in own.items() if value is not None})


def _expressions(system: System, nodes: Mapping[str, Node]) -> Iterator[Expression]:
    """Every expression of the graph, with all inside of it."""
    task = system.task
    for expression in (task.reward, task.success, *task.agent_rewards.values()):
        if expression is not None:
            yield from parts(expression)
    for node in nodes.values():
        for expression in (node.data.get("value"), *(condition for _, condition in node.edges)):
            if expression is not None:
                yield from parts(expression)
        for expression in node.data.get("args", {}).values():
            yield from parts(expression)
