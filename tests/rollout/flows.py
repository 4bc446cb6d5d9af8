"""Random flows: as a tree, as `.mas` text, and what they mean, told by a plain recursive reading of the tree.

A statement is a tuple that begins with its kind:

    ("call", agent)  ("if", condition, then, otherwise)  ("loop", n, body)  ("break",)  ("continue",)
    ("parallel", [body, …])  ("copies", n, body)

A condition is ("task", column), ("loop", index) or ("judge", word).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

WORKERS = ("A", "B", "C", "D")
COLUMNS = ("b0", "b1", "b2")
WORDS = ("yes", "no")
PROMPT = "{{ role }}|{% for turn in history %}{{ turn.agent }}={{ turn.text }};{% endfor %}"


@st.composite
def flows(draw: st.DrawFn) -> list[Any]:
    """A flow that the compiler takes: `J` is called first and stays out of forks, so its output is always bound."""
    return [("call", "J"), *draw(_block(3, ("J", *WORKERS), False, False))]


@st.composite
def _block(draw: st.DrawFn, depth: int, agents: tuple[str, ...], in_loop: bool, in_copies: bool) -> list[Any]:
    return [draw(_statement(depth, agents, in_loop, in_copies)) for _ in range(draw(st.integers(1, 3)))]


@st.composite
def _statement(draw: st.DrawFn, depth: int, agents: tuple[str, ...], in_loop: bool, in_copies: bool) -> Any:
    kinds = ["call"] + (["if", "loop", "parallel", "copies"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    workers = [agent for agent in agents if agent != "J"]
    if kind == "if":
        then = draw(_block(depth - 1, agents, in_loop, in_copies))
        if in_loop and draw(st.booleans()):
            then = [*then, draw(st.sampled_from([("break",), ("continue",)]))]
        otherwise = draw(st.one_of(st.just([]), _block(depth - 1, agents, in_loop, in_copies)))
        return ("if", draw(_condition(in_loop)), then, otherwise)
    if kind == "loop":
        return ("loop", draw(st.integers(1, 3)), draw(_block(depth - 1, agents, True, in_copies)))
    if kind == "parallel" and len(workers) > 1:
        cut = draw(st.integers(1, len(workers) - 1))
        parts = (tuple(workers[:cut]), tuple(workers[cut:]))
        return ("parallel", [draw(_block(depth - 1, part, False, in_copies)) for part in parts])
    if kind == "copies" and workers and not in_copies:
        return ("copies", draw(st.integers(2, 3)), draw(_block(depth - 1, tuple(workers), False, True)))
    return ("call", draw(st.sampled_from(agents)))


def _condition(in_loop: bool) -> st.SearchStrategy[tuple[str, Any]]:
    columns = st.tuples(st.just("task"), st.sampled_from(COLUMNS))
    words = st.tuples(st.just("judge"), st.sampled_from(WORDS))
    indices = st.tuples(st.just("loop"), st.integers(1, 2))
    return st.one_of(columns, words, indices) if in_loop else st.one_of(columns, words)


def source(flow: list[Any]) -> str:
    """The flow in a whole system."""
    agents = "\n".join(
        f'agent {name} {{ model = m, role = "{name}", prompt = "{PROMPT}", output word = tag("w"), '
        f"sampling {{ max_tokens = 16 }} }}"
        for name in ("J", *WORKERS)
    )
    return (
        "system random\nmodel m { weights = tiny(), context = 1000000 }\n"
        f"{agents}\nflow {{\n{_text(flow)}\nreturn J.word\n}}\n"
        'task { reward = equal(result, "yes") }\n'
    )


def _text(block: list[Any]) -> str:
    return "\n".join(map(_line, block))


def _line(statement: Any) -> str:
    match statement:
        case ("call", agent):
            return agent
        case ("if", condition, then, otherwise):
            tail = f" else {{ {_text(otherwise)} }}" if otherwise else ""
            return f"if {_condition_text(condition)} {{ {_text(then)} }}{tail}"
        case ("loop", count, body):
            return f"loop {count} {{ {_text(body)} }}"
        case ("parallel", branches):
            return "parallel { " + " ".join(f"{{ {_text(branch)} }}" for branch in branches) + " }"
        case ("copies", count, body):
            return f"parallel {count} {{ {_text(body)} }}"
        case (word,):
            return word
    raise ValueError(statement)


def _condition_text(condition: tuple[str, Any]) -> str:
    match condition:
        case ("task", column):
            return f"task.{column} == 1"
        case ("loop", index):
            return f"loop.index == {index}"
        case (_, word):
            return f'J.word == "{word}"'


def says(agent: str, history: str) -> str:
    """What an agent answers: decided by what it reads."""
    return f"<w>{WORDS[zlib.crc32(f'{agent}|{history}'.encode()) % 2]}</w>"


@dataclass
class Reading:
    """The meaning of a flow for one row: `turns` as (agent, prompt, text), in the order of the history."""

    row: dict[str, int]
    turns: list[tuple[str, str, str]] = field(default_factory=list)
    judged: str = ""

    def block(self, block: list[Any], index: int) -> str | None:
        """Read a block; "break" or "continue" where it leaves the iteration."""
        for statement in block:
            if left := self.statement(statement, index):
                return left
        return None

    def statement(self, statement: Any, index: int) -> str | None:
        match statement:
            case ("call", agent):
                self.call(agent)
            case ("if", condition, then, otherwise):
                return self.block(then if self.holds(condition, index) else otherwise, index)
            case ("loop", count, body):
                for iteration in range(1, count + 1):
                    if self.block(body, iteration) == "break":
                        break
            case ("parallel", branches):
                self.fork(branches, index)
            case ("copies", count, body):
                self.fork([body] * count, index)
            case (word,):
                return word
        return None

    def call(self, agent: str) -> None:
        prompt = f"{agent}|" + "".join(f"{who}={text};" for who, _, text in self.turns)
        text = says(agent, prompt)
        self.turns.append((agent, prompt, text))
        if agent == "J":
            self.judged = text[3:-4]

    def fork(self, branches: list[Any], index: int) -> None:
        readings = [Reading(self.row, list(self.turns), self.judged) for _ in branches]
        start = len(self.turns)
        for reading, branch in zip(readings, branches, strict=True):
            reading.block(branch, index)
        for reading in readings:
            self.turns += reading.turns[start:]

    def holds(self, condition: tuple[str, Any], index: int) -> bool:
        kind, value = condition
        readers: dict[str, Callable[[], bool]] = {
            "task": lambda: self.row[value] == 1,
            "loop": lambda: index == value,
            "judge": lambda: self.judged == value,
        }
        return readers[kind]()
