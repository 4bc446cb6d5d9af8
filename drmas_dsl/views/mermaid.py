"""A system as a Mermaid flowchart, for READMEs: the same picture as `dot`, as far as Mermaid can draw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import networkx as nx

from drmas_dsl.graph.execution import MORE, system_of
from drmas_dsl.graph.settings import System
from drmas_dsl.graph.walks import edges_of, taken_edges
from drmas_dsl.graph.wording import call_text, node_text, text_of
from drmas_dsl.views.captions import (
    agents_of,
    hyper_parameters,
    output_text,
    policies_of,
    policy_text,
    rewards,
)
from drmas_dsl.views.colours import AGAIN, INK, LOOP_FILL, PARALLEL_FILL, QUIET, colours
from drmas_dsl.views.structure import Block, Choice, Loop, Parallel, Step, structure


def draw(graph: nx.MultiDiGraph, settings: bool = False) -> str:
    """The system as a Mermaid flowchart; with `settings`, every agent's hyper-parameters."""
    system = system_of(graph)
    names = {policy.name: f"policy{number}" for number, policy in enumerate(policies_of(graph, system))}
    lines = ["flowchart TD"]
    returns: list[str] = []
    lines.append('  n0(["question"])')
    lines += [f"  {line}" for line in _block(graph, system, names, structure(graph), settings, returns)]
    lines += [f"  {node}([{_label(node_text(graph.nodes[node]))}]):::ends" for node in returns]
    lines += [f"  {line}" for line in _edges(graph)]
    if texts := rewards(system):
        lines.append(f"  reward>{_label(*texts)}]:::reward")
        lines += [f"  {node} -.-> reward" for node in returns]
    lines += [f"  {line}" for line in _legend(graph, system, names)]
    return "\n".join(lines) + "\n"


def _label(*lines: str) -> str:
    """A quoted label; Mermaid takes entities for what would end it."""
    entities = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}
    safe = ("".join(entities.get(character, character) for character in line.replace("#", "#35;")) for line in lines)
    return '"' + "<br/>".join(safe) + '"'


def _block(
    graph: nx.MultiDiGraph,
    system: System,
    names: Mapping[str, str],
    block: Block,
    settings: bool,
    returns: list[str],
) -> Iterator[str]:
    for item in block:
        match item:
            case Step(node) if graph.nodes[node]["kind"] == "return":
                returns.append(node)
            case Step(node):
                yield _step(graph, system, names, node, settings)
            case Choice(node, arms):
                yield f'{node}{{" "}}'
                for _, body in arms:
                    yield from _block(graph, system, names, body, settings, returns)
            case Loop(node, body):
                count = graph.nodes[node]["max"]
                yield f'subgraph loop_{node} [" "]'
                yield f"  {node}({_label(f'loop {count}: at most {count} times')}):::loop"
                yield from (f"  {line}" for line in _block(graph, system, names, body, settings, returns))
                yield "end"
                yield f"style loop_{node} fill:{LOOP_FILL},stroke:{AGAIN}"
            case Parallel(node, join, branches):
                copies = graph.nodes[node]["copies"]
                title = "parallel: all at once" if copies is None else f"parallel {copies}: {copies} times at once"
                yield f'subgraph parallel_{node} [" "]'
                yield f"  {node}({_label(title)}):::fork"
                for branch in branches:
                    yield from (f"  {line}" for line in _block(graph, system, names, branch, settings, returns))
                yield f'  {join}("all done"):::fork'
                yield "end"
                yield f"style parallel_{node} fill:{PARALLEL_FILL},stroke:{QUIET}"


def _step(graph: nx.MultiDiGraph, system: System, names: Mapping[str, str], node: str, settings: bool) -> str:
    data = graph.nodes[node]
    if data["kind"] == "tool":
        return f"{node}[[{_label(node_text(data), call_text(system.tools[data['tool']].call))}]]:::tool"
    if data["kind"] == "assign":
        return f"{node}[{_label(node_text(data))}]:::assign"
    agent = system.agents[data["agent"]]
    lines = [agent.name, *(output_text(output) for output in agent.outputs)]
    lines += [f"{name} = {value}" for name, value in hyper_parameters(agent, system)] if settings else []
    frozen = "Frozen" if agent.frozen else ""
    return f"{node}({_label(*lines)}):::{names[agent.policy]}{frozen}"


def _edges(graph: nx.MultiDiGraph) -> Iterator[str]:
    """The edges that some trajectory takes; those back to a loop's head dotted."""
    edges = edges_of(graph)
    taken = taken_edges(graph)
    for node, data in graph.nodes(data=True):
        for edge in edges[node]:
            if (node, edge.order) not in taken:
                continue
            again = edge.target in data["loops"]
            text = ""
            if data["kind"] == "branch":
                text = "else" if edge.condition is None else text_of(edge.condition)
            elif data["kind"] == "loop" and edge.condition != MORE:
                text = f"after {data['max']}"
            elif again:
                text = "again"
            yield f"{node} {'-.->' if again else '-->'}{f'|{_label(text)}| ' if text else ' '}{edge.target}"


def _legend(graph: nx.MultiDiGraph, system: System, names: Mapping[str, str]) -> Iterator[str]:
    """The colours, and who they are."""
    palette = colours(graph)
    yield 'subgraph legend ["policies"]'
    for policy in policies_of(graph, system):
        yield f"  of_{names[policy.name]}({_label(policy.name, policy_text(policy, system))}):::{names[policy.name]}"
    yield "end"
    yield f"style legend fill:none,stroke:{QUIET}"
    for agent in agents_of(graph, system):
        if agent.frozen:
            fill, line = palette[agent.policy]
            yield f"classDef {names[agent.policy]}Frozen fill:{fill},stroke:{line},color:{INK},stroke-dasharray:4"
    for key, name in names.items():
        fill, line = palette[key]
        yield f"classDef {name} fill:{fill},stroke:{line},color:{INK}"
    yield f"classDef loop fill:{AGAIN},stroke:{AGAIN},color:#ffffff"
    yield f"classDef fork fill:{INK},stroke:{INK},color:#ffffff"
    yield f"classDef tool fill:#e6e6e6,stroke:{INK},color:{INK}"
    yield f"classDef assign fill:#ffffff,stroke:{QUIET},color:{INK}"
    yield f"classDef ends fill:#ffffff,stroke:{INK},stroke-width:2px,color:{INK}"
    yield f"classDef reward fill:#fffbe0,stroke:{QUIET},color:{INK}"
