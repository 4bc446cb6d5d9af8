"""What the parser makes of correct text: every construct's tree, what strings mean, where things stand, and how fast."""

from __future__ import annotations

import gc
import time
from ast import parse as parse_python
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.format import meaning
from drmas_dsl.syntax.parser import parse, parse_expression, read_source
from drmas_dsl.syntax.source import Source, Span
from tests.syntax.programs import spans_of


def tree(text: str) -> ast.File:
    file, found = parse(Source("x.mas", text))
    assert found == []
    return file


def expression(text: str) -> Any:
    value, found = parse_expression(Source("x.mas", text))
    assert found == []
    return value


def written(value: Any) -> str:
    """An expression with every operation in parentheses."""
    match value:
        case ast.Binary():
            return f"({written(value.left)} {value.op} {written(value.right)})"
        case ast.Unary():
            return f"({value.op} {written(value.operand)})"
        case ast.Attribute():
            return f"{written(value.value)}.{value.name.name}"
        case ast.Call():
            parts = [
                f"{one.name.name}: {written(one.value)}" if one.name else written(one.value) for one in value.arguments
            ]
            return f"{value.function.name}({', '.join(parts)})"
        case ast.ListExpr():
            return f"[{', '.join(map(written, value.items))}]"
        case ast.Name():
            return value.name
        case _:
            return repr(value.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a or b and not c == d", "(a or (b and (not (c == d))))"),
        ("1 - 2 - -3 * x / 4 % y", "((1 - 2) - ((((- 3) * x) / 4) % y))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a.b.c < task.in", "(a.b.c < task.in)"),
        ("f(x, n = 1, [a, 'b',],)".replace("'", '"'), "f(x, n: 1, [a, 'b'])"),
        ("agent", "agent"),
        ("agent()", "agent()"),
        ("stats(mean = agent, std = none)", "stats(mean: agent, std: None)"),
        ("loop.last and reward >= 1e-3", "(loop.last and (reward >= 0.001))"),
        ("true", "True"),
        ("1e-6", "1e-06"),
        ("12", "12"),
        ("not not a", "(not (not a))"),
    ],
)
def test_expressions(text: str, meant: str) -> None:
    assert written(expression(text)) == meant


def test_numbers_keep_their_type() -> None:
    assert [type(expression(text).value) for text in ("1", "1.0", "1e3", "true", "none")] == [
        int, float, float, bool, type(None),
    ]  # fmt: skip


def test_declarations() -> None:
    file = tree("""
        system math "about"  use "lib.mas"
        param rounds: int = 2 * 2 in 1..8  param name: string = "x"
        model m { weights = "a"; chat { enable_thinking = false }, }
        agent A : base { output x = boxed() reward = 1 }
        tool find = lookup()
        flow refine(a, b,) { a -> b }
        task { reward = 1, reward A = 2 }
        resources { pool main { gpus = 4 } }
    """)
    system, use, rounds, name, model, agent, tool, pattern, task, resources = file.declarations
    assert isinstance(system, ast.SystemDecl)
    assert isinstance(system.description, ast.Text)
    assert (system.name.name, system.description.value) == ("math", "about")
    assert isinstance(use, ast.UseDecl)
    assert use.path.value == "lib.mas"
    assert isinstance(rounds, ast.ParamDecl)
    assert isinstance(name, ast.ParamDecl)
    assert (rounds.type.name, written(rounds.default), written(rounds.low), written(rounds.high)) == (
        "int",
        "(2 * 2)",
        "1",
        "8",
    )
    assert (name.low, name.high) == (None, None)
    assert isinstance(model, ast.EntityDecl)
    assert [type(item).__name__ for item in model.items] == ["Setting", "Block"]
    assert isinstance(agent, ast.EntityDecl)
    assert agent.base is not None
    assert (agent.kind, agent.name.name, agent.base.name) == ("agent", "A", "base")
    assert [type(item).__name__ for item in agent.items] == ["OutputDef", "Setting"]
    assert isinstance(tool, ast.ToolDecl)
    assert written(tool.value) == "lookup()"
    assert isinstance(pattern, ast.FlowDecl)
    assert [parameter.name for parameter in pattern.parameters] == ["a", "b"]
    assert isinstance(task, ast.SectionDecl)
    assert [item.target and item.target.name for item in task.items if isinstance(item, ast.Setting)] == [None, "A"]
    assert isinstance(resources, ast.SectionDecl)
    pool = resources.items[0]
    assert isinstance(pool, ast.Block)
    assert pool.label is not None
    assert (pool.name.name, pool.label.name) == ("pool", "main")


