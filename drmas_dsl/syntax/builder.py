"""Builds the tree: one method for every rule of the grammar (or named alternative), called when the parser reduces it.

A method gets the rule's children (tokens, nodes, and lists from the grammar's repetitions) and its place, and returns a
node. Nothing is checked here except what a literal means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax import ast, text
from drmas_dsl.syntax.lexer import Token
from drmas_dsl.syntax.source import Source, Span

Children = list[Any]


def nodes(children: Children) -> tuple[Any, ...]:
    """The nodes among the children, those of repetitions included; tokens are left out."""
    found: Children = []
    for child in children:
        if isinstance(child, list):
            found += child
        elif not isinstance(child, Token):
            found.append(child)
    return tuple(found)


class Builder:
    """The methods are named as in the grammar; `build` finds them."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report

    def method(self, rule: str) -> Callable[[Children, Span], Any]:
        """What builds the node of a rule or alternative."""
        if rule.startswith("__"):
            return self.repetition
        name = rule if hasattr(self, rule) else f"{rule}_"
        method: Callable[[Children, Span], Any] = getattr(self, name)
        return method

    def span(self, token: Token) -> Span:
        return Span(self.source.file, token.start, token.end)

    def raw(self, token: Token) -> str:
        return self.source.text[token.start : token.end]

    @staticmethod
    def repetition(children: Children, span: Span) -> Children:
        """A list that grows in place: Lark makes `x*` left-recursive."""
        if isinstance(children[0], list):
            children[0].extend(child for child in children[1:] if not isinstance(child, Token))
            return children[0]
        return [child for child in children if not isinstance(child, Token)]

    # Declarations

    def file(self, children: Children, span: Span) -> ast.File:
        whole = Span(self.source.file, 0, len(self.source.text))
        return ast.File(self.source.file, nodes(children), whole)

    def system(self, children: Children, span: Span) -> ast.SystemDecl:
        description = children[2] if len(children) > 2 else None
        return ast.SystemDecl(children[1], description, self.span(children[0]), span)

    def use(self, children: Children, span: Span) -> ast.UseDecl:
        return ast.UseDecl(children[1], self.span(children[0]), span)

    def param(self, children: Children, span: Span) -> ast.ParamDecl:
        keyword, name, _, type_, _, default, *bounds = children
        low, high = (bounds[1], bounds[3]) if bounds else (None, None)
        return ast.ParamDecl(name, type_, default, low, high, self.span(keyword), span)

    def entity(self, children: Children, span: Span) -> ast.EntityDecl:
        keyword, name, items = children
        return ast.EntityDecl(self.raw(keyword), name, None, items, self.span(keyword), span)

    def derived(self, children: Children, span: Span) -> ast.EntityDecl:
        keyword, name, _, base, items = children
        return ast.EntityDecl(self.raw(keyword), name, base, items, self.span(keyword), span)

    def tool(self, children: Children, span: Span) -> ast.ToolDecl:
        return ast.ToolDecl(children[1], children[3], self.span(children[0]), span)

    def flow(self, children: Children, span: Span) -> ast.FlowDecl:
        return ast.FlowDecl(None, (), children[1], self.span(children[0]), span)

    def pattern(self, children: Children, span: Span) -> ast.FlowDecl:
        parameters = children[3] if len(children) == 6 else ()
        return ast.FlowDecl(children[1], parameters, children[-1], self.span(children[0]), span)

    def names(self, children: Children, span: Span) -> tuple[ast.Ident, ...]:
        return nodes(children)

    def section(self, children: Children, span: Span) -> ast.SectionDecl:
        return ast.SectionDecl(self.raw(children[0]), children[1], self.span(children[0]), span)

    # Settings

    def body(self, children: Children, span: Span) -> tuple[ast.Item, ...]:
        return nodes(children)

    def setting(self, children: Children, span: Span) -> ast.Setting:
        return ast.Setting(children[0], None, children[2], span)

    def targeted(self, children: Children, span: Span) -> ast.Setting:
        return ast.Setting(self.name(children[:1], self.span(children[0])), children[1], children[3], span)

    def output(self, children: Children, span: Span) -> ast.OutputDef:
        return ast.OutputDef(children[1], children[3], span)

    def group(self, children: Children, span: Span) -> ast.Block:
        return ast.Block(children[0], None, children[1], span)

    def pool(self, children: Children, span: Span) -> ast.Block:
        return ast.Block(self.name(children[:1], self.span(children[0])), children[1], children[2], span)

    # Flow

    def block(self, children: Children, span: Span) -> tuple[ast.Stmt, ...]:
        return nodes(children)

    def chain(self, children: Children, span: Span) -> ast.Chain:
        return ast.Chain(nodes(children), span)

    def do(self, children: Children, span: Span) -> ast.Do:
        name = children[0]
        if len(children) == 1:
            return ast.Do(ast.Name(name.name, span), span)
        return ast.Do(ast.Call(name, children[2], span), span)

    def assign(self, children: Children, span: Span) -> ast.Assign:
        return ast.Assign(children[0], children[2], span)

    def if_(self, children: Children, span: Span) -> ast.If:
        parts = nodes(children)
        orelse = parts[-1] if len(parts) % 2 else None
        return ast.If(tuple(zip(parts[0 : len(parts) - 1 : 2], parts[1::2], strict=True)), orelse, span)

    def else_(self, children: Children, span: Span) -> tuple[ast.Stmt, ...]:
        return children[1]

    def loop(self, children: Children, span: Span) -> ast.Loop:
        return ast.Loop(children[1], children[2], span)

    def parallel(self, children: Children, span: Span) -> ast.Parallel:
        return ast.Parallel(children[1] if len(children) == 3 else None, children[-1], span)

    def sequence(self, children: Children, span: Span) -> ast.Sequence:
        return ast.Sequence(children[0], span)

    def break_(self, children: Children, span: Span) -> ast.Break:
        return ast.Break(span)

    def continue_(self, children: Children, span: Span) -> ast.Continue:
        return ast.Continue(span)

    def return_(self, children: Children, span: Span) -> ast.Return:
        return ast.Return(children[1], span)

    # Expressions

    def binary(self, children: Children, span: Span) -> ast.Binary:
        return ast.Binary(self.raw(children[1]), children[0], children[2], span)

    def unary(self, children: Children, span: Span) -> ast.Unary:
        return ast.Unary(self.raw(children[0]), children[1], span)

    def literal(self, children: Children, span: Span) -> ast.Literal:
        raw = self.raw(children[0])
        if children[0].type != "NUMBER":
            return ast.Literal({"true": True, "false": False, "none": None}[raw], span)
        whole = raw.isdigit()
        if len(raw) > 300 or float(raw) == float("inf"):
            self.report.add("E0101", "this number is too large to be read", span)
            return ast.Literal(0 if whole else 0.0, span)
        return ast.Literal(int(raw) if whole else float(raw), span)

    def text(self, children: Children, span: Span) -> ast.Text:
        raw = self.raw(children[0])
        if children[0].type == "TEXT_BLOCK":
            value, offsets = text.block(raw[3 : -3 if raw.endswith('"""') and len(raw) > 5 else None], span.start + 3)
            return ast.Text(value, True, offsets, span)
        closed = len(raw) > 1 and raw.endswith('"')
        value, offsets = text.quoted(raw[1 : -1 if closed else None], span.start + 1, span.file, self.report)
        return ast.Text(value, False, offsets, span)

    def name_value(self, children: Children, span: Span) -> ast.Name:
        return ast.Name(children[0].name, span)

    def attribute(self, children: Children, span: Span) -> ast.Attribute:
        return ast.Attribute(children[0], children[2], span)

    def call(self, children: Children, span: Span) -> ast.Call:
        return ast.Call(children[0], children[2], span)

    def arguments(self, children: Children, span: Span) -> tuple[ast.Argument, ...]:
        return nodes(children)

    def argument(self, children: Children, span: Span) -> ast.Argument:
        return ast.Argument(None, children[0], span)

    def named_argument(self, children: Children, span: Span) -> ast.Argument:
        return ast.Argument(children[0], children[2], span)

    def list(self, children: Children, span: Span) -> ast.ListExpr:
        return ast.ListExpr(nodes(children), span)

    def parenthesis(self, children: Children, span: Span) -> ast.Expr:
        return children[1]

    # Names

    def name(self, children: Children, span: Span) -> ast.Ident:
        return ast.Ident(self.raw(children[0]), span)

    value_name = name
    key = name
