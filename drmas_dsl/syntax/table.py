"""The parser's tables: built from `grammars/mas.lark` by Lark, kept beside it as JSON.

Lark proves the grammar free of conflicts and computes the LALR(1) tables; that takes half a second, so the result ships as
`mas.table.json`, and neither Lark nor the grammar is touched when a file is parsed. A table that is not the
grammar's (its hash differs) is built anew in memory. `python -m drmas_dsl.syntax.table` writes the file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

GRAMMAR = Path(__file__).parents[2] / "grammars" / "mas.lark"
TABLE = GRAMMAR.with_name("mas.table.json")
STARTS = ("file", "expression")


@dataclass(frozen=True)
class Table:
    """The LALR(1) automaton.

    `states[s][symbol]` is the next state for a shift (or, for a rule's name, after its reduction); a reduction by rule r is
    `-1 - r`. `rules[r]` is (name of the rule, length, name of the alternative, whether a single child stands for it). `terminals` are
    (name, regular expression) in the order in which the lexer tries them.
    """

    states: tuple[dict[str, int], ...]
    rules: tuple[tuple[str, int, str, bool], ...]
    terminals: tuple[tuple[str, str], ...]
    start: dict[str, int]
    end: dict[str, int]


@cache
def load() -> Table:
    """The tables of the grammar."""
    grammar = GRAMMAR.read_bytes()
    data: dict[str, Any] = json.loads(TABLE.read_bytes()) if TABLE.exists() else {}
    if data.get("grammar") != _digest(grammar):
        data = generate()
    return Table(
        tuple(data["states"]),
        tuple((name, length, alternative, single) for name, length, alternative, single in data["rules"]),
        tuple((name, pattern) for name, pattern in data["terminals"]),
        data["start"],
        data["end"],
    )


def generate() -> dict[str, Any]:
    """The tables as JSON data, computed by Lark from the grammar. The same grammar gives the same data."""
    from lark import Lark
    from lark.parsers.lalr_analysis import Shift

    text = GRAMMAR.read_bytes()
    lark = Lark(text.decode(), parser="lalr", lexer="basic", start=list(STARTS), strict=True)
    parse_table = lark.parser.parser._parse_table
    number = {rule: index for index, rule in enumerate(lark.rules)}
    renamed = _renumbered(parse_table, list(parse_table.start_states.values()), Shift)
    states: list[dict[str, int]] = [{} for _ in renamed]
    for state, actions in parse_table.states.items():
        row = {
            symbol: renamed[argument] if action is Shift else -1 - number[argument]
            for symbol, (action, argument) in actions.items()
        }
        states[renamed[state]] = dict(sorted(row.items()))
    return {
        "grammar": _digest(text),
        "start": {name: renamed[state] for name, state in parse_table.start_states.items()},
        "end": {name: renamed[state] for name, state in parse_table.end_states.items()},
        "terminals": [[terminal.name, terminal.pattern.to_regexp()] for terminal in lark.parser.lexer.terminals],
        "rules": [_rule(rule) for rule in lark.rules],
        "states": states,
    }


def _rule(rule: Any) -> list[Any]:
    """A rule as `Table.rules` holds it: `?rule` lets an only child stand for it."""
    name, length = rule.origin.name, len(rule.expansion)
    return [name, length, rule.alias or name, rule.options.expand1 and not rule.alias and length == 1]


def _renumbered(parse_table: Any, starts: list[int], shift: Any) -> dict[int, int]:
    """New numbers for the states, by a walk from the start states in the order of the symbols' names."""
    numbers: dict[int, int] = {}
    waiting = list(starts)
    while waiting:
        state = waiting.pop(0)
        if state not in numbers:
            numbers[state] = len(numbers)
            waiting += [a for _, (action, a) in sorted(parse_table.states[state].items()) if action is shift]
    return numbers


def _digest(grammar: bytes) -> str:
    return hashlib.sha256(grammar).hexdigest()


def main() -> None:
    """Write the tables beside the grammar."""
    data = generate()
    rows = {key: value for key, value in data.items() if key != "states"}
    head = json.dumps(rows, indent=None)[:-1]
    states = ",\n".join(json.dumps(row, separators=(",", ":")) for row in data["states"])
    TABLE.write_text(f'{head}, "states": [\n{states}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