def test_statements() -> None:
    flow = tree("""flow {
        A; refine(A, 2) -> B
        x = find(A.q)  y = x
        if a { A } elif b { } else { B }
        if a { }
        loop n { break continue }
        parallel { A { B C } }  parallel 5 { A }
        return none
    }""").declarations[0]
    assert isinstance(flow, ast.FlowDecl)
    kinds = ["Do", "Chain", "Assign", "Assign", "If", "If", "Loop", "Parallel", "Parallel", "Return"]
    assert [type(statement).__name__ for statement in flow.body] == kinds
    full, bare = flow.body[4], flow.body[5]
    assert isinstance(full, ast.If)
    assert isinstance(bare, ast.If)
    assert [len(body) for _, body in full.branches] == [1, 0]
    assert full.orelse is not None
    assert len(full.orelse) == 1
    assert bare.orelse is None
    together, copies = flow.body[7], flow.body[8]
    assert isinstance(together, ast.Parallel)
    assert isinstance(copies, ast.Parallel)
    assert [type(one).__name__ for one in together.body] == ["Do", "Sequence"]
    assert (together.count, written(copies.count)) == (None, "5")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (r'"a\n\t\"\\ \u{1F600}\u{e4}"', 'a\n\t"\\ \U0001f600ä'),
        ('""', ""),
        ('"""a "quoted" \\n"""', 'a "quoted" \\n'),
        ('"""\n  a\n    b\n\n  c\n  """', "a\n  b\n\nc\n"),
        ('"""\n\ta\n\t b"""', "a\n b"),
        ('"""first\n    second\n    """', "first\nsecond\n"),
        ('"""  \n  a\n """', "a\n"),
        ('"""\r\n  a\r\n"""', "a\n"),
        ('""""""', ""),
        ('"""\n"""', ""),
    ],
)
def test_what_strings_mean(raw: str, value: str) -> None:
    source = Source("x", raw.replace("\r\n", "\n"))
    text, found = parse_expression(source)
    assert found == []
    assert isinstance(text, ast.Text)
    assert text.value == value
    assert len(text.offsets) == len(value) + 1
    assert all(a < b for a, b in pairwise(text.offsets))
    for character, offset in zip(value, text.offsets, strict=False):
        assert source.text[offset] in (character, "\\"), "an offset points at its character, or at its escape"


def test_places_lie_in_each_other_and_read_as_written() -> None:
    text = 'agent A : b { x = f(1, n = -2) }\nflow { if a == "x" { A -> B } return (a) }'
    file = tree(text)
    for outer, inner in spans_of(file):
        assert outer.start <= inner.start <= inner.end <= outer.end
    agent, flow = file.declarations
    assert isinstance(agent, ast.EntityDecl)
    assert isinstance(flow, ast.FlowDecl)
    read = lambda span: text[span.start : span.end]  # noqa: E731
    assert read(agent.keyword) == "agent"
    assert read(agent.items[0].span) == "x = f(1, n = -2)"
    assert read(flow.body[0].span) == 'if a == "x" { A -> B }'
    assert read(flow.body[1].span) == "return (a)"


def test_separators_mean_nothing() -> None:
    assert meaning(tree("train { a = 1, b = 2; c = 3 }")) == meaning(tree("train { a = 1 b = 2\n# x\nc = 3, }"))


def timed(text: str) -> tuple[float, int]:
    gc.collect()
    source = Source("x", text)
    start = time.process_time()
    _, found = parse(source)
    return time.process_time() - start, len(found)


def test_ten_thousand_statements_take_a_few_times_what_python_takes_for_its_own() -> None:
    """Its parser is in C, and a busy machine slows both."""
    statements = "Solver\nx = find(Solver.query)\n" * 5000
    parse(Source("x", ""))
    pythons, ours = [], []
    for _ in range(3):
        start = time.process_time()
        parse_python(statements)
        pythons.append(time.process_time() - start)
        ours.append(timed("flow {\n" + statements + "return x\n}")[0])
    assert min(ours) < 5 * min(pythons)


HOSTILE = ["(", "{", "}", "[(", "$ ", "$\n", '"\n', '"""', "\0", "-", "not ", "a ", "a.", "agent A {\n", "train = \n", "{ ( ",
           "x = f(a b) ", "flow { loop 2 { ", "if a { } else ", "agent A { x = }\n", '"""\nx = """', "1 ", "\r", "é", "#\n"]  # fmt: skip


@pytest.mark.parametrize("head", ["", "flow { return "])
@pytest.mark.parametrize("part", HOSTILE, ids=ascii)
def test_hostile_text_takes_linear_time_and_is_no_traceback(part: str, head: str) -> None:
    small, _ = timed(head + part * (4_000 // len(part)))
    large, _ = timed(head + part * (32_000 // len(part)))
    assert large < 0.1 + 8 * 3 * small, "eight times the text takes far more than eight times as long"


def test_a_megabyte_of_one_string_and_of_one_line() -> None:
    assert timed('agent A { prompt = """' + "line\n" * 100_000 + '""" }')[0] < 5
    assert timed("train { " + "a = 1, " * 20_000 + "}")[0] < 5


def test_files_that_cannot_be_read_are_the_users_business(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.mas", "a\0b"):
        with pytest.raises(UserError, match="cannot read"):
            read_source(str(path))
    (tmp_path / "x.mas").write_bytes(b"train { lr = \xff }")
    source, found = read_source(str(tmp_path / "x.mas"))
    assert [one.code for one in found] == ["E0106"]
    assert found[0].span == Span(source.file, 13, 14)
