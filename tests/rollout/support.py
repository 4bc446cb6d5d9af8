"""Graphs made by hand, and an engine that says given texts through a real tokenizer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import networkx as nx

from drmas_dsl.graph.execution import MORE
from drmas_dsl.graph.settings import Agent, Call, Eval, Expression, Model, Output, Sampling, System, Task, Tool, Train
from runtime.engines.protocol import Completion, Request
from runtime.models import load_tokenizer
from runtime.team import Team

TINY = Model(name="m", weights=Call("tiny", {"hidden": 16, "layers": 1, "heads": 2, "seed": 0}), engine=Call("hf"))
TOKENIZER = load_tokenizer(TINY, "")
END = TOKENIZER.eos_token_id


Nodes = Mapping[str, Mapping[str, Any]]


def const(value: Any) -> Expression:
    return {"kind": "const", "value": value}


def output(agent: str, name: str) -> Expression:
    return {"kind": "output", "agent": agent, "name": name}


def op(name: str, *args: Expression) -> Expression:
    return {"kind": "op", "op": name, "args": list(args)}


def call(function: str, **args: Expression) -> Expression:
    return {"kind": "call", "function": function, "args": args}


def agent(name: str, prompt: str = "{{ task.question }}", model: str = "m", **settings: Any) -> Agent:
    """An agent with the output `answer`, the text of its tag `<a>`."""
    given = {
        "outputs": (Output("answer", Call("tag", {"name": "a", "after": None}), "string"),),
        "sampling": Sampling(max_tokens=64),
        **settings,
    }
    return Agent(name=name, model=model, policy=name, prompt=prompt, role=f"the {name}", **given)


def system(agents: Sequence[Agent], reward: Expression | None = None, **settings: Any) -> System:
    given: dict[str, Any] = {
        "models": {"m": TINY},
        "tools": {"find": Tool("find", Call("lookup"))},
        "task": Task(
            reward=reward or call("exact_match", answer={"kind": "result"}, gold={"kind": "task", "name": "answer"})
        ),
        "eval": Eval(),
        **settings,
    }
    return System(
        name="test",
        description="",
        params={},
        policies={},
        agents={agent.name: agent for agent in agents},
        train=Train(),
        pools={},
        **given,
    )


def graph(system: System, nodes: Nodes, edges: Sequence[tuple[Any, ...]]) -> nx.MultiDiGraph:
    """Nodes by name (`loops` empty unless given); edges (source, target[, condition]) in order."""
    made = nx.MultiDiGraph()
    made.graph["system"] = system
    for name, data in nodes.items():
        made.add_node(name, **{"loops": [], **data})
    order = itertools.count()
    for source, target, *condition in edges:
        made.add_edge(source, target, order=next(order), condition=condition[0] if condition else None)
    return made


def chain(system: System, *names: str) -> nx.MultiDiGraph:
    """The agents in turn; returns the last one's answer."""
    nodes: dict[str, Mapping[str, Any]] = {"n0": {"kind": "start"}}
    for place, name in enumerate(names, 1):
        nodes[f"n{place}"] = {"kind": "call", "agent": name}
    last = f"n{len(names) + 1}"
    nodes[last] = {"kind": "return", "value": output(names[-1], "answer")}
    return graph(system, nodes, list(itertools.pairwise(nodes)))


def looped(system: System, rounds: int, *names: str) -> nx.MultiDiGraph:
    """The agents in turn, `rounds` times over."""
    nodes: dict[str, Mapping[str, Any]] = {"n0": {"kind": "start"}, "n1": {"kind": "loop", "max": rounds}}
    for place, name in enumerate(names, 2):
        nodes[f"n{place}"] = {"kind": "call", "agent": name, "loops": ["n1"]}
    last = f"n{len(names) + 1}"
    nodes["end"] = {"kind": "return", "value": output(names[-1], "answer")}
    body = [f"n{place}" for place in range(2, len(names) + 2)]
    edges = [("n0", "n1"), ("n1", "n2", MORE), ("n1", "end"), *itertools.pairwise(body), (last, "n1")]
    return graph(system, nodes, edges)


class Scripted:
    """Says what `script` answers to a request and its prompt's text; keeps the batches that it got."""

    def __init__(self, script: Callable[[Request, str], str], seconds: float = 0.0) -> None:
        self.script = script
        self.seconds = seconds
        self.batches: list[list[Request]] = []

    async def generate(self, requests: list[Request]) -> list[Completion]:
        self.batches.append(list(requests))
        await asyncio.sleep(self.seconds)
        return [self._complete(request) for request in requests]

    def _complete(self, request: Request) -> Completion:
        said = TOKENIZER(self.script(request, TOKENIZER.decode(request.prompt_ids))).input_ids
        cut = len(said) >= request.sampling.max_tokens
        ids = said[: request.sampling.max_tokens] if cut else [*said, END]
        return Completion(tuple(ids), (-0.5,) * len(ids), "length" if cut else "stop", 3)


def team(graph: nx.MultiDiGraph, engine: Any) -> Team:
    """Where all models are served by one engine of a test, and nothing is trained."""
    system = graph.graph["system"]
    crew: Any = SimpleNamespace(engines=dict.fromkeys(system.models, engine), learners={}, lost=lambda: [])
    return Team(system, crew, dict.fromkeys(system.models, TOKENIZER))
