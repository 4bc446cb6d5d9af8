""" "Did you mean": the nearest known name, and the finding about an unknown one.

Used for names of every kind; what is known is the caller's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from drmas_dsl.diagnostics.diagnostic import Edit, Help, Label
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.syntax.source import Span


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, or None."""
    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def listed(names: Iterable[str], limit: int = 8, quote: str = "`") -> str:
    """Names for a message, each quoted; the first few of many."""
    names = list(names)
    text = ", ".join(f"{quote}{name}{quote}" for name in names[:limit])
    return f"{text}, …" if len(names) > limit else text


def unknown(
    report: Report,
    code: str,
    message: str,
    name: str,
    span: Span,
    known: Iterable[str],
    labels: Iterable[Label] = (),
    notes: Iterable[str] = (),
) -> None:
    """Report an unknown name at `span`, which covers exactly the name, with the nearest known one as an edit; where
    none is near, with the list of what there is."""
    known = list(known)
    match = nearest(name, known)
    if match is not None:
        help = Help(f"did you mean `{match}`?", (Edit(span, match),))
    elif known:
        help = Help(f"known here: {listed(known)}")
    else:
        help = None
    report.add(code, message, span, labels=labels, notes=notes, help=help)
