"""The execution graph as versioned, deterministic node-link JSON, and back.

The JSON loads with plain `networkx.node_link_graph`. The same graph gives the same bytes. Paths inside it are
`{"path": …}` relative to the folder that the JSON is written for, so that a graph moves with its files.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import networkx as nx

from drmas_dsl.errors import UserError
from drmas_dsl.graph import settings as schema
from drmas_dsl.graph.execution import MORE
from drmas_dsl.graph.intact import wrong_expression, wrong_system
from drmas_dsl.graph.settings import Call, System

FORMAT = "drmasc-graph"
VERSION = 1


def to_json(graph: nx.MultiDiGraph, folder: str) -> str:
    """The graph as JSON text, its relative paths starting from `folder`."""
    system: System = graph.graph["system"]
    data = nx.node_link_data(graph, edges="edges")
    body = _plain(dataclasses.replace(system, base=""))
    del body["base"]
    data["graph"] = {"format": FORMAT, "version": VERSION, "system": body}
    data["edges"].sort(key=lambda edge: (_number(edge["source"]), edge["order"]))
    return _laid_out(_moved(data, system.base, folder), _LAID_OUT) + "\n"


def from_json(text: str, folder: str) -> nx.MultiDiGraph:
    """The graph of a JSON text whose relative paths start from `folder`.

    Raises:
        UserError: the text is no execution graph of this version.
    """
    try:
        data = json.loads(text)
        head = data["graph"]
        if head["format"] != FORMAT:
            raise KeyError("format")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError("this is not a compiled graph", "make one with `drmasc compile FILE -o graph.json`") from error
    if head.get("version") != VERSION:
        raise UserError(
            f"the graph has version {head.get('version')}, this drmasc reads {VERSION}", "compile the .mas file again"
        )
    try:
        graph = nx.node_link_graph(data, edges="edges")
        graph.graph = {"system": _system(head["system"], os.path.abspath(folder))}
        wrong = _wrong(graph)
    except (KeyError, TypeError, AttributeError, ValueError, nx.NetworkXException) as error:
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        raise UserError(f"the compiled graph is damaged ({wrong})", "compile the .mas file again")
    return graph


# What nodes of a kind carry besides `kind` and `loops`.
_CARRIES: dict[str, tuple[str, ...]] = {
    "start": (),
    "call": ("agent",),
    "tool": ("tool", "args", "bind"),
    "assign": ("bind", "value"),
    "branch": (),
    "loop": ("max",),
    "fork": ("join", "copies"),
    "join": ("fork",),
    "return": ("value",),
}


def _wrong(graph: nx.MultiDiGraph) -> str:
    """What makes the graph one that cannot be walked; empty where it can."""
    if not isinstance(graph, nx.MultiDiGraph):
        return "it is no directed multigraph"
    if problem := wrong_system(graph.graph["system"]):
        return problem
    if [kind for _, kind in graph.nodes(data="kind")].count("start") != 1:
        return "it has not one start"
    for node, data in graph.nodes(data=True):
        if problem := _wrong_node(graph, node, data):
            return f"node {node} {problem}"
    for source, target, data in graph.edges(data=True):
        if not isinstance(data.get("order"), int) or "condition" not in data:
            return f"the edge from {source} to {target} has no order or no condition"
        if data["condition"] not in (None, MORE) and (problem := wrong_expression(data["condition"])):
            return f"on the edge from {source} to {target} {problem}"
    return ""


def _wrong_node(graph: nx.MultiDiGraph, node: str, data: Mapping[str, Any]) -> str:
    system: System = graph.graph["system"]
    if data.get("kind") not in _CARRIES:
        return f"is of unknown kind {data.get('kind')!r}"
    lacking = [key for key in ("loops", *_CARRIES[data["kind"]]) if key not in data]
    if lacking:
        return f"has no {lacking[0]}"
    if "agent" in data and data["agent"] not in system.agents:
        return f"calls the agent {data['agent']!r}, which is not there"
    if "tool" in data and data["tool"] not in system.tools:
        return f"calls the tool {data['tool']!r}, which is not there"
    if any(other not in graph for other in (*data["loops"], *(data[key] for key in ("join", "fork") if key in data))):
        return "names a node that is not there"
    for key, of in (("max", int), ("copies", int | None), ("bind", str), ("args", dict)):
        if key in data and not isinstance(data[key], of):
            return f"has {data[key]!r} as its {key}"
    for expression in (*(data[key] for key in ("value",) if key in data), *data.get("args", {}).values()):
        if problem := wrong_expression(expression):
            return f"is wrong: {problem}"
    return "" if data["kind"] == "return" or graph.out_degree(node) else "leads nowhere"


_LAID_OUT = 4  # levels of nesting that get lines of their own: nodes, edges, and the system's entries by name
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def _laid_out(value: Any, levels: int, indent: str = "") -> str:
    """JSON with line breaks in its outer levels only, which reads and compares well and is written quickly."""
    if not levels or not value or not isinstance(value, (dict, list)):
        return _COMPACT.encode(value)
    inner = indent + " "
    if isinstance(value, dict):
        left, right = "{}"
        items = [f"{_COMPACT.encode(key)}: {_laid_out(item, levels - 1, inner)}" for key, item in value.items()]
    else:
        left, right = "[]"
        items = [_COMPACT.encode(item) for item in value]
    return f"{left}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{right}"


def _number(node: str) -> tuple[int, str]:
    digits = node[1:]
    return (int(digits), node) if digits.isdigit() else (1 << 60, node)


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as dicts and lists; order is that of the declaration."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _moved(value: Any, base: str, folder: str) -> Any:
    """The same value with every relative path rewritten to start from `folder`."""
    if isinstance(value, dict):
        if value.keys() == {"path"} and isinstance(value["path"], str):
            path = value["path"]
            return {"path": path if os.path.isabs(path) else os.path.relpath(os.path.join(base, path), folder)}
        return {key: _moved(item, base, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, base, folder) for item in value]
    return value


_NESTED: dict[str, type] = {
    "sampling": schema.Sampling,
    "loss": schema.Loss,
    "optimizer": schema.Optimizer,
    "chat": schema.Chat,
    "learner": schema.Learner,
    "lora": schema.Lora,
    "price": schema.Price,
    "engine": Call,
    "algorithm": Call,
    "normalize": Call,
    "parser": Call,
    "call": Call,
    "train": schema.Train,
    "eval": schema.Eval,
    "task": schema.Task,
}
_TABLES: dict[str, type] = {
    "models": schema.Model,
    "policies": schema.Policy,
    "agents": schema.Agent,
    "tools": schema.Tool,
    "pools": schema.Pool,
}


def _record(cls: type, data: Mapping[str, Any]) -> Any:
    """A dataclass from its plain form; unknown keys are an error of the version."""
    return cls(**{key: _field(cls, key, value) for key, value in data.items()})


def _field(cls: type, key: str, value: Any) -> Any:
    if cls is schema.Task:
        if key == "train":
            return None if value is None else _call(value)
        if key == "test":
            return {name: _call(call) for name, call in value.items()}
        return value
    if cls is schema.Model and key == "weights":
        return Call(**value) if isinstance(value, dict) and "function" in value else value
    if key == "outputs":
        return tuple(_record(schema.Output, item) for item in value)
    if key in _NESTED and isinstance(value, dict):
        return _record(_NESTED[key], value)
    return tuple(value) if isinstance(value, list) else value


def _call(data: Mapping[str, Any]) -> Call:
    """A call, and those among its arguments."""
    return Call(data["function"], {name: _argument(value) for name, value in data["args"].items()})


def _argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(item) for item in value]
    return _call(value) if isinstance(value, dict) and value.keys() == {"function", "args"} else value


def _system(data: Mapping[str, Any], base: str) -> System:
    fields: dict[str, Any] = {}
    for key, value in data.items():
        if key in _TABLES:
            fields[key] = {name: _record(_TABLES[key], item) for name, item in value.items()}
        elif key in _NESTED:
            fields[key] = _record(_NESTED[key], value)
        else:
            fields[key] = tuple(value) if isinstance(value, list) else value
    return System(**fields, base=base)
