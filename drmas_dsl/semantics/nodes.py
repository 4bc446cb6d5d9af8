"""Bodies of declarations as trees of settings, and inheritance between them.

A `Node` is one block: its settings, outputs and nested blocks by name. Merging lays a derived body over its base key by
key. Nothing here knows the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drmas_dsl.diagnostics.diagnostic import Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.suggest import unknown
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span


@dataclass(slots=True)
class Node:
    """One block. `place` is its name; `rewards` are the `reward Agent = …`, `pools` the `pool name { … }`."""

    place: Span
    settings: dict[str, ast.Setting] = field(default_factory=dict)
    rewards: dict[str, ast.Setting] = field(default_factory=dict)
    outputs: dict[str, ast.OutputDef] = field(default_factory=dict)
    blocks: dict[str, Node] = field(default_factory=dict)
    pools: dict[str, Node] = field(default_factory=dict)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ast.Setting]]:
        """All settings with their paths, nested blocks included."""
        for name, setting in self.settings.items():
            yield (*path, name), setting
        for name, block in self.blocks.items():
            yield from block.walk((*path, name))

    def at(self, *path: str) -> ast.Setting | None:
        """The setting at a path, if it is given."""
        node = self
        for name in path[:-1]:
            if name not in node.blocks:
                return None
            node = node.blocks[name]
        return node.settings.get(path[-1])


def node_of(items: tuple[ast.Item, ...], place: Span, report: Report) -> Node:
    """The tree of a body; what is given twice is reported at the later one, and the first counts."""
    node = Node(place)
    for item in items:
        match item:
            case ast.Setting(target=ast.Ident() as target):
                if _fresh(target.name, f"reward {target.name}", item.name.span, _spans(node.rewards), report):
                    node.rewards[target.name] = item
            case ast.Setting(name=name):
                if _fresh(name.name, name.name, name.span, _taken(node), report):
                    node.settings[name.name] = item
            case ast.OutputDef(name=name):
                taken = {other: output.name.span for other, output in node.outputs.items()}
                if _fresh(name.name, f"output {name.name}", name.span, taken, report):
                    node.outputs[name.name] = item
            case ast.Block(name=name, label=ast.Ident() as label):
                taken = {other: pool.place for other, pool in node.pools.items()}
                if _fresh(label.name, f"{name.name} {label.name}", label.span, taken, report):
                    node.pools[label.name] = node_of(item.items, label.span, report)
            case ast.Block(name=name):
                if _fresh(name.name, name.name, name.span, _taken(node), report):
                    node.blocks[name.name] = node_of(item.items, name.span, report)
    return node


def _spans(settings: Mapping[str, ast.Setting]) -> dict[str, Span]:
    return {name: setting.name.span for name, setting in settings.items()}


def _taken(node: Node) -> dict[str, Span]:
    return _spans(node.settings) | {name: block.place for name, block in node.blocks.items()}


def _fresh(name: str, shown: str, span: Span, taken: Mapping[str, Span], report: Report) -> bool:
    if name not in taken:
        return True
    report.add("E0202", f"`{shown}` is given twice", span, labels=[Label(taken[name], "first given here")])
    return False


def merged(base: Node | None, own: Node) -> Node:
    """`own` over `base`, key by key. A setting over a block (and the other way) replaces it."""
    if base is None:
        return own
    blocks = {name: block for name, block in base.blocks.items() if name not in own.settings}
    for name, block in own.blocks.items():
        blocks[name] = merged(blocks.get(name), block)
    return Node(
        own.place,
        {name: setting for name, setting in base.settings.items() if name not in own.blocks} | own.settings,
        base.rewards | own.rewards,
        base.outputs | own.outputs,
        blocks,
        base.pools | own.pools,
    )


# Inheritance

BASES = {"model": ("model",), "role": ("role",), "agent": ("role", "agent")}


@dataclass(frozen=True, slots=True)
class Entity:
    """A model, role or agent after inheritance: `node` is everything, `chain` the bodies from its own to the base's.
    `broken`: a base is missing, so that what is mandatory may be missing too."""

    declaration: ast.EntityDecl
    node: Node
    chain: tuple[Node, ...]
    broken: bool

    def level(self, setting: ast.Setting) -> int:
        """How many steps of inheritance away the setting is written: 0 in the own body."""
        for level, node in enumerate(self.chain):
            if any(found is setting for _, found in node.walk()):
                return level
        return len(self.chain)


def inherit(
    declarations: Mapping[str, ast.EntityDecl], own: Mapping[str, Node], others: Mapping[str, str], report: Report
) -> dict[str, Entity]:
    """All models, roles and agents with what they inherit; unknown bases and cycles are reported, a cycle once, at its
    first declaration."""
    cyclic = _cycles(declarations, report)
    found: dict[str, Entity] = {}

    for start in declarations:
        path: list[str] = []
        name: str | None = start
        while name is not None and name not in found:
            path.append(name)
            name = None if name in cyclic else _base_of(declarations[name], declarations)
        for derived in reversed(path):
            declaration = declarations[derived]
            base_name = None if derived in cyclic else _base_of(declaration, declarations)
            base = None if base_name is None else found[base_name]
            if base is None:
                broken = derived in cyclic or declaration.base is not None
                found[derived] = Entity(declaration, own[derived], (own[derived],), broken)
            else:
                node = merged(base.node, own[derived])
                found[derived] = Entity(declaration, node, (own[derived], *base.chain), base.broken)
    for name in declarations:
        _check_base(declarations[name], declarations, others, report)
    return {name: found[name] for name in declarations}


def _base_of(declaration: ast.EntityDecl, declarations: Mapping[str, ast.EntityDecl]) -> str | None:
    if declaration.base is None:
        return None
    base = declarations.get(declaration.base.name)
    return base.name.name if base is not None and base.kind in BASES[declaration.kind] else None


def _check_base(
    declaration: ast.EntityDecl,
    declarations: Mapping[str, ast.EntityDecl],
    others: Mapping[str, str],
    report: Report,
) -> None:
    base = declaration.base
    if base is None or _base_of(declaration, declarations) is not None:
        return
    kinds = " or ".join(BASES[declaration.kind])
    if base.name in others:
        labels = [Label(declarations[base.name].name.span, "declared here")] if base.name in declarations else []
        message = f"`{base.name}` is {others[base.name]}: {declaration.kind} `{declaration.name.name}` inherits from a {kinds}"
        report.add("E0211", message, base.span, labels=labels)
    else:
        known = [name for name, other in declarations.items() if other.kind in BASES[declaration.kind]]
        known = [name for name in known if name != declaration.name.name]
        unknown(report, "E0201", f"there is no {kinds} `{base.name}`", base.name, base.span, known)


def _cycles(declarations: Mapping[str, ast.EntityDecl], report: Report) -> set[str]:
    """The names that lie on a cycle of inheritance."""
    done: set[str] = set()
    cyclic: set[str] = set()
    for start in declarations:
        path: list[str] = []
        name: str | None = start
        while name is not None and name not in done and name not in path:
            path.append(name)
            name = _base_of(declarations[name], declarations)
        if name is not None and name in path:
            cycle = path[path.index(name) :]
            cyclic.update(cycle)
            first = min(cycle, key=list(declarations).index)
            turned = [*cycle[cycle.index(first) :], *cycle[: cycle.index(first)]]
            message = "`" + "` inherits from `".join([*turned, first]) + "`"
            labels = [Label(declarations[other].name.span, "on the circle") for other in turned[1:]]
            report.add("E0203", message, declarations[first].name.span, labels=labels)
        done.update(path)
    return cyclic
