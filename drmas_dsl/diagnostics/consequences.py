"""Which findings may only follow from what the parser could not read.

One mistake is one finding: a name is not unknown if its declaration is in a lost place, a setting is not missing there. What is wrong
elsewhere in a file with syntax errors is reported all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.syntax.ast import File
from drmas_dsl.syntax.source import Source

# About names, missing parts, arguments and columns: what a lost word can be the reason of.
_ABOUT_WORDS = ("E02", "E0303", "E0306", "E0309", "E0402", "E0403", "E05", "E0607", "E0703")
# The same, where the name of what is lost is lost as well.
_ABOUT_ANYTHING = (
    "E0201",
    "E0207",
    "E0208",
    "E0210",
    "E0211",
    "E0303",
    "E0309",
    "E0402",
    "E0403",
    "E0501",
    "E0502",
    "E0503",
)
_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"`([^`]*)`")
_KEYWORD = r"(?:system|use|param|model|role|agent|tool|flow|task|train|eval|resources)\b"
_NAMED_DECLARATION = re.compile(rf"(?:{_KEYWORD}\s*(?!{_KEYWORD})\w|(?:flow|task|train|eval|resources)\s*\{{|use\b)")
_NAMED_MEMBER = re.compile(rf"(?!{_KEYWORD}\s*[^\s={{:])[^\W\d]")


def independent(
    findings: Iterable[Diagnostic], syntax: Sequence[Diagnostic], files: Iterable[File], sources: Mapping[str, Source]
) -> list[Diagnostic]:
    """The findings that do not follow from the syntax errors of the files."""
    if not syntax:
        return list(findings)
    broken = {_line(finding, sources) for finding in syntax}
    lost = {word for file, line in broken if file in sources for word in _words(sources[file].line(line))}
    nameless = False
    for file in files:
        starts = [one.span.start for one in file.declarations]
        for span in file.lost:
            text = sources[file.path].text[span.start : span.end]
            lost.update(_words(text))
            before = bisect_left(starts, span.start) - 1
            inside = before >= 0 and span.start < file.declarations[before].span.end
            nameless |= not (_NAMED_MEMBER if inside else _NAMED_DECLARATION).match(text)
    dropped = _ABOUT_ANYTHING if nameless else ()
    return [
        one
        for one in findings
        if _line(one, sources) not in broken and not one.code.startswith(dropped) and not _follows(one, lost)
    ]


def _line(finding: Diagnostic, sources: Mapping[str, Source]) -> tuple[str, int]:
    source = sources.get(finding.span.file)
    return finding.span.file, source.position(finding.span.start)[0] if source else 0


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _follows(finding: Diagnostic, lost: set[str]) -> bool:
    """Whether the finding speaks of a word that is lost."""
    if not finding.code.startswith(_ABOUT_WORDS):
        return False
    return any(word in lost for quoted in _QUOTED.findall(finding.message) for word in _words(quoted))
