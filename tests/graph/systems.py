"""Checked systems for tests of the graph, made from a flow alone: agents A to F with outputs of every type, a tool, params."""

from __future__ import annotations

import networkx as nx

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph import settings as schema
from drmas_dsl.graph.expressions import const
from drmas_dsl.graph.lowering import Lowered, lower
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.checked import Checked, PromptRead
from drmas_dsl.semantics.expressions import Scope
from drmas_dsl.semantics.functions import FUNCTIONS, TOOL_CALLS, Signature
from drmas_dsl.semantics.types import FLOAT, STRING, Type
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source

AGENTS = ("A", "B", "C", "D", "E", "F")
PARAMS = {"rounds": 2}


def system(folder: str = "/base") -> schema.System:
    """Six agents on one model that each has for itself, and the tool `find`."""
    verdict = Call("choice", {"options": ["yes", "no"], "tag": None, "default": None, "after": None})
    outputs = (
        schema.Output("answer", Call("text", {"after": None}), "string"),
        schema.Output("verdict", verdict, "string", ("yes", "no")),
        schema.Output("score", Call("number", {"after": None}), "float"),
    )
    return schema.System(
        name="small",
        description="",
        params=PARAMS,
        models={"policy": schema.Model("policy", weights="hub/model", sharing="none", context=4096)},
        policies={
            name: schema.Policy(name, "policy", (name,), False, schema.Optimizer(), "token_mean", 16384, None)
            for name in AGENTS
        },
        agents={
            name: schema.Agent(name, f"agent {name}", "policy", name, "Say something.", outputs) for name in AGENTS
        },
        tools={"find": schema.Tool("find", Call("lookup"))},
        task=schema.Task(reward=const(1.0)),
        train=schema.Train(),
        eval=schema.Eval(),
        pools={},
        base=folder,
    )


def checked(text: str, reads: dict[str, tuple[PromptRead, ...]] | None = None) -> Checked:
    """The checked system whose flow and patterns are those of `text`."""
    file, diagnostics = parse(Source("test.mas", text))
    assert not diagnostics, diagnostics
    flows = [declaration for declaration in file.declarations if isinstance(declaration, ast.FlowDecl)]
    outputs = {"answer": STRING, "verdict": Type("string", choices=("yes", "no")), "score": FLOAT}
    patterns = {flow.name.name: flow for flow in flows if flow.name is not None}
    others = {"find": "a tool", "policy": "a model"} | dict.fromkeys(patterns, "a pattern")
    call = FUNCTIONS["tool", "lookup"]
    return Checked(
        system(),
        next((flow for flow in flows if flow.name is None), None),
        patterns,
        PARAMS,
        reads or {},
        {},
        Scope(agents=dict.fromkeys(AGENTS, outputs), params=PARAMS, others=others),
        {"find": Signature("find", "tool", TOOL_CALLS["lookup"], call.returns, call.doc)},
    )


def lowered(text: str, reads: dict[str, tuple[PromptRead, ...]] | None = None) -> tuple[Lowered, list[Diagnostic]]:
    """The flow lowered, with all findings."""
    report = Report()
    found = lower(checked(text, reads), report)
    assert found is not None
    return found, report.diagnostics


def edges(lowered: Lowered) -> list[str]:
    """The edges in words: `n1 -> n2`, with `if` where they have a condition, in order."""
    found = []
    for source, target, data in sorted(
        lowered.graph.edges(data=True), key=lambda edge: (int(edge[0][1:]), edge[2]["order"])
    ):
        condition = data["condition"]
        word = "" if condition is None else " more" if condition == {"kind": "more"} else " if"
        found.append(f"{source} -> {target}{word}")
    return found


def graphs_equal(one: nx.MultiDiGraph, two: nx.MultiDiGraph) -> bool:
    """Whether two graphs have the same system, nodes and edges, in the same order."""
    systems = one.graph["system"] == two.graph["system"]
    nodes = list(one.nodes(data=True)) == list(two.nodes(data=True))
    return systems and nodes and sorted(map(repr, one.edges(data=True))) == sorted(map(repr, two.edges(data=True)))
