"""Mathematical texts made ready for comparison: spellings that a parser of LaTeX trips over, units, percent and degrees.

It knows how answers are written, not what they are worth: that is `math-verify`'s business (see `math_worker`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Spellings to the one that parses.
_SPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<!\\)\\!", ""),
        (r"(?<=\d)(?:\\,|\{,\}|\\ )(?=\d{3}(?!\d))", ","),  # groups of thousands
        (r"(?<!\\)\\[,;:> ]|~|\\q?quad\b", " "),
        (r"\\varnothing\b|\\\{\s*\\\}|^\{\s*\}$", r"\\emptyset"),
        (r"\\log_\{?e\}?(?![a-z])", r"\\ln"),
        (r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d+)(?!\w)", r"\1 \\times 10^{\2}"),
        (r"(?<=[\d)}])\s+i\b", "i"),
        (r"°|\^\{?\s*\\(?:circ|degree)\s*\}?|\\degree\b", r"^\\circ"),
        (r"(?<=[\d}])\s*(?:\\text\{\s*)?\bdegrees?\b\s*\}?", r"^\\circ"),
        (r"(?<=[\d}])\s*(?:\\text\{\s*)?\bper\s?cent\b\s*\}?", r"\\%"),
        (r"(?<!\\)%", r"\\%"),
    )
)


def tidy(text: str) -> str:
    """The text in spellings that parse, without dollar signs around it and a full stop behind it."""
    text = text.strip()
    text = text[1:-1].strip() if len(text) > 2 and text[0] == text[-1] == "$" else text
    text = re.sub(r"^\\?\$\s*(?=\d)", "", text.removesuffix("."))  # an amount of money
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return _REPEATING.sub(_fraction, text).strip()


_REPEATING = re.compile(r"(?<![\d.])(\d*)\.(\d*)\\overline\{(\d+)\}")


def _fraction(decimal: re.Match[str]) -> str:
    """A repeating decimal as a fraction: `0.1\\overline{6}` is (16 - 1) / 90."""
    whole, fixed, repeated = decimal.groups()
    numerator = int(whole + fixed + repeated) - int(whole + fixed or "0")
    return f"\\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"


def word(text: str) -> str | None:
    """The words of a text that is no formula, in lower case, `\\text{…}` and brackets taken off; None for any other."""
    bare = re.sub(r"\\(?:text|textbf|textit|mathrm|mathbf)\b", "", text)
    bare = " ".join(re.sub(r"[{}()\"']", " ", bare).split()).casefold()
    return bare if bare and re.fullmatch(r"[^\W\d_]+(?: [^\W\d_]+)*", bare) else None


class Quantity(NamedTuple):
    """A number's text and its unit: the dimension as powers of base units, and its size in them."""

    number: str
    dimension: str
    factor: str


_LENGTH = {"mm": "0.001", "cm": "0.01", "dm": "0.1", "m": "1", "km": "1000"}
_LENGTH |= {"in": "0.0254", "ft": "0.3048", "yd": "0.9144", "mi": "1609.344"}
_KNOWN: dict[str, tuple[str, str]] = {
    **{name: ("length", factor) for name, factor in _LENGTH.items()},
    **{name: ("mass", f) for name, f in {"mg": "0.001", "g": "1", "kg": "1000", "lb": "453.59237"}.items()},
    **{name: ("time", f) for name, f in {"ms": "0.001", "s": "1", "min": "60", "h": "3600", "d": "86400"}.items()},
    **{name: ("volume", f) for name, f in {"ml": "0.001", "l": "1"}.items()},
    **{name: ("speed", f) for name, f in {"m/s": "1", "km/h": "(1/3.6)", "mph": "0.44704"}.items()},
}
_NAMES = {
    "millimeter": "mm", "millimetre": "mm", "centimeter": "cm", "centimetre": "cm", "meter": "m", "metre": "m",
    "kilometer": "km", "kilometre": "km", "inch": "in", "inche": "in", "foot": "ft", "feet": "ft", "yard": "yd", "mile": "mi",
    "gram": "g", "kilogram": "kg", "milligram": "mg", "pound": "lb", "second": "s", "sec": "s", "minute": "min",
    "hour": "h", "hr": "h", "day": "d", "liter": "l", "litre": "l", "milliliter": "ml", "millilitre": "ml",
    "mile per hour": "mph", "miles per hour": "mph", "meters per second": "m/s", "kilometers per hour": "km/h", "kph": "km/h",
}  # fmt: skip
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_MARKED = r"(?:\\(?:text|textrm|mathrm|mbox|rm|operatorname)\s*\{(?P<marked>[^{}]*)\})"
# A number, and behind it a unit: marked as text, or plain words of two letters and more.
_QUANTITY = re.compile(
    rf"(?P<number>[^a-zA-Z]*(?:\\(?:frac|dfrac|tfrac|sqrt|pi|cdot|times)\b[^a-zA-Z]*)*?)\s*"
    rf"(?:{_MARKED}|(?<![\\a-zA-Z])(?P<plain>[a-zA-Z]{{2,}}(?:[ /][a-zA-Z]+)*))\s*(?:\^\s*\{{?\s*(?P<power>[23])\s*\}}?)?",
)


def quantity(text: str) -> Quantity | None:
    """A number with a unit behind it, or None where the text is no such thing. A unit that is not known has an empty
    dimension: `12 apples` is 12."""
    match = _QUANTITY.fullmatch(text)
    if match is None or not re.search(r"\d|\\pi", match["number"]):
        return None
    unit = " ".join((match["marked"] or match["plain"] or "").split()).strip(" .").casefold()
    power = match["power"] or "1"
    first, _, rest = unit.partition(" ")
    if first in _POWERS and rest:
        unit, power = rest, _POWERS[first]
    written = re.fullmatch(r"(.*[a-z])\s*\^\s*\{?([23])\}?", unit)
    if written:
        unit, power = written[1], written[2]
    dimension, factor = _KNOWN.get(_short(unit), ("", "1"))
    if not dimension:
        return Quantity(match["number"].strip(), "", "1")
    if dimension == "volume":
        dimension, factor = "length^3", f"({factor} / 1000)"
    elif power != "1":
        dimension, factor = f"{dimension}^{power}", f"({factor})^{power}"
    return Quantity(match["number"].strip(), dimension, factor)


def _short(unit: str) -> str:
    if unit in _KNOWN:
        return unit
    single = unit if unit in _NAMES else unit.removesuffix("s")
    return _NAMES.get(single, single)
