"""Longest histories and prompts, against counts by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.graph.budget import Budget, budgets
from drmas_dsl.graph.history import longest_histories
from drmas_dsl.graph.lowering import lower
from drmas_dsl.graph.walks import walk_of
from tests.graph.systems import checked, lowered


def turns(text: str) -> dict[str, int]:
    found, _ = lowered(text)
    walk = walk_of(found.graph, found.edges, fine=True)
    return {agent: length.turns for agent, length in longest_histories(found, walk).items()}


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ("A B C return none", {"A": 0, "B": 1, "C": 2}),
        ("loop 4 { A } B return none", {"A": 3, "B": 4}),
        ("loop 4 { A B } return none", {"A": 6, "B": 7}),
        ("loop 4 { A if loop.last { break } B } C return none", {"A": 6, "B": 5, "C": 7}),
        ("loop 4 { A if loop.index == 1 { B B } } return none", {"A": 5, "B": 2}),
        ("loop 3 { loop 2 { A } B } C return none", {"A": 7, "B": 8, "C": 9}),
        ('loop 3 { A if A.verdict == "yes" { B B continue } C break } D return none', {"A": 6, "B": 8, "C": 7, "D": 9}),
        ("loop 2 { loop 2 { loop 2 { loop 2 { A } } } } return none", {"A": 15}),
        ("parallel { A { B C } } D return none", {"A": 0, "B": 0, "C": 1, "D": 3}),
        ("A parallel 5 { B C } D return none", {"A": 0, "B": 1, "C": 2, "D": 11}),
        ("loop 3 { parallel { A { loop 2 { B } } } } C return none", {"A": 6, "B": 7, "C": 9}),
        ('A if A.verdict == "yes" { B return none } C C D return none', {"A": 0, "B": 1, "C": 2, "D": 3}),
    ],
)
def test_longest_histories(flow: str, expected: dict[str, int]) -> None:
    assert turns(f"flow {{ {flow} }}") == expected


def budget_of(prompt: str, flow: str = "A B return none") -> Budget:
    """The budget of B with such a prompt."""
    system = checked(f"flow {{ {flow} }}")
    agents = {**system.system.agents, "B": replace(system.system.agents["B"], prompt=prompt)}
    found = lower(replace(system, system=replace(system.system, agents=agents)), Report())
    assert found is not None
    return next(b for b in budgets(found, walk_of(found.graph, found.edges, fine=True)) if b.agent == "B")


def test_text_is_three_bytes_a_token() -> None:
    assert budget_of("x" * 30).fixed == 10
    assert budget_of("ü" * 30).fixed == 20
    assert budget_of("x" * 31).fixed == 11


def test_conditional_text_counts_at_most_and_not_at_least() -> None:
    budget = budget_of(
        "aaa{% if task.x %}bbbbbb{% elif task.y %}ccc{% endif %}{% if task.z %}ddd{% else %}eeeeee{% endif %}"
    )
    assert (budget.fixed, budget.text) == (2, 5)


def test_the_role_is_known_text_and_the_question_is_not() -> None:
    budget = budget_of("{{ role }}{{ task.question }}{{ found }}")
    assert (budget.fixed, budget.unknown) == (3, ("task.question", "found"))


def test_history_and_outputs_count_as_long_as_responses_can_be() -> None:
    budget = budget_of(
        "{% for turn in history %}{{ turn.text }}---{% endfor %}{{ A.text }}", "loop 2 { A } B return none"
    )
    assert (budget.history, budget.turns, budget.reads) == (2 * 512 + 2, 2, 512)
    assert budget.total == 0 + 512 + 1026 + 512


def test_without_history_only_outputs_count() -> None:
    budget = budget_of("{{ A.answer }}", "loop 9 { A } B return none")
    assert (budget.history, budget.turns, budget.reads) == (0, 0, 512)
