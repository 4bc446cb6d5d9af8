"""A system as Graphviz DOT: agents in the colours of their policies, loops and parallel parts as boxes, ways back in red,
conditions on the edges, and a legend of the policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

import networkx as nx

from drmas_dsl.graph.execution import MORE, system_of
from drmas_dsl.graph.settings import Policy, System
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

_FONT = "Helvetica,Arial,sans-serif"
_MONO = "DejaVu Sans Mono,Menlo,Consolas,monospace"


@dataclass(frozen=True, slots=True)
class _Look:
    """What is drawn, and how: (fill, line) of each policy, and whether hyper-parameters are shown."""

    graph: nx.MultiDiGraph
    system: System
    palette: Mapping[str, tuple[str, str]]
    settings: bool


def draw(graph: nx.MultiDiGraph, settings: bool = False) -> str:
    """The system in DOT; with `settings`, every agent's hyper-parameters."""
    system = system_of(graph)
    lines = [
        f"digraph {_quoted(system.name)} {{",
        f'  graph [rankdir=TB, newrank=true, nodesep=0.45, ranksep=0.5, pad=0.3, fontname="{_FONT}", fontcolor="{INK}",',
        f"         labelloc=t, labeljust=l, label={_title(system)}]",
        f'  node [fontname="{_FONT}", fontsize=12, fontcolor="{INK}", color="{INK}", shape=box, margin="0.15,0.07"]',
        f'  edge [fontname="{_MONO}", fontsize=9, fontcolor="{INK}", color="{INK}", arrowsize=0.7]',
    ]
    look = _Look(graph, system, colours(graph), settings)
    lines += [f"  {line}" for part in (_nodes(look), _edges(graph), _legend(look)) for line in part]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _title(system: System) -> str:
    description = (
        f'<br align="left"/><font point-size="11">{escape(system.description)}</font>' if system.description else ""
    )
    return f'<<font point-size="16"><b>{escape(system.name)}</b></font>{description}<br align="left"/> <br/>>'


# Nodes and boxes


def _nodes(look: _Look) -> Iterator[str]:
    """The nodes in the boxes of their loops and parallel parts; returns stand outside of all."""
    returns: list[str] = []
    yield 'n0 [label="question", shape=oval, style=filled, fillcolor="#eeeeee"]'
    yield from _block(look, structure(look.graph), returns)
    for node in returns:
        yield f'{node} [label=<{_mono(node_text(look.graph.nodes[node]))}>, style="rounded,filled,bold", fillcolor="#ffffff"]'


def _block(look: _Look, block: Block, returns: list[str]) -> Iterator[str]:
    for item in block:
        match item:
            case Step(node) if look.graph.nodes[node]["kind"] == "return":
                returns.append(node)
            case Step(node):
                yield _step(look, node)
            case Choice(node, arms):
                yield f'{node} [label="", shape=diamond, width=0.28, height=0.28, style=filled, fillcolor="#ffffff"]'
                for _, body in arms:
                    yield from _block(look, body, returns)
            case Loop(node, body):
                count = look.graph.nodes[node]["max"]
                head = _sign(node, f"loop {count}", f"at most {count} times" if count > 1 else "once", AGAIN)
                yield from _box(node, LOOP_FILL, AGAIN, [head, *_block(look, body, returns)])
            case Parallel(node, join, branches):
                copies = look.graph.nodes[node]["copies"]
                note = "all at once" if copies is None else f"{copies} times at once"
                inner = [_sign(node, "parallel" if copies is None else f"parallel {copies}", note, INK)]
                for branch in branches:
                    inner += _block(look, branch, returns)
                bar = f'{join} [label="", width=0.9, height=0.05, margin=0, style=filled, fillcolor="{INK}"]'
                yield from _box(node, PARALLEL_FILL, QUIET, [*inner, bar])


def _sign(node: str, title: str, note: str, fill: str) -> str:
    """The head of a loop or of a parallel part, which names it (a box's own label would lie under the edges)."""
    label = f'<<b>{title}</b> <font point-size="9">{note}</font>>'
    look = f'style="rounded,filled", fillcolor="{fill}", color="{fill}", fontcolor="#ffffff"'
    return f'{node} [label={label}, fontsize=11, height=0.26, margin="0.12,0.03", {look}]'


def _box(node: str, fill: str, line: str, inner: list[str]) -> Iterator[str]:
    yield f"subgraph cluster_{node} {{"
    yield f'  graph [label="", style="rounded,filled", fillcolor="{fill}", color="{line}", margin=14]'
    yield from (f"  {one}" for one in inner)
    yield "}"


