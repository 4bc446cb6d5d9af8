"""The process in which `grader` has answers compared: one JSON line `[answer, gold]` in, one line `true` or `false` out.

It lives until stdin ends. It has no time limit: whoever asks kills it.
"""

from __future__ import annotations

import json
import logging
import sys

from math_verify import parse, verify


def equal(answer: str, gold: str) -> bool:
    """Whether both are mathematically equal, each read as LaTeX and, where that finds nothing, as it stands."""
    return verify(_parsed(gold), _parsed(answer), timeout_seconds=None)


def _parsed(text: str) -> list[object]:
    boxed = text if "\\boxed" in text else f"\\boxed{{{text}}}"
    return parse(boxed, parsing_timeout=None) or parse(text, parsing_timeout=None)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print('"ready"', flush=True)
    for line in sys.stdin:
        answer, gold = json.loads(line)
        try:
            result = equal(answer, gold)
        except Exception:  # whatever sympy makes of a model's text, it is not the gold answer
            result = False
        print(json.dumps(result), flush=True)
