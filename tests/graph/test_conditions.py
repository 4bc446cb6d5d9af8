"""What conditions say without running anything, and how they are worded."""

from __future__ import annotations

import pytest

from drmas_dsl.graph.conditions import Iteration, bound_when, risky_reads, truth
from drmas_dsl.graph.settings import Expression
from drmas_dsl.graph.wording import text_of
from tests.graph.systems import lowered

FIRST, MIDDLE, LAST = Iteration(1, 1, 5), Iteration(2, 4, 5), Iteration(5, 5, 5)


def condition(text: str) -> Expression:
    """The graph's form of a condition inside a loop."""
    found, findings = lowered(f"flow {{ loop 5 {{ A B if {text} {{ C }} }} return none }}")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    branch = next(node for node, kind in found.graph.nodes(data="kind") if kind == "branch")
    expression = found.edges[branch][0].condition
    assert expression is not None
    return expression


@pytest.mark.parametrize(
    ("text", "first", "middle", "last"),
    [
        ("loop.last", False, False, True),
        ("not loop.last", True, True, False),
        ("loop.index == 1", True, False, False),
        ("loop.index != 3", True, None, True),
        ("loop.index > 1", False, True, True),
        ("loop.index <= 4", True, True, False),
        ("loop.index >= 3", False, None, True),
        ("3 > loop.index", True, None, False),
        ("loop.index + 1 < loop.max", True, None, False),
        ("loop.index < loop.max - 1", True, None, False),
        ("loop.index == loop.max", False, False, True),
        ("loop.index * 2 > 4", None, None, None),
        ('A.verdict == "yes"', None, None, None),
        ('A.verdict == "yes" and loop.last', False, False, None),
        ('A.verdict == "yes" or loop.last', None, None, True),
        ("loop.index == 1 or loop.index > 1", True, True, True),
    ],
)
def test_truth_by_iteration(text: str, first: bool | None, middle: bool | None, last: bool | None) -> None:
    expression = condition(text)
    assert [truth(expression, iteration) for iteration in (FIRST, MIDDLE, LAST)] == [first, middle, last]
    assert truth(expression, None) is None


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ('A.verdict == "yes"', "A", ""),
        ('A.verdict != "yes"', "", ""),
        ("A.verdict != none", "A", ""),
        ("A.verdict == none", "", "A"),
        ("not (A.verdict == none)", "A", ""),
        ("A.score > B.score", "AB", ""),
        ("A.answer == B.answer", "", ""),
        ('A.verdict == "yes" and B.score < 3', "AB", ""),
        ("A.verdict == none or B.verdict == none", "", "AB"),
    ],
)
def test_what_is_bound_when_a_condition_holds(text: str, true: str, false: str) -> None:
    expression = condition(text)
    assert bound_when(expression, True) == frozenset(true)
    assert bound_when(expression, False) == frozenset(false)


@pytest.mark.parametrize(
    ("text", "risky"),
    [
        ('A.verdict == "yes"', "A"),
        ("A.verdict == none", ""),
        ('A.verdict != none and A.verdict == "yes"', ""),
        ('A.verdict == none or A.verdict == "yes"', ""),
        ('A.verdict == "yes" and A.verdict != none', "A"),
        ('loop.index > 1 and A.verdict == "yes"', ""),
        ('loop.index == 1 and A.verdict == "yes"', "A"),
    ],
)
def test_reads_that_would_pass_unnoticed_in_the_first_iteration(text: str, risky: str) -> None:
    assert {part["agent"] for part in risky_reads(condition(text), frozenset(), FIRST)} == set(risky)


@pytest.mark.parametrize(
    "text",
    [
        "loop.index + 2 * (loop.max - 1) < 3",
        "(loop.index - 1) - (loop.max - 2) > 0",
        'A.verdict == "yes" and (B.verdict == "no" or not loop.last)',
        'not (A.verdict == "yes" or loop.last)',
        "-A.score < 0.5",
        "A.score / 2 % 3 == 1e-7",
        'equal(A.answer, "a \\"quoted\\"\\nline") > 0',
    ],
)
def test_wording_is_the_language_itself(text: str) -> None:
    expression = condition(text)
    assert condition(text_of(expression)) == expression
