"""Parsers: the last occurrence counts, `after`, defaults, and texts that do not parse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.graph.settings import Call, Output
from runtime.rollout import parsers
from runtime.rollout.program import prepare
from tests.rollout.support import TOKENIZER, agent, chain, system


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<s>one</s> <s> two\nlines </s>", "two\nlines"),
        ("<s>done</s> <s>open", "done"),
        ("<s>a <s>b</s>", "b"),
        ("<s>a</s> b</s>", "a"),
        ("<s></s>", ""),
        ("</s>x<s>", None),
        ("<S>x</S>", None),
        ("", None),
    ],
)
def test_tag(text: str, value: str | None):
    assert parsers.tag(text, "s") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think><s>no</s></think> <s>yes</s>", "yes"),
        ("<think><s>no</s></think>", None),
        ("<s>yes</s>", None),
        ("<think>a</think><s>x</s><think>b</think>", None),
        ("opened in the prompt</think><s>x</s>", "x"),
    ],
)
def test_after_reads_only_behind_the_tags_end(text: str, value: str | None):
    assert parsers.tag(text, "s", after="think") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<v> Approve\n</v>", "approve"),
        ("<v>reject</v><v>APPROVE</v>", "approve"),
        ("<v>approve</v><v>hm</v>", None),
        ("<v>approved</v>", None),
        ("approve", None),
    ],
)
def test_choice_in_a_tag(text: str, value: str | None):
    assert parsers.choice(text, ["approve", "reject"], tag="v") == value
    assert parsers.choice(text, ["approve", "reject"], tag="v", default="reject") == (value or "reject")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" Yes ", "yes"),
        ("no, I mean yes.", "yes"),
        ("yesterday", None),
        ("not sure", "Not sure"),
        ("A+ or C++", "C++"),
        ("", None),
    ],
)
def test_choice_in_the_open_is_the_last_one_that_stands_alone(text: str, value: str | None):
    assert parsers.choice(text, ["yes", "no", "sure", "Not sure", "C++"]) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{4} and \boxed{5", "4"),
        (r"\boxed{ \{1, 2\} }", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{}", ""),
        ("boxed{1}", None),
    ],
)
def test_boxed(text: str, value: str | None):
    assert parsers.boxed(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 apples and 4", 4.0),
        ("about 1,234,567.5 dollars", 1234567.5),
        ("x = -2.", -2.0),
        ("5-3", 3.0),
        ("5 - 3", 3.0),
        ("(2)-1", 1.0),
        ("−7", -7.0),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("1,2", 2.0),
        ("9e999", None),
        ("none", None),
    ],
)
def test_number(text: str, value: float | None):
    assert parsers.number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('first {"a": 1} then {"b": [2, {"c": null}]} end', {"b": [2, {"c": None}]}),
        ("[1] [2", [1]),
        ('{"a": "}{"}', {"a": "}{"}),
        ('{"a": NaN}', None),
        ("no json", None),
        ("[" * 3000, None),
        ("[[" * 400 + "[1]", [1]),
    ],
)
def test_json(text: str, value: Any):
    assert parsers.json(text) == value


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [("a1 b2", r"[a-z](\d)", "2"), ("a1 b2", r"[a-z]\d", "b2"), ("a1", r"x", None), ("ab", r"a(x)?b", None)],
)
def test_regex(text: str, pattern: str, value: str | None):
    assert parsers.regex(text, pattern) == value


def test_text():
    assert parsers.text("  all of it ") == "all of it" and parsers.text(" \n") is None
    assert parsers.text("<think>x</think> rest", after="think") == "rest"


@given(st.text(alphabet='<>/ab\\{}boxed[]",:1.-e ', max_size=80))
def test_no_text_makes_a_parser_raise(text: str):
    values = [
        parsers.tag(text, "a"),
        parsers.choice(text, ["a", "b"]),
        parsers.boxed(text),
        parsers.number(text),
        parsers.json(text),
        parsers.regex(text, "a(.)"),
        parsers.text(text),
    ]
    assert values[0] is None or f"<a>{values[0]}" in text.replace(" ", "") or values[0] in text
    assert values[2] is None or values[2] in text


def test_an_agents_outputs_together():
    outputs = (
        Output("a", Call("tag", {"name": "a", "after": None}), "string"),
        Output("v", Call("choice", {"options": ["x", "y"], "tag": None, "default": "y", "after": None}), "string"),
    )
    made = chain(system([agent("A", outputs=outputs)]), "A")
    made.nodes["n2"]["value"] = {"kind": "text", "agent": "A"}
    speaker = prepare(made, {"m": TOKENIZER}).speakers["A"]
    assert speaker.read("<a>1</a> x") == ({"a": "1", "v": "x"}, True, False)
    assert speaker.read("<a>1</a>") == ({"a": "1", "v": "y"}, False, True)
    assert speaker.read("x") == ({"a": None, "v": "x"}, False, False)


def test_boxed_leaves_thinking_out():
    assert parsers.boxed(r"<think>\boxed{1}</think> so \boxed{2} or \boxed{3}") == "3"
    assert parsers.boxed(r"\boxed{1}</think> no box") is None and parsers.boxed(r"<think>\boxed{1}") == "1"
    assert parsers.boxed(r"<think>\boxed{1}</think>\boxed{2}</think>\boxed{3}", after="think") == "3"
