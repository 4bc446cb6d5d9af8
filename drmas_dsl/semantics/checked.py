"""What the semantic stage hands to lowering: resolved settings, the flow as written, and where things stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drmas_dsl.graph.settings import Expression, System
from drmas_dsl.semantics.expressions import Scope
from drmas_dsl.semantics.functions import Signature
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@dataclass(frozen=True, slots=True)
class PromptRead:
    """A read of an output, text or variable in an agent's prompt: the expression of the graph, and its place in the
    `.mas` or `.j2` file. `guarded`: the template asks first whether it is there (`{% if Search.query %}`), so a path that
    leaves it unbound is meant."""

    expression: Expression
    span: Span
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """A system whose declarations make sense. `flow` is None where there is none (already reported). `places` gives the
    span of a declaration or setting by its path (`Solver`, `Solver.penalty`, `policy.optimizer.lr`, `train.steps`).
    `scope` is what expressions of the flow see at its start (no variables, outside of loops); `tool_calls` gives, for
    each declared tool, the signature of its calls in the flow."""

    system: System
    flow: ast.FlowDecl | None
    patterns: Mapping[str, ast.FlowDecl]
    params: Mapping[str, Any]
    prompt_reads: Mapping[str, tuple[PromptRead, ...]]
    places: Mapping[str, Span]
    scope: Scope = field(default_factory=Scope)
    tool_calls: Mapping[str, Signature] = field(default_factory=dict)
