"""The process in which `grader` has answers compared: one JSON line `[answer, gold]` in, one line `true` or `false` out.

It lives until stdin ends. It has no time limit: whoever asks kills it. Where `math-verify` and a mathematician disagree, the
texts are changed before it sees them (`math_text`); `tests/rollout/math_pairs.jsonl` holds the verdicts.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

from math_verify import parse, verify
from sympy import Expr, I

from runtime.rollout.math_text import quantity, tidy, word

PERCENT = r"\%"
DEGREE = r"^\circ"


def equal(answer: str, gold: str) -> bool:
    """Whether both are mathematically equal, each read as LaTeX and, where that finds nothing, as it stands.

    A unit may be left out, but not be another one. An answer or gold in percent is the share, or the number before the
    sign; an angle in degrees is that in radians, or the number.
    """
    answer, gold = tidy(answer), tidy(gold)
    said, wanted = word(answer), word(gold)
    if said and wanted:
        return said == wanted
    of_answer, of_gold = quantity(answer), quantity(gold)
    if of_answer and of_gold and of_answer.dimension and of_gold.dimension:
        if of_answer.dimension != of_gold.dimension:
            return False
        return _same(*(f"({amount.number}) \\cdot {amount.factor}" for amount in (of_answer, of_gold)))
    answer = of_answer.number if of_answer else answer
    gold = of_gold.number if of_gold else gold
    return any(_same(a, g) for g in _readings(gold, True) for a in _readings(answer, PERCENT in gold))


def _readings(text: str, bare: bool) -> Iterator[str]:
    """What a text with percent or degrees may stand for. The bare number of a share of at most one percent is one only
    with `bare`: 0.5 % for 0.5 is a mistake, 20 % for 20 is not."""
    if PERCENT in text:
        number = text.replace(PERCENT, "").strip()
        yield f"\\frac{{{number}}}{{100}}"
        if bare or not re.fullmatch(r"-?0?\.\d+|[-+]?[01]", number):
            yield number
    elif DEGREE in text:
        yield text.replace(DEGREE, "")
        yield text.replace(DEGREE, r" \cdot \frac{\pi}{180}")
    else:
        yield text


def _same(answer: str, gold: str) -> bool:
    return verify(_parsed(gold), _parsed(answer), timeout_seconds=None, allow_set_relation_comp=True)


def _parsed(text: str) -> list[object]:
    forms = [f"\\boxed{{{text}}}", text]
    if len(re.findall(r"(?<!\\)\b[a-zA-Z]{2,}", text)) > 2:
        forms.reverse()  # a sentence with the answer somewhere
    return [_with_i(found) for found in parse(forms[0], parsing_timeout=None) or parse(forms[1], parsing_timeout=None)]


def _with_i(found: Any) -> Any:
    """What was found, with `i` for the imaginary unit."""
    if not isinstance(found, Expr):
        return found
    return found.subs({symbol: I for symbol in found.free_symbols if symbol.name == "i"})


def main() -> None:
    """Answer until stdin ends."""
    logging.disable(logging.WARNING)
    print('"ready"', flush=True)
    for line in sys.stdin:
        answer, gold = json.loads(line)
        try:
            result = equal(answer, gold)
        except Exception:  # whatever sympy makes of a model's text, it is not the gold answer
            result = False
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
