"""The abstract syntax tree of a `.mas` file: what was written, with places, and no meaning yet.

Frozen dataclasses, one per construct of the grammar. Three families: expressions (`Expr`), flow statements
(`Stmt`) and declarations (`Declaration`), whose bodies hold `Setting` and `Block` items.
"""

from __future__ import annotations

from dataclasses import dataclass

from drmas_dsl.syntax.source import Span


@dataclass(frozen=True, slots=True)
class Ident:
    """A name at a place."""

    name: str
    span: Span


# Expressions


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, truth value or `none`."""

    value: int | float | bool | None
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    """A string. `value` is what it means (escapes resolved, a text block dedented); `offsets[i]` is the offset in
    the source of the i-th character of `value`, and one more entry for its end."""

    value: str
    block: bool
    offsets: tuple[int, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A bare name used as a value."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Attribute:
    """`value.name`."""

    value: Expr
    name: Ident
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional (`name` is None) or named argument of a call."""

    name: Ident | None
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`."""

    function: Ident
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ListExpr:
    """`[a, b]`."""

    items: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`not x`, `-x`."""

    op: str
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`; op is one of or, and, ==, !=, <, <=, >, >=, +, -, *, /, %."""

    op: str
    left: Expr
    right: Expr
    span: Span


Expr = Literal | Text | Name | Attribute | Call | ListExpr | Unary | Binary


# Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """`name = value`; `target` is the agent of `reward Solver = …`, or None."""

    name: Ident
    target: Ident | None
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class OutputDef:
    """`output name = parser(…)` in an agent or role."""

    name: Ident
    parser: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Block:
    """`name { … }`; `label` is the name of a `pool main { … }`, or None."""

    name: Ident
    label: Ident | None
    items: tuple[Item, ...]
    span: Span


Item = Setting | OutputDef | Block


# Flow


@dataclass(frozen=True, slots=True)
class Do:
    """A call of an agent (`Solver`) or of a pattern (`refine(Solver, Verifier, 2)`) as a statement."""

    target: Name | Call
    span: Span


@dataclass(frozen=True, slots=True)
class Chain:
    """`A -> B -> C`."""

    steps: tuple[Do, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    """`name = value`, where value may be the call of a tool."""

    name: Ident
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """`if … elif … else`: pairs of condition and body; `orelse` is None without `else`."""

    branches: tuple[tuple[Expr, tuple[Stmt, ...]], ...]
    orelse: tuple[Stmt, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """`loop count { … }`."""

    count: Expr
    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Parallel:
    """`parallel { … }` (count None: every statement a branch) or `parallel N { … }` (the block N times)."""

    count: Expr | None
    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Sequence:
    """`{ … }`: several statements as one branch of a `parallel`."""

    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Break:
    span: Span


@dataclass(frozen=True, slots=True)
class Continue:
    span: Span


@dataclass(frozen=True, slots=True)
class Return:
    """`return value` (`return none` for nothing)."""

    value: Expr
    span: Span


Stmt = Do | Chain | Assign | If | Loop | Parallel | Sequence | Break | Continue | Return


# Declarations. `span` is the whole declaration; `keyword` is its first word, where findings about the whole point.


@dataclass(frozen=True, slots=True)
class SystemDecl:
    name: Ident
    description: Text | None
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class UseDecl:
    path: Text
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class ParamDecl:
    """`param name: type = default in low..high`; both bounds are None without a range."""

    name: Ident
    type: Ident
    default: Expr
    low: Expr | None
    high: Expr | None
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class EntityDecl:
    """A `model`, `role` or `agent` (`kind`), perhaps `: base`, with its body."""

    kind: str
    name: Ident
    base: Ident | None
    items: tuple[Item, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class ToolDecl:
    name: Ident
    value: Expr
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class FlowDecl:
    """The `flow { … }` (name None), or the pattern `flow name(parameters) { … }`."""

    name: Ident | None
    parameters: tuple[Ident, ...]
    body: tuple[Stmt, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class SectionDecl:
    """`task`, `train`, `eval` or `resources` (`kind`) with its items."""

    kind: str
    items: tuple[Item, ...]
    keyword: Span
    span: Span


Declaration = SystemDecl | UseDecl | ParamDecl | EntityDecl | ToolDecl | FlowDecl | SectionDecl


@dataclass(frozen=True, slots=True)
class File:
    """A parsed file: the declarations that could be read, in source order, and the places of what could not."""

    path: str
    declarations: tuple[Declaration, ...]
    span: Span
    lost: tuple[Span, ...] = ()
