"""Declarations that nothing uses and agents, tools and patterns that the flow never calls.

Only those of the main file: a file that others `use` may well hold more than one system needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.conditions import name_read
from drmas_dsl.graph.expressions import parts
from drmas_dsl.graph.lowering import Lowered
from drmas_dsl.graph.patterns import expressions, inside, statements
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


def check_unused(checked: Checked, lowered: Lowered, files: Sequence[ast.File], report: Report) -> None:
    """Report unused declarations of the first file, and variables of the flow that nothing reads."""
    mentioned: set[str] = set()
    bases: set[str] = set()
    for file in files:
        for declaration in file.declarations:
            own = declaration.name.name if isinstance(declaration, ast.ParamDecl) else ""
            mentioned |= set(_mentions(declaration)) - {own}
            if isinstance(declaration, ast.EntityDecl) and declaration.base is not None:
                bases.add(declaration.base.name)
    nodes = [data for _, data in lowered.graph.nodes(data=True)]
    called = {data.get("agent") or data.get("tool") for data in nodes} | lowered.called_patterns
    models = {agent.model for agent in checked.system.agents.values()}
    if not models <= checked.system.models.keys():  # an agent's model is wrong or missing, so that one may be meant
        models |= checked.system.models.keys()
    for declaration in files[0].declarations if files else ():
        match declaration:
            case ast.ParamDecl(name=name) if name.name not in mentioned:
                report.add("W0201", f"nothing reads the param `{name.name}`", name.span)
            case ast.EntityDecl(kind="agent", name=name) if name.name not in called:
                help = Help("write `role` in place of `agent`") if name.name in bases else None
                report.add("W0201", f"the flow never calls the agent `{name.name}`", name.span, help=help)
            case ast.EntityDecl(kind="model", name=name) if name.name not in models | bases:
                report.add("W0201", f"no agent runs on the model `{name.name}`", name.span)
            case ast.EntityDecl(kind="role", name=name) if name.name not in bases:
                report.add("W0201", f"no agent inherits from the role `{name.name}`", name.span)
            case ast.ToolDecl(name=name) if name.name not in called:
                report.add("W0201", f"the flow never calls the tool `{name.name}`", name.span)
            case ast.FlowDecl(name=ast.Ident() as name) if name.name not in called:
                report.add("W0201", f"the flow never calls the pattern `{name.name}`", name.span)
    _variables(checked, lowered, report)


def _variables(checked: Checked, lowered: Lowered, report: Report) -> None:
    """Variables that are bound and never read; what a tool gives is read by every prompt that shows the history."""
    graph = lowered.graph
    read = {name_read(read.expression) for reads in checked.prompt_reads.values() for read in reads}
    for _, data in graph.nodes(data=True):
        for value in (data.get("value"), *data.get("args", {}).values()):
            read |= {name_read(part) for part in parts(value)} if value is not None else set()
    for _, _, data in graph.edges(data=True):
        if data["condition"] is not None:
            read |= {name_read(part) for part in parts(data["condition"])}
    history = any(
        "history" in checked.system.agents[data["agent"]].prompt
        for _, data in graph.nodes(data=True)
        if data["kind"] == "call"
    )
    seen: set[Span] = set()
    for node, data in graph.nodes(data=True):
        name = data.get("bind")
        if name is None or name in read or (data["kind"] == "tool" and history):
            continue
        read.add(name)
        place, shown = lowered.places[node], name.rpartition(".")[2]
        span = Span(place.file, place.start, place.start + len(shown))
        if span not in seen and not _held_argument(name, lowered):
            seen.add(span)
            report.add("W0201", f"nothing reads the variable `{shown}`", span)


def _held_argument(name: str, lowered: Lowered) -> bool:
    """Whether the variable is the argument of a pattern's call, kept for the pattern."""
    return "." in name and name.rpartition(".")[2] in lowered.parameters.get(name.partition(".")[0], ())


def _mentions(declaration: ast.Declaration) -> Iterator[str]:
    """The names that a declaration reads, calls or inherits from."""
    match declaration:
        case ast.ParamDecl(default=default, low=low, high=high):
            for expr in (default, low, high):
                yield from _names(expr) if expr is not None else ()
        case ast.EntityDecl(items=items) | ast.SectionDecl(items=items):
            yield from _in_items(items)
        case ast.ToolDecl(value=value):
            yield from _names(value)
        case ast.FlowDecl(body=body):
            for statement in statements(body):
                for expr in expressions(statement):
                    yield from _names(expr)


def _in_items(items: tuple[ast.Item, ...]) -> Iterator[str]:
    for item in items:
        match item:
            case ast.Setting(value=value):
                yield from _names(value)
            case ast.OutputDef(parser=parser):
                yield from _names(parser)
            case ast.Block(items=inner):
                yield from _in_items(inner)


def _names(expr: ast.Expr) -> Iterator[str]:
    for part in inside(expr):
        if isinstance(part, ast.Name):
            yield part.name
