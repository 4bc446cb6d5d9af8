"""Findings that need the ways through the graph: paths without a `return`, conditions that are always the same, loops that
cannot run twice, and (in `reads`, `unused`, `budget`) reads, declarations and lengths.

They stand on the fine walk (see `walks`), which knows `loop.last` and counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.budget import Budget, budgets, check_budget
from drmas_dsl.graph.conditions import reads_loop, truth
from drmas_dsl.graph.lowering import Lowered
from drmas_dsl.graph.paths import describe, path_to
from drmas_dsl.graph.patterns import inside
from drmas_dsl.graph.reads import check_reads
from drmas_dsl.graph.skeleton import END, label_calls
from drmas_dsl.graph.unused import check_unused
from drmas_dsl.graph.walks import Walk, walk_of
from drmas_dsl.semantics.checked import Checked
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Span

# Findings about calls that are left out of the graph, so that nothing can be said of what they would have bound.
_DROPPED = ("E0201", "E0211", "E0301", "E0306", "E0508", "E0511")


def analyse(checked: Checked, lowered: Lowered, files: Sequence[ast.File], report: Report) -> tuple[Budget, ...]:
    """Report what the ways through the flow show; gives the lengths of prompts. `files` are the main file and those that it
    uses."""
    assert checked.flow is not None
    walk = walk_of(lowered.graph, lowered.edges, fine=True)
    _returns(checked.flow, lowered, walk, report)
    if not any(found.code in _DROPPED for found in report.diagnostics):
        check_reads(checked, lowered, walk, report)
    _conditions(checked, lowered, walk, report)
    _loops(checked, lowered, walk, report)
    check_unused(checked, lowered, files, report)
    found = budgets(lowered, walk)
    check_budget(checked, found, report)
    return found


def _returns(flow: ast.FlowDecl, lowered: Lowered, walk: Walk, report: Report) -> None:
    """A path that leaves the flow without a `return`: the shortest."""
    end = next((number for number, (node, _) in enumerate(walk.states) if node == END), None)
    if end is None or any(found.code == "E0504" for found in report.diagnostics):  # a misplaced `return` was said
        return
    path = path_to(walk, end)
    notes = [f"this path ends without one: {describe(lowered.graph, path) or 'the empty flow'}"]
    close = Span(flow.span.file, flow.span.end - 1, flow.span.end - 1)
    help = Help("end the flow with `return none`, or with a value", (Edit(close, "  return none\n"),))
    report.add("E0502", "the flow has a path without `return`", flow.keyword, notes=notes, help=help)


def _conditions(checked: Checked, lowered: Lowered, walk: Walk, report: Report) -> None:
    """Conditions that are the same whenever they are asked, and not because of a param."""
    states = walk.by_node()
    for (node, order), expr in lowered.conditions.items():
        condition = next((edge.condition for edge in lowered.edges[node] if edge.order == order), None)
        if condition is None or node not in states or _reads_param(expr, checked):
            continue
        loops = lowered.graph.nodes[node]["loops"]
        if reads_loop(condition) and (not loops or _reads_param(lowered.counts[loops[-1]], checked)):
            continue
        outcomes = {
            truth(condition, phases[-1] if phases else None) for phases in (walk.states[s][1] for s in states[node])
        }
        if outcomes in ({True}, {False}):
            word, what = ("true", "it decides nothing") if True in outcomes else ("false", "its block never runs")
            before = len(report.diagnostics)
            report.add("W0502", f"this condition is always {word}", expr.span, notes=(what,))
            label_calls(report, before, lowered.calls[node])


def _loops(checked: Checked, lowered: Lowered, walk: Walk, report: Report) -> None:
    """Loops whose body never runs a second time."""
    graph = lowered.graph
    for head, count in lowered.counts.items():
        if graph.nodes[head]["kind"] != "loop" or head not in lowered.facts:
            continue
        before = len(report.diagnostics)
        comes_back = any(head in graph.nodes[source]["loops"] for source in graph.predecessors(head))
        if not comes_back:
            note = "every way through its body leaves it"
            report.add("W0503", "this loop never runs a second time", lowered.places[head], notes=(note,))
        elif graph.nodes[head]["max"] == 1 and not _reads_param(count, checked):
            help = Help("write its body alone, or a higher count")
            report.add("W0503", "this loop runs once", lowered.places[head], help=help)
        label_calls(report, before, lowered.calls[head])


def _reads_param(expr: ast.Expr, checked: Checked) -> bool:
    return any(isinstance(part, ast.Name) and part.name in checked.scope.params for part in inside(expr))
