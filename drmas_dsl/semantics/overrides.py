"""`--set PATH=VALUE`: parsed as settings of the language and laid over what is written, before anything is checked.

All overrides together form one source named `--set`, a line each, so that findings in them have a place. A value that is
no expression is taken as a string where a string fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.graph import settings as schema
from drmas_dsl.graph.settings import BLOCKS
from drmas_dsl.semantics.context import OVERRIDE, Context
from drmas_dsl.semantics.declarations import Program
from drmas_dsl.semantics.nodes import Node
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.semantics.values import facts_of
from drmas_dsl.semantics.walk import names_in
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Source, Span

SECTIONS: dict[str, type] = {"task": schema.Task, "train": schema.Train, "eval": schema.Eval}
_PATH = re.compile(r"\s*([^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*")


@dataclass(frozen=True, slots=True)
class Override:
    """One override: the segments of its path, each at its place, and the value's text from `start` to `end`."""

    path: tuple[ast.Ident, ...]
    start: int
    end: int


@dataclass(slots=True)
class Targets:
    """What overrides may address: the bodies of entities and sections, and the params and tools by name."""

    program: Program
    entities: dict[str, Node]
    sections: dict[str, Node]
    params: dict[str, ast.Expr] = field(default_factory=dict)
    tools: dict[str, ast.Expr] = field(default_factory=dict)


def apply_overrides(overrides: Sequence[str], targets: Targets, context: Context) -> None:
    """Lay every override over its target; what does not fit is reported at its place in `--set`."""
    if not overrides:
        return
    source = Source(OVERRIDE, "\n".join(overrides))
    context.sources[OVERRIDE] = source
    position = 0
    found = []
    for text in overrides:
        override = parse_override(text, position, context)
        position += len(text) + 1
        if override is not None:
            found.append(override)
    # Wildcards first: an override of one model counts whatever stands before or after it.
    for override in sorted(found, key=lambda one: one.path[0].name != "model"):
        _apply(override, targets, source, context)


def parse_override(text: str, position: int, context: Context) -> Override | None:
    """Path and value of one override that begins at `position` of the source."""
    match = _PATH.match(text)
    if match is None or text[match.end() : match.end() + 1] != "=" or text[match.end() : match.end() + 2] == "==":
        span = Span(OVERRIDE, position, position + len(text))
        context.report.add("E0209", f"`{text}` is no override", span, help=Help("write `--set PATH=VALUE`"))
        return None
    path = []
    start = position + match.start(1)
    for name in match.group(1).split("."):
        path.append(ast.Ident(name, Span(OVERRIDE, start, start + len(name))))
        start += len(name) + 1
    return Override(tuple(path), position + match.end() + 1, position + len(text))


def _apply(override: Override, targets: Targets, source: Source, context: Context) -> None:
    first, program = override.path[0], targets.program
    if len(override.path) == 1 and first.name in program.params:
        is_string = program.params[first.name].type.name == "string"
        _put(targets.params, first.name, _value(override, source, is_string, program, context))
    elif len(override.path) == 1 and first.name in program.tools:
        _put(targets.tools, first.name, _value(override, source, False, program, context))
    elif first.name in targets.entities:
        kind = program.entities[first.name].kind
        _set(override, BLOCKS[kind], f"{kind} `{first.name}`", [targets.entities[first.name]], targets, source, context)
    elif first.name == "model":
        local = [targets.entities[name] for name in program.of_kind("model") if not _remote(name, targets)]
        if not local:
            context.report.add("E0209", "there is no model that is not remote", first.span)
            return
        _set(override, schema.Model, "a model", local, targets, source, context)
    elif first.name == "resources":
        _pool(override, targets, source, context)
    elif first.name in SECTIONS:
        node = targets.sections.setdefault(first.name, Node(first.span))
        _set(override, SECTIONS[first.name], f"`{first.name}`", [node], targets, source, context)
    else:
        known = [*program.params, *targets.entities, *program.tools, *SECTIONS, "resources", "model"]
        message = f"there is nothing called `{first.name}` to override"
        unknown(context.report, "E0209", message, first.name, first.span, known)


def _put(values: dict[str, ast.Expr], name: str, value: ast.Expr | None) -> None:
    if value is not None:
        values[name] = value


def _remote(name: str, targets: Targets) -> bool:
    """Whether the model's engine, its own or inherited, is `openai`."""
    seen: set[str] = set()
    while name in targets.entities and name not in seen:
        seen.add(name)
        engine = targets.entities[name].settings.get("engine")
        if engine is not None:
            return names_in(engine.value) >= {"openai"}
        base = targets.program.entities[name].base
        name = base.name if base else ""
    return False


