"""Parsers of outputs: the text of a response to a value, or None where it does not parse.

One function per parser of the language, with the parameters of its signature behind the text. The last occurrence
counts; `after = "think"` reads only behind the last `</think>`, and nothing where there is none.
"""

from __future__ import annotations

import json as jsonlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any


def tag(text: str, name: str, after: str | None = None) -> str | None:
    """The stripped text of the last `<name>…</name>`."""
    found = _tag_pattern(name).findall(_behind(text, after))
    return found[-1].strip() if found else None


def choice(
    text: str, options: Sequence[str], tag: str | None = None, default: str | None = None, after: str | None = None
) -> str | None:
    """The option that the last such tag holds, as it is declared. Without a tag: the last option that occurs as a word
    of its own. `default` where there is none."""
    if tag is None:
        found = _options_pattern(tuple(options)).findall(_behind(text, after))
    else:
        found = _tag_pattern(tag).findall(_behind(text, after))
    said = found[-1].strip().casefold() if found else None
    return next((option for option in options if option.strip().casefold() == said), default)


def boxed(text: str, after: str | None = None) -> str | None:
    """The content of the last `\\boxed{…}` whose braces close; what stands before a `</think>` is no answer."""
    text = _behind(text, after or ("think" if "</think>" in text else None))
    start = text.rfind(_BOXED)
    while start >= 0:
        inside = start + len(_BOXED)
        end = _closing_brace(text, inside)
        if end is not None:
            return text[inside:end].strip()
        start = text.rfind(_BOXED, 0, start)
    return None


def number(text: str, after: str | None = None) -> float | None:
    """The last number; commas may group its thousands."""
    found = _NUMBER.findall(_behind(text, after))
    value = float(found[-1].replace(",", "").replace("−", "-")) if found else math.nan
    return value if math.isfinite(value) else None


def json(text: str, after: str | None = None) -> Any:
    """The last JSON object or array that is not inside of another."""
    text = _behind(text, after)
    value, place = None, 0
    while match := _JSON_START.search(text, place):
        try:
            value, place = _JSON.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            place = match.start() + 1
    return value


def regex(text: str, pattern: str, after: str | None = None) -> str | None:
    """Group 1 of the last match, or all of it where the pattern has no group."""
    last = None
    for last in re.finditer(pattern, _behind(text, after)):  # noqa: B007  (the last match is what counts)
        pass
    return last[1 if last.re.groups else 0] if last else None


def text(text: str, after: str | None = None) -> str | None:
    """All of the text, stripped; an empty one does not parse."""
    return _behind(text, after).strip() or None


_BOXED = "\\boxed{"
_NUMBER = re.compile(r"(?:(?<![\w.)])[-+−])?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_JSON_START = re.compile(r"[{\[]")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_JSON = jsonlib.JSONDecoder(parse_constant=_no_constant)


def _behind(text: str, after: str | None) -> str:
    return text if after is None else text.rpartition(f"</{after}>")[2] if f"</{after}>" in text else ""


@lru_cache
def _tag_pattern(name: str) -> re.Pattern[str]:
    opening, closing = re.escape(f"<{name}>"), re.escape(f"</{name}>")
    return re.compile(f"{opening}((?:(?!{opening}).)*?){closing}", re.DOTALL)


@lru_cache
def _options_pattern(options: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted((option.strip() for option in options), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)


def _closing_brace(text: str, place: int) -> int | None:
    """Where the brace that opened just before `place` closes; escaped braces are text."""
    depth = 1
    for match in _BRACE.finditer(text, place):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return None


_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
