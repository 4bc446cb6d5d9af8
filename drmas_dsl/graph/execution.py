"""The execution graph: what its nodes and edges mean, and the names that both sides use for them.

A graph is a `networkx.MultiDiGraph`; `graph.graph["system"]` is the `System`. Nodes are strings ("n0", "n1", … in
order of lowering) with a `kind`:

    start                                      where a trajectory begins; one per graph
    call    agent                              one call of an agent: a turn
    tool    tool, args, bind                   a tool call: args are expressions by parameter name, bind is the variable
    assign  bind, value                        binds a variable to an expression
    branch                                     nothing of its own; its edges carry the conditions
    loop    max                                a loop's head: every arrival begins one more iteration, or leaves
    fork    join, copies                       runs each of its edges at once up to node `join`; with copies = N, its one
                                               edge N times (copies is null otherwise)
    join    fork                               where they meet again
    return  value                              ends the trajectory with the value of an expression

Every node has `loops`: the heads of the loops around it, outermost first (a head is not in its own list). Every edge has
`order` (an integer, unique among the edges of its source) and `condition`: an expression, `{"kind": "more"}` on the edge from a loop's
head into its body (true while iterations are left), or null.

To walk: do what the node says, then take, in `order`, the first edge whose condition holds (a fork takes all). Arriving at
a loop's head from outside of its body starts its count at 1; from inside it counts on. A node without an edge to take, other than
return and join, is an error of the graph.
"""

from __future__ import annotations

from typing import Any

import networkx as nx

from drmas_dsl.graph.settings import Expression, System

MORE: Expression = {"kind": "more"}


def system_of(graph: nx.MultiDiGraph) -> System:
    """The system that the graph's nodes and edges refer to."""
    system = graph.graph["system"]
    assert isinstance(system, System)
    return system


def start_of(graph: nx.MultiDiGraph) -> str:
    """The node where a trajectory begins."""
    return next(node for node, kind in graph.nodes(data="kind") if kind == "start")


def ordered_edges(graph: nx.MultiDiGraph, node: str) -> list[tuple[str, Any]]:
    """(target, condition) of the node's out-edges, in `order`."""
    edges = sorted(graph.out_edges(node, data=True), key=lambda edge: edge[2]["order"])
    return [(target, data["condition"]) for _, target, data in edges]
