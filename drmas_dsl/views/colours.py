"""The colours of policies: a fill and a line each, told apart by colour-blind eyes too, repeated after eight."""

from __future__ import annotations

import networkx as nx

from drmas_dsl.graph.execution import system_of
from drmas_dsl.views.captions import policies_of

PALETTE = (
    ("#d6e6f5", "#2c6fa8"),
    ("#fde3c8", "#c46a10"),
    ("#d5efe3", "#1f8a63"),
    ("#f6d9e6", "#b1427a"),
    ("#f8f0c3", "#96820a"),
    ("#e2dcf3", "#6550a4"),
    ("#d3eef2", "#16828f"),
    ("#ecdfd6", "#8a5a3a"),
)
INK = "#333333"
QUIET = "#777777"
AGAIN = "#a03020"  # ways back to the head of a loop
LOOP_FILL = "#faf6ee"
PARALLEL_FILL = "#f1f4f8"


def colours(graph: nx.MultiDiGraph) -> dict[str, tuple[str, str]]:
    """(fill, line) of each policy that acts in the flow."""
    policies = policies_of(graph, system_of(graph))
    return {policy.name: PALETTE[number % len(PALETTE)] for number, policy in enumerate(policies)}
