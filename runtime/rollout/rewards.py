"""Rewards: how well an answer agrees with the gold one, from 0 to 1; 0 where either is none.

A gold answer may be a list of several; the one that agrees best counts. `math_equal` leaves the mathematics to the
`math-verify` package, in a process of its own (see `grader`).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable
from typing import Any

from runtime.rollout import parsers
from runtime.rollout.grader import mathematically_equal, verified


def math_equal(answer: Any, gold: Any) -> float:
    """1 where both are mathematically equal (LaTeX or plain). Of a text with `\\boxed{…}`, its last one behind any thinking
    counts."""
    return _against(_math_equal, answer, gold)


def exact_match(answer: Any, gold: Any) -> float:
    """1 where equal after the SQuAD normalisation: lower case, no punctuation, no articles, single spaces."""
    return _against(lambda a, g: float(_squad(a) == _squad(g)), answer, gold)


def f1(answer: Any, gold: Any) -> float:
    """F1 of the tokens after the SQuAD normalisation."""
    return _against(_f1, answer, gold)


def equal(answer: Any, gold: Any) -> float:
    """1 where equal as stripped texts."""
    return _against(lambda a, g: float(a.strip() == g.strip()), answer, gold)


def reasoning_gym_score(answer: Any, entry: Any) -> float:
    """What Reasoning Gym's verifier gives for an answer to a row of `reasoning_gym(…)`, from 0 to 1: `entry` is the row's
    column of that name."""
    return 0.0 if answer is None or entry is None else verified(_text(answer), entry)


def _against(score: Callable[[str, str], float], answer: Any, gold: Any) -> float:
    golds = gold if isinstance(gold, (list, tuple)) else [gold]
    if answer is None:
        return 0.0
    return max((score(_text(answer), _text(each)) for each in golds if each is not None), default=0.0)


def _text(value: Any) -> str:
    """As text; whole floats as integers, so that `number()` agrees with a gold "4"."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _math_equal(answer: str, gold: str) -> float:
    answer, gold = (parsers.boxed(text) or text for text in (answer, gold))
    return 1.0 if answer.strip() == gold.strip() else float(mathematically_equal(answer, gold))


_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _squad(text: str) -> str:
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _f1(answer: str, gold: str) -> float:
    said, known = _squad(answer).split(), _squad(gold).split()
    if not said or not known:
        return float(said == known)
    common = sum((Counter(said) & Counter(known)).values())
    return 2 * common / (len(said) + len(known))
