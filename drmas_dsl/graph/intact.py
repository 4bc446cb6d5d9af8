"""Whether a system that was read from JSON is one that the compiler could have written: types, ranges and references.

A compiled graph may have been edited by hand, and what runs it relies on the schema. The types are those of the
schema's own annotations, the ranges those of its facts. What functions do with their arguments is not known here.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from drmas_dsl.graph.settings import Call, Expression, Facts, Model, System

# The keys of an expression besides `kind`, by kind; see `drmas_dsl.graph.expressions`.
_EXPRESSIONS: dict[str, dict[str, type]] = {
    "const": {"value": object},
    "output": {"agent": str, "name": str},
    "text": {"agent": str},
    "variable": {"name": str},
    "task": {"name": str},
    "loop": {"name": str},
    "result": {},
    "calls": {"agent": str},
    "op": {"op": str, "args": list},
    "list": {"items": list},
    "call": {"function": str, "args": dict},
}


def wrong_system(system: System) -> str:
    """The first thing that is wrong with the system, in words; empty where nothing is."""
    return next(_problems(system), "")


def wrong_expression(expression: Any) -> str:
    """The first thing that is wrong with an expression; empty where nothing is."""
    kind = expression.get("kind") if isinstance(expression, dict) else None
    if not isinstance(kind, str) or kind not in _EXPRESSIONS:
        return f"{_brief(expression)} is no expression"
    for key, type in _EXPRESSIONS[kind].items():
        if key not in expression or not isinstance(expression[key], type):
            return f"{_brief(expression)} lacks its {key!r}"
    args = expression.get("args", expression.get("items", ()))
    return next(filter(None, map(wrong_expression, args.values() if isinstance(args, dict) else args)), "")


def _problems(system: System) -> Iterator[str]:
    yield from _misfits(system, System, "")
    yield from _unknown_names(system)
    for model in system.models.values():
        if not _is_weights(model):
            yield f"models.{model.name}.weights is {_brief(model.weights)}"
    task = system.task
    expressions: list[Expression | None] = [task.reward, task.success, *task.agent_rewards.values()]
    yield from filter(None, (wrong_expression(one) for one in expressions if one is not None))
    if task.reward is None:
        yield "task.reward is not there"


def _is_weights(model: Model) -> bool:
    weights = model.weights
    if isinstance(weights, dict):
        return isinstance(weights.get("path"), str)
    return isinstance(weights, str | Call) or (weights is None and model.engine.function == "openai")


def _unknown_names(system: System) -> Iterator[str]:
    tables: tuple[Mapping[str, Any], ...] = (
        system.models,
        system.policies,
        system.agents,
        system.tools,
        system.pools,
    )
    for table in tables:
        yield from (f"{name!r} is called {one.name!r} in itself" for name, one in table.items() if one.name != name)
    named: list[tuple[str, str, Mapping[str, Any]]] = [
        *((f"agents.{agent.name}.model", agent.model, system.models) for agent in system.agents.values()),
        *((f"agents.{agent.name}.policy", agent.policy, system.policies) for agent in system.agents.values()),
        *((f"policies.{policy.name}.model", policy.model, system.models) for policy in system.policies.values()),
        *((f"policies.{p.name}.agents", name, system.agents) for p in system.policies.values() for name in p.agents),
        *((f"pools.{pool.name}.models", name, system.models) for pool in system.pools.values() for name in pool.models),
        *(("task.agent_rewards", name, system.agents) for name in system.task.agent_rewards),
    ]
    for place, name, known in named:
        if name not in known:
            yield f"{place} names {name!r}, which is not there"


def _misfits(value: Any, hint: Any, place: str) -> Iterator[str]:
    """Where a value is not of its annotated type, outermost first."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if value is not None or type(None) not in arguments:
            (other,) = (argument for argument in arguments if argument is not type(None))
            yield from _misfits(value, other, place)
    elif origin is tuple:
        items = [arguments[0]] * len(value) if isinstance(value, tuple) and ... in arguments else arguments
        if not isinstance(value, tuple) or len(value) != len(items):
            yield f"{place} is {_brief(value)}"
        else:
            for number, (item, own) in enumerate(zip(value, items, strict=True)):
                yield from _misfits(item, own, f"{place}[{number}]")
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            yield f"{place} is {_brief(value)}"
        else:
            for key, item in value.items():
                yield from _misfits(item, arguments[1], f"{place}.{key}" if place else key)
    elif not _is_of(value, hint):
        yield f"{place} is {_brief(value)}"
    elif dataclasses.is_dataclass(hint):
        for name, own, facts in _fields(hint):
            inner = f"{place}.{name}" if place else name
            yield from _misfits(getattr(value, name), own, inner)
            yield from _out_of_range(getattr(value, name), facts, inner)


def _is_of(value: Any, hint: type) -> bool:
    if hint in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if hint is float else hint)


def _out_of_range(value: Any, facts: Facts | None, place: str) -> Iterator[str]:
    if facts is None or value is None:
        return
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, (int, float)):
            low = facts.low is None or (one > facts.low if facts.above else one >= facts.low)
            if not low or not (facts.high is None or one <= facts.high):
                yield f"{place} is {one!r}, which is out of its range"
        if facts.choices and one not in facts.choices:
            yield f"{place} is {one!r}, which is none of {', '.join(facts.choices)}"


def _fields(cls: Any) -> list[tuple[str, Any, Facts | None]]:
    """Name, annotation and facts of a schema's fields."""
    hints = _hints(cls)
    return [(field.name, hints[field.name], field.metadata.get("facts")) for field in dataclasses.fields(cls)]


_hints = lru_cache(typing.get_type_hints)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