def _step(look: _Look, node: str) -> str:
    data = look.graph.nodes[node]
    if data["kind"] == "tool":
        what = escape(_short(call_text(look.system.tools[data["tool"]].call)))
        label = f'<{_mono(node_text(data))}<br/><font point-size="9" color="{QUIET}"><i>{what}</i></font>>'
        return f'{node} [label={label}, style=filled, fillcolor="#e6e6e6"]'
    if data["kind"] == "assign":
        return f'{node} [label=<{_mono(node_text(data))}>, style=filled, fillcolor="#ffffff", color="{QUIET}"]'
    agent = look.system.agents[data["agent"]]
    fill, line = look.palette[agent.policy]
    lines = [f"<b>{escape(agent.name)}</b>"]
    if agent.role and agent.role != agent.name:
        lines.append(_small(f"<i>{escape(_short(agent.role))}</i>"))
    lines += [f'<font point-size="10">{escape(output_text(output))}</font>' for output in agent.outputs]
    if look.settings:
        lines += [_small(escape(f"{name} = {value}")) for name, value in hyper_parameters(agent, look.system)]
    style = "rounded,filled,dashed" if agent.frozen else "rounded,filled"
    return f'{node} [label=<{"<br/>".join(lines)}>, style="{style}", fillcolor="{fill}", color="{line}", penwidth=1.6]'


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _mono(text: str) -> str:
    return f'<font face="{_MONO}" point-size="10">{escape(text)}</font>'


def _small(markup: str) -> str:
    return f'<font point-size="9" color="{QUIET}">{markup}</font>'


# Edges


def _edges(graph: nx.MultiDiGraph) -> Iterator[str]:
    """The edges that some trajectory takes; so none from the end of a loop that is always left before."""
    edges = edges_of(graph)
    taken = taken_edges(graph)
    for node, data in graph.nodes(data=True):
        for edge in edges[node]:
            if (node, edge.order) not in taken:
                continue
            text = ""
            if data["kind"] == "branch":
                text = "else" if edge.condition is None else text_of(edge.condition)
            elif data["kind"] == "loop" and edge.condition != MORE:
                text = f"after {data['max']}"
            again = edge.target in data["loops"]
            options = [f'color="{AGAIN}", fontcolor="{AGAIN}", penwidth=1.4, style=dashed'] if again else []
            if text or again:
                options.append(f"label={_on_edge(text or 'again')}")
            yield f"{node} -> {edge.target}" + (f" [{', '.join(options)}]" if options else "")


def _on_edge(text: str) -> str:
    """A label on a ground of its own, so that no line crosses it out."""
    cell = f'<td bgcolor="#ffffff">{escape(text)}</td>'
    return f'<<table border="0" cellborder="0" cellspacing="2" cellpadding="1"><tr>{cell}</tr></table>>'


# Legend


def _legend(look: _Look) -> Iterator[str]:
    """What the returned value earns, and who the colours are."""
    returns = [node for node, kind in look.graph.nodes(data="kind") if kind == "return"]
    texts = rewards(look.system)
    if texts and returns:
        label = "<br/>".join(_mono(text) for text in texts)
        yield f'reward [label=<{label}>, shape=note, style=filled, fillcolor="#fffbe0", color="{QUIET}"]'
        yield from (f'{node} -> reward [style=dotted, color="{QUIET}"]' for node in returns)
    rows = [_legend_row(look, policy) for policy in policies_of(look.graph, look.system)]
    if rows:
        table = f'<table border="0" cellborder="0" cellspacing="4" cellpadding="3">{"".join(rows)}</table>'
        yield f"legend [shape=plain, fontsize=10, label=<{table}>]"
        yield f"{'reward' if texts and returns else 'n0'} -> legend [style=invis]"


def _legend_row(look: _Look, policy: Policy) -> str:
    fill, line = look.palette[policy.name]
    names = ", ".join(agent.name for agent in agents_of(look.graph, look.system) if agent.policy == policy.name)
    what = f"{policy_text(policy, look.system)}, on {_short(call_text(look.system.models[policy.model].engine))}"
    return (
        f'<tr><td bgcolor="{fill}" color="{line}" border="1" width="18"></td><td align="left"><b>{escape(names)}</b></td>'
        f'<td align="left">{escape(what)}</td></tr>'
    )
