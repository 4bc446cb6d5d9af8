"""Random structured flows, and two ways to run them: the statements as they are written, and a walk of the graph as
`graph.execution` words it. Both take the same outcomes: the n-th call of an agent says yes or no by a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import networkx as nx
from hypothesis import strategies as st

from drmas_dsl.graph.execution import MORE, ordered_edges, start_of
from drmas_dsl.syntax import ast
from drmas_dsl.views.structure import Block, Choice, Jump, Loop, Parallel, Step

AGENTS = ("A", "B", "C", "D")
COPIED = ("E", "F")  # called inside `parallel N` only, and never read

# Flows as text


def random_flow(seed: int) -> str:
    """A flow of up to a few dozen statements, nested up to three deep, without statements that can never run (mostly)."""
    random = Random(seed)
    return f"flow {{ {_block(random, AGENTS, 3, loop=False)}  return none }}"


def _block(random: Random, agents: tuple[str, ...], depth: int, loop: bool, copies: bool = False) -> str:
    """A few statements in a row, perhaps with a jump at the end."""
    body = [_statement(random, agents, depth, loop, copies) for _ in range(random.randint(1, 3))]
    jump = random.choice(["", "", "break", "continue"]) if loop else ""
    return "  ".join([*body, jump])


def _statement(random: Random, agents: tuple[str, ...], depth: int, loop: bool, copies: bool) -> str:
    kinds = ["call", "call", "chain"]
    if depth:
        kinds += ["if", "if", "if", "loop", "loop"]
        kinds += ["parallel"] if len(agents) > 1 and not copies else []
        kinds += ["copies"] if len(agents) == len(AGENTS) else []
    match random.choice(kinds):
        case "call":
            return random.choice(agents)
        case "chain":
            return " -> ".join(random.choices(agents, k=random.randint(2, 3)))
        case "if":
            arms = []
            for number in range(random.randint(1, 3)):
                test = _condition(random, agents, loop) if not copies else "rounds > 1"
                body = _block(random, agents, depth - 1, loop, copies)
                arms.append(f"{'elif' if number else 'if'} {test} {{ {body} }}")
            orelse = f"else {{ {_block(random, agents, depth - 1, loop, copies)} }}" if random.random() < 0.4 else ""
            return "  ".join([*arms, orelse])
        case "loop":
            return f"loop {random.randint(1, 4)} {{ {_block(random, agents, depth - 1, True, copies)} }}"
        case "copies":
            return f"parallel {random.randint(1, 3)} {{ {_block(random, COPIED, depth - 1, False, True)} }}"
    half = len(agents) // 2
    sides = (_block(random, side, depth - 1, False, copies) for side in (agents[:half], agents[half:]))
    return "parallel { " + "  ".join(f"{{ {side} }}" for side in sides) + " }"


def _condition(random: Random, agents: tuple[str, ...], loop: bool) -> str:
    agent = random.choice(agents)
    tests = [f'{agent}.verdict == "yes"', f'{agent}.verdict != "yes"', f"{agent}.verdict != none"]
    if loop:
        tests += ["loop.last", "not loop.last", "loop.index == 1", "loop.index > 1", "loop.index < loop.max"]
    if random.random() < 0.3:
        return f"{random.choice(tests)} {random.choice(['and', 'or'])} {random.choice(tests)}"
    return random.choice(tests)


FLOWS = st.integers(0, 2**32).map(random_flow)

# What both ways of running share


@dataclass
class World:
    """What has happened: calls in order, with what was bound before each, each agent's last verdict, how many turns the next call
    would see, and the most that calls of each agent saw."""

    seed: int
    calls: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, Any] = field(default_factory=dict)
    history: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def call(self, agent: str) -> None:
        assert len(self.calls) < 100_000
        self.calls.append((agent, frozenset(self.verdicts)))
        self.seen[agent] = max(self.seen.get(agent, 0), self.history)
        self.history += 1
        number = self.counts[agent] = self.counts.get(agent, 0) + 1
        self.verdicts[agent] = (
            "yes" if hash((self.seed, AGENTS.index(agent) if agent in AGENTS else 9, number)) % 3 else "no"
        )


class Leave(Exception):
    """`break`, `continue` or `return`."""


# The statements as written


def run(body: tuple[ast.Stmt, ...], world: World, rounds: tuple[int, int] = (0, 0)) -> None:
    """The statements in turn; `rounds` are index and count of the innermost loop."""
    for statement in body:
        match statement:
            case ast.Do(target=ast.Name(name=agent)):
                world.call(agent)
            case ast.Chain(steps=steps):
                run(steps, world, rounds)
            case ast.If(branches=branches, orelse=orelse):
                chosen = next((inside for test, inside in branches if truth(test, world, rounds)), orelse)
                run(chosen or (), world, rounds)
            case ast.Loop(count=ast.Literal(value=int(count)), body=inside):
                for index in range(1, count + 1):
                    try:
                        run(inside, world, (index, count))
                    except Leave as leave:
                        if leave.args == ("break",):
                            break
                        if leave.args != ("continue",):
                            raise
            case ast.Parallel(count=None, body=inside):
                in_branches([(branch,) for branch in inside], world, rounds)
            case ast.Parallel(count=ast.Literal(value=int(count)), body=inside):
                in_branches([inside] * count, world, rounds)
            case ast.Sequence(body=inside):
                run(inside, world, rounds)
            case ast.Break():
                raise Leave("break")
            case ast.Continue():
                raise Leave("continue")
            case ast.Return():
                raise Leave("return")


def in_branches(bodies: list[tuple[ast.Stmt, ...]], world: World, rounds: tuple[int, int]) -> None:
    before, joined = dict(world.verdicts), dict(world.verdicts)
    for body in bodies:
        world.verdicts = dict(before)
        called = dict(world.counts)
        run(body, world, rounds)
        joined |= {name: world.verdicts[name] for name, count in world.counts.items() if count != called.get(name, 0)}
    world.verdicts = joined


def truth(test: ast.Expr, world: World, rounds: tuple[int, int]) -> bool:
    match test:
        case ast.Binary(op="and", left=left, right=right):
            return truth(left, world, rounds) and truth(right, world, rounds)
        case ast.Binary(op="or", left=left, right=right):
            return truth(left, world, rounds) or truth(right, world, rounds)
        case ast.Unary(operand=operand):
            return not truth(operand, world, rounds)
        case ast.Binary(op=op, left=left, right=right):
            return compare(op, plain(left, world, rounds), plain(right, world, rounds))
    return bool(plain(test, world, rounds))


def plain(expr: ast.Expr, world: World, rounds: tuple[int, int]) -> Any:
    match expr:
        case ast.Literal(value=value) | ast.Text(value=value):
            return value
        case ast.Name(name="rounds"):
            return 2
        case ast.Attribute(value=ast.Name(name="loop"), name=field):
            return {"index": rounds[0], "max": rounds[1], "last": rounds[0] == rounds[1]}[field.name]
        case ast.Attribute(value=ast.Name(name=agent)):
            return world.verdicts.get(agent)
    raise AssertionError(expr)


def compare(op: str, left: Any, right: Any) -> bool:
    if op in ("==", "!="):
        return (left == right) is (op == "==")
    return left < right if op == "<" else left > right


# The graph


@dataclass
class Trace:
    """The nodes and edges of a walk, each node with what was bound before it (a loop's head where an iteration begins)."""

    nodes: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    edges: set[tuple[str, int]] = field(default_factory=set)


def walk(graph: nx.MultiDiGraph, world: World) -> Trace:
    """Walk the graph from its start to a return."""
    trace = Trace()
    _from(graph, start_of(graph), None, world, {}, trace)
    return trace


def _from(
    graph: nx.MultiDiGraph, node: str, stop: str | None, world: World, counts: dict[str, int], trace: Trace
) -> None:
    while node != stop:
        data = graph.nodes[node]
        if data["kind"] != "loop" or counts[node] <= data["max"]:
            trace.nodes.append((node, frozenset(world.verdicts)))
        if data["kind"] == "return":
            return
        if data["kind"] == "call":
            world.call(data["agent"])
        if data["kind"] == "fork":
            _fork(graph, node, world, counts, trace)
            node = data["join"]
            trace.nodes.append((node, frozenset(world.verdicts)))
        head = graph.nodes[node]["loops"][-1] if graph.nodes[node]["loops"] else None
        edges = ordered_edges(graph, node)
        order = next(
            number for number, (_, condition) in enumerate(edges) if _holds(condition, graph, node, head, world, counts)
        )
        target = edges[order][0]
        taken = sorted(data["order"] for _, _, data in graph.out_edges(node, data=True))[order]
        trace.edges.add((node, taken))
        _arrive(graph, node, target, counts)
        node = target


def _arrive(graph: nx.MultiDiGraph, source: str, target: str, counts: dict[str, int]) -> None:
    """Count an iteration where an edge leads to a loop's head."""
    if graph.nodes[target]["kind"] == "loop":
        counts[target] = counts[target] + 1 if target in graph.nodes[source]["loops"] else 1


def _fork(graph: nx.MultiDiGraph, node: str, world: World, counts: dict[str, int], trace: Trace) -> None:
    data = graph.nodes[node]
    edges = sorted((edge["order"], target) for _, target, edge in graph.out_edges(node, data=True))
    before, joined = dict(world.verdicts), dict(world.verdicts)
    first = after = world.history
    for order, target in edges * (data["copies"] or 1):
        world.verdicts, world.history = dict(before), first
        called = dict(world.counts)
        trace.edges.add((node, order))
        inner = dict(counts)
        _arrive(graph, node, target, inner)
        _from(graph, target, data["join"], world, inner, trace)
        after += world.history - first
        joined |= {name: world.verdicts[name] for name, count in world.counts.items() if count != called.get(name, 0)}
    world.verdicts, world.history = joined, after


def _holds(
    condition: Any, graph: nx.MultiDiGraph, node: str, head: str | None, world: World, counts: dict[str, int]
) -> bool:
    if condition is None:
        return True
    if condition == MORE:
        return counts[node] <= graph.nodes[node]["max"]
    return value(condition, world, (counts[head], graph.nodes[head]["max"]) if head else (0, 0)) is True


def value(expression: Any, world: World, rounds: tuple[int, int]) -> Any:
    match expression:
        case {"kind": "const", "value": constant}:
            return constant
        case {"kind": "output", "agent": agent}:
            return world.verdicts.get(agent)
        case {"kind": "loop", "name": name}:
            return {"index": rounds[0], "max": rounds[1], "last": rounds[0] == rounds[1]}[name]
        case {"op": "not", "args": [part]}:
            return value(part, world, rounds) is not True
        case {"op": "and", "args": args}:
            return all(value(part, world, rounds) is True for part in args)
        case {"op": "or", "args": args}:
            return any(value(part, world, rounds) is True for part in args)
        case {"op": op, "args": args}:
            return compare(op, *(value(part, world, rounds) for part in args))
    raise AssertionError(expression)


# The blocks found again in the graph


def replay(graph: nx.MultiDiGraph, block: Block, world: World, rounds: tuple[int, int] = (0, 0)) -> None:
    """Run the blocks that `views.structure` finds."""
    for item in block:
        match item:
            case Step(node) if graph.nodes[node]["kind"] == "return":
                raise Leave("return")
            case Step(node):
                world.call(graph.nodes[node]["agent"])
            case Jump(word):
                raise Leave(word)
            case Choice(_, arms):
                tests = ((test is None or value(test, world, rounds) is True, inside) for test, inside in arms)
                replay(graph, next((inside for holds, inside in tests if holds), ()), world, rounds)
            case Loop(node, body):
                count = graph.nodes[node]["max"]
                for index in range(1, count + 1):
                    try:
                        replay(graph, body, world, (index, count))
                    except Leave as leave:
                        if leave.args == ("break",):
                            break
                        if leave.args != ("continue",):
                            raise
            case Parallel(node, _, branches):
                before, joined = dict(world.verdicts), dict(world.verdicts)
                for branch in branches * (graph.nodes[node]["copies"] or 1):
                    world.verdicts = dict(before)
                    called = dict(world.counts)
                    replay(graph, branch, world, rounds)
                    joined |= {n: world.verdicts[n] for n, count in world.counts.items() if count != called.get(n, 0)}
                world.verdicts = joined
