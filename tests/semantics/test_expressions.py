"""Typing and folding of expressions, against Python's own arithmetic and by the table of the graph's forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.expressions import LOOP_FIELDS, Scope, Typed, constant, typed
from drmas_dsl.semantics.types import ANY, FLOAT, INT, STRING, list_of
from drmas_dsl.syntax.parser import parse_expression
from drmas_dsl.syntax.source import Source

CHOICE = replace(STRING, choices=("yes", "no"))
SCOPE = Scope(
    agents={"A": {"answer": STRING, "verdict": CHOICE, "score": FLOAT, "data": ANY}, "B": {"answer": STRING}},
    variables={"found": STRING},
    params={"rounds": 2},
    lists=frozenset({"B"}),
    loop=True,
)


def of(text: str, scope: Scope = SCOPE) -> tuple[Typed, list[str]]:
    expr, syntax = parse_expression(Source("x", text))
    assert expr is not None and not syntax
    report = Report()
    found = typed(expr, scope, report)
    return found, [finding.code for finding in report.diagnostics]


@pytest.mark.parametrize(
    ("text", "type", "expression"),
    [
        ("A.answer", STRING, {"kind": "output", "agent": "A", "name": "answer"}),
        ("A.text", STRING, {"kind": "text", "agent": "A"}),
        ("B.answer", list_of(STRING), {"kind": "output", "agent": "B", "name": "answer"}),
        ("B.text", list_of(STRING), {"kind": "text", "agent": "B"}),
        ("found", STRING, {"kind": "variable", "name": "found"}),
        ("rounds", INT, {"kind": "const", "value": 2}),
        ("rounds * 2 - 1", INT, {"kind": "const", "value": 3}),
        ("task.level", ANY, {"kind": "task", "name": "level"}),
        ("loop.index", LOOP_FIELDS["index"], {"kind": "loop", "name": "index"}),
        ("loop.last", LOOP_FIELDS["last"], {"kind": "loop", "name": "last"}),
        ("-A.score", FLOAT, {"kind": "op", "op": "neg", "args": [{"kind": "output", "agent": "A", "name": "score"}]}),
    ],
)
def test_graph_form(text: str, type: object, expression: object) -> None:
    found, codes = of(text)
    assert (found.type, found.expression, codes) == (type, expression, [])


def test_arguments_are_bound_by_name_with_defaults() -> None:
    found, codes = of("concat(B.answer)")
    assert not codes
    assert found.type == STRING
    assert found.expression == {
        "kind": "call",
        "function": "concat",
        "args": {
            "xs": {"kind": "output", "agent": "B", "name": "answer"},
            "separator": {"kind": "const", "value": "\n"},
        },
    }
    assert of("best(by = [1, 2], xs = B.text)")[0].type == STRING


def test_a_reducer_gives_the_items_type() -> None:
    both = replace(SCOPE, lists=frozenset({"A", "B"}))
    found, codes = of('vote(A.verdict) == "yes"', both)
    assert (found.type.kind, codes) == ("bool", [])
    assert of('vote(A.verdict) == "maybe"', both)[1] == ["E0304"]


@pytest.mark.parametrize(
    "text",
    [
        "A.answer == none",
        "none < A.score",
        "A.score == 1",
        "A.score >= rounds",
        'A.verdict == "yes" and not (loop.last or A.score > 1)',
        'A.data == 1 and A.data == "x"',
        "task.x == A.answer",
        "[1, 2] == [1.5]",
        '"a" < A.answer',
        "count(B.answer, none) == 0",
        "math_equal(A.answer, task.answer) + 1 > 0.5",
    ],
)
def test_fine(text: str) -> None:
    assert of(text)[1] == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("A.anwser == 1 + nothing", ["E0208", "E0201"]),
        ("(A.anwser + 1) * 2 < A.nonsense", ["E0208", "E0208"]),  # one mistake, one error
        ('A.verdict < "x"', []),
        ("1 / 0", ["E0308"]),
        ("1 % (rounds - 2)", ["E0308"]),
        ("loop", ["E0211"]),
        ("loop.latest", ["E0208"]),
        ("result", ["E0201"]),
        ("calls(A)", ["E0207"]),
        ("rounds.x", ["E0208"]),
        ("B.answer == A.answer", ["E0305"]),
        ("vote(1)", ["E0301"]),
    ],
)
def test_findings(text: str, codes: list[str]) -> None:
    assert of(text)[1] == codes


def test_no_loop_outside_of_one() -> None:
    assert of("loop.last", replace(SCOPE, loop=False))[1] == ["E0201"]


# Constants


numbers = st.one_of(st.integers(0, 99), st.floats(0, 99, allow_nan=False).map(lambda x: round(x, 3)))
sums = st.recursive(
    st.one_of(numbers.map(lambda n: f"{n:.3f}" if isinstance(n, float) else str(n)), st.sampled_from(["a", "b"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"(-{x})"),
    ),
    max_leaves=8,
)
PARAMS = {"a": 3, "b": 0.5}


@given(sums)
def test_constants_are_those_of_python(text: str) -> None:
    expr, _ = parse_expression(Source("x", text))
    assert expr is not None
    report = Report()
    try:
        expected = eval(text, {"__builtins__": {}}, PARAMS)
    except (ZeroDivisionError, OverflowError):
        assert constant(expr, PARAMS, report) is None
        assert {finding.code for finding in report.diagnostics} == {"E0308"}
        return
    value = constant(expr, PARAMS, report)
    assert not report.diagnostics
    assert type(value) is type(expected)
    assert value == expected


@given(sums, sums, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
def test_comparisons_fold_too(left: str, right: str, op: str) -> None:
    text = f"{left} {op} {right}"
    expr, _ = parse_expression(Source("x", text))
    assert expr is not None
    try:
        expected = eval(text, {"__builtins__": {}}, PARAMS)
    except (ZeroDivisionError, OverflowError):
        return
    assert constant(expr, PARAMS, Report()) is expected


@pytest.mark.parametrize("text", ["task.x", "A.answer", "vote([1])", "nothing"])
def test_what_is_no_constant_is_one_error(text: str) -> None:
    expr, _ = parse_expression(Source("x", text))
    assert expr is not None
    report = Report()
    assert constant(expr, {}, report) is None
    assert len(report.diagnostics) == 1
