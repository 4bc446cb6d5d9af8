"""The functions of estimates.mas: a dataset, a parser, a tool and a reward. Plain typed Python; there is nothing to register."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any


def products(count: int = 200, largest: int = 99, seed: int = 0) -> Iterator[dict[str, Any]]:
    """A dataset: questions like `47 * 82`."""
    rng = random.Random(seed)
    for _ in range(count):
        a, b = rng.randint(2, largest), rng.randint(2, largest)
        yield {"question": f"{a} * {b}", "answer": a * b}


def amount(text: str, tag: str = "answer") -> float | None:
    """A parser: the number in the last such tag, thousands grouped or not."""
    found = re.findall(rf"<{tag}>\s*([\d,]+(?:\.\d+)?)\s*</{tag}>", text)
    return float(found[-1].replace(",", "")) if found else None


def rounded(question: str, *, digits: int = 1) -> str:
    """A tool: the question with its numbers rounded to their leading digits, `47 * 82` as `50 * 80`."""

    def leading(match: re.Match[str]) -> str:
        number = int(match[0])
        unit = 10 ** max(0, len(match[0]) - digits)
        return str(round(number / unit) * unit)

    return re.sub(r"\d+", leading, question)


def near(answer: float | None, gold: float, tolerance: float = 0.1) -> float:
    """A reward: 1 for the very number, down to 0 for one that is off by a share of `tolerance`."""
    return 0.0 if answer is None else max(0.0, 1 - abs(answer - gold) / (tolerance * abs(gold)))
