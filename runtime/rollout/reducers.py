"""Reducers of the flow: the list that a parallel part leaves, to one value.

What is not bound yet reads as none, so a reducer takes None in place of a list and as any of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def vote(xs: Sequence[Any] | None) -> Any:
    """The commonest value; skips none; ties go to the earliest."""
    values = _present(xs)
    return max(values, key=values.count, default=None)


def first(xs: Sequence[Any] | None) -> Any:
    """The first value that is not none."""
    return next(iter(_present(xs)), None)


def best(xs: Sequence[Any] | None, by: Sequence[float | None] | None) -> Any:
    """The value whose `by` is largest, the earliest of equals; skips values without one, and none."""
    pairs = [(x, score) for x, score in zip(xs or (), by or (), strict=False) if x is not None and score is not None]
    return max(pairs, key=lambda pair: pair[1], default=(None, None))[0]


def concat(xs: Sequence[Any] | None, separator: str = "\n") -> str:
    """The values that are not none as one text."""
    return separator.join(str(x) for x in _present(xs))


def count(xs: Sequence[Any] | None, value: Any = None) -> int:
    """How many are not none or, where a value is given, equal it."""
    return len(_present(xs)) if value is None else sum(x == value for x in xs or ())


def _present(xs: Sequence[Any] | None) -> list[Any]:
    return [x for x in xs or () if x is not None]