def _set(
    override: Override,
    cls: type,
    what: str,
    nodes: list[Node],
    targets: Targets,
    source: Source,
    context: Context,
) -> None:
    """Put the override into every one of the nodes, at the path behind the first segment."""
    report = context.report
    rest = override.path[1:]
    if not rest:
        first = override.path[0]
        known = [f"{first.name}.{name}" for name in facts_of(cls)]
        help = Help(f"name a setting of it, such as `{known[0]}`")
        report.add("E0209", f"{what} is no setting", first.span, help=help)
        return
    for index, segment in enumerate(rest):
        facts = facts_of(cls).get(segment.name)
        last = index == len(rest) - 1
        if facts is None:
            unknown(
                report, "E0209", f"{what} has no setting `{segment.name}`", segment.name, segment.span, facts_of(cls)
            )
            return
        if facts.type == "datasets" and not last:
            _dataset(override, rest[index + 1 :], nodes, targets, source, context)
            return
        if facts.type != "block":
            if not last:
                behind = rest[index + 1]
                report.add("E0209", f"`{segment.name}` has no settings of its own", behind.span)
                return
            fits_string = facts.type.removesuffix("?") in ("string", "text", "call:weights", "enum")
            value = _value(override, source, fits_string, targets.program, context)
            for node in nodes if value is not None else ():
                _insert(node, [part.name for part in rest[:-1]], segment, value)
            return
        if last:
            inner = facts_of(BLOCKS[segment.name])
            help = Help(f"name a setting of it, such as `{segment.name}.{next(iter(inner))}`")
            report.add("E0209", f"`{segment.name}` is a block", segment.span, help=help)
            return
        cls, what = BLOCKS[segment.name], f"`{segment.name}`"


def _insert(node: Node, blocks: Sequence[str], name: ast.Ident, value: ast.Expr | None) -> None:
    assert value is not None
    for block in blocks:
        node = node.blocks.setdefault(block, Node(name.span))
    node.blocks.pop(name.name, None)
    node.settings[name.name] = ast.Setting(name, None, value, name.span.to(value.span))


def _dataset(
    override: Override,
    rest: tuple[ast.Ident, ...],
    nodes: list[Node],
    targets: Targets,
    source: Source,
    context: Context,
) -> None:
    """`task.test.NAME=dataset(…)`: one of the named datasets."""
    if len(rest) > 1:
        context.report.add("E0209", f"`{rest[0].name}` has no settings of its own", rest[1].span)
        return
    value = _value(override, source, False, targets.program, context)
    for node in nodes if value is not None else ():
        node.settings.pop("test", None)
        _insert(node, ["test"], rest[0], value)


def _pool(override: Override, targets: Targets, source: Source, context: Context) -> None:
    pools = targets.sections["resources"].pools if "resources" in targets.sections else {}
    if len(override.path) < 3:
        help = Help("write `resources.POOL.SETTING=VALUE`")
        context.report.add("E0209", "this is no setting of a pool", override.path[-1].span, help=help)
        return
    name = override.path[1]
    if name.name not in pools:
        unknown(context.report, "E0209", f"there is no pool `{name.name}`", name.name, name.span, pools)
        return
    inner = Override(override.path[1:], override.start, override.end)
    _set(inner, schema.Pool, f"pool `{name.name}`", [pools[name.name]], targets, source, context)


def _value(
    override: Override, source: Source, fits_string: bool, program: Program, context: Context
) -> ast.Expr | None:
    """The override's value as an expression at its place; None where it is none (reported)."""
    from drmas_dsl.syntax.parser import parse_expression

    raw = source.text[override.start : override.end]
    # Spaces in front keep the places right.
    expr, findings = parse_expression(Source(OVERRIDE, " " * override.start + raw))
    if fits_string and (expr is None or findings or not _meaningful(expr, program.params)):
        text = raw.strip()
        start = override.start + len(raw) - len(raw.lstrip())
        offsets = tuple(range(start, start + len(text) + 1))
        return ast.Text(text, False, offsets, Span(OVERRIDE, start, start + len(text)))
    context.report.diagnostics.extend(findings)
    return expr


def _meaningful(expr: ast.Expr, params: Mapping[str, ast.ParamDecl]) -> bool:
    """Whether an expression that stands where a string fits is meant as one: bare names are, unless they are params."""
    if isinstance(expr, (ast.Literal, ast.Text, ast.Call, ast.ListExpr)):
        return True
    return all(name in params for name in names_in(expr))
