"""The table of codes: every finding the compiler can make, one line each.

E01 syntax, E02 names, E03 types and settings, E04 prompts, E05 flow, E06 training, E07 files; W likewise. A code never changes
its meaning and is never used twice. The longer text of `drmasc explain CODE` stands in `explanations/CODE.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from drmas_dsl.diagnostics.diagnostic import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """A code and what it means in a few words."""

    code: str
    title: str

    @property
    def severity(self) -> Severity:
        """E is an error, W a warning."""
        return "error" if self.code[0] == "E" else "warning"


_TABLE = (
    # Syntax
    Code("E0101", "unexpected syntax"),
    Code("E0102", "unclosed block"),
    Code("E0103", "unclosed string"),
    Code("E0104", "nesting too deep"),
    Code("E0105", "bad escape in a string"),
    Code("E0106", "file is not UTF-8"),
    # Names
    Code("E0201", "unknown name"),
    Code("E0202", "duplicate name"),
    Code("E0203", "cycle of inheritance"),
    Code("E0204", "cycle of `use`"),
    Code("E0205", "cycle of params"),
    Code("E0206", "unknown setting"),
    Code("E0207", "unknown function"),
    Code("E0208", "unknown output or field"),
    Code("E0209", "unknown path in an override"),
    Code("E0210", "missing declaration"),
    Code("E0211", "name of another kind"),
    Code("E0212", "reserved name"),
    # Types and settings
    Code("E0301", "wrong type"),
    Code("E0302", "out of range"),
    Code("E0303", "missing mandatory setting"),
    Code("E0304", "value that a choice cannot have"),
    Code("E0305", "comparison of unlike types"),
    Code("E0306", "wrong arguments"),
    Code("E0307", "not known at compile time"),
    Code("E0308", "arithmetic without a result"),
    Code("E0309", "function of another kind"),
    Code("E0310", "unknown value of an enumeration"),
    Code("E0311", "bad pattern or choices of a parser"),
    Code("E0312", "misplaced setting or block"),
    # Prompts
    Code("E0401", "bad template"),
    Code("E0402", "unknown name in a prompt"),
    Code("E0403", "unknown field in a prompt"),
    Code("E0404", "template feature that prompts do not have"),
    # Flow
    Code("E0501", "unreachable statement"),
    Code("E0502", "path without `return`"),
    Code("E0503", "`break` or `continue` outside of a loop"),
    Code("E0504", "jump out of a `parallel`"),
    Code("E0505", "conflict between parallel branches"),
    Code("E0506", "`parallel N` inside `parallel N`"),
    Code("E0507", "read that no path can satisfy"),
    Code("E0508", "recursive pattern"),
    Code("E0509", "list on one path, single value on another"),
    Code("E0510", "prompt that cannot fit the context"),
    Code("E0511", "patterns that expand to too much"),
    # Training
    Code("E0601", "setting of a shared policy on an agent"),
    Code("E0602", "training setting of what is frozen"),
    Code("E0603", "setting that the algorithm does not honour"),
    Code("E0604", "setting that the engine does not honour"),
    Code("E0605", "groups of one"),
    Code("E0606", "trained agent at temperature 0"),
    Code("E0607", "setting without its feature"),
    # Files
    Code("E0701", "missing file"),
    Code("E0702", "unreadable file"),
    Code("E0703", "column that a dataset lacks"),
    Code("E0704", "bad plug-in"),
    # Warnings
    Code("W0201", "unused declaration"),
    Code("W0401", "`loop` of a template's `for`"),
    Code("W0501", "read that some path leaves unbound"),
    Code("W0502", "condition that is always the same"),
    Code("W0503", "loop that cannot run twice"),
    Code("W0504", "history that may overflow the context"),
    Code("W0601", "truncated sampling of a trained agent"),
)

CODES: dict[str, Code] = {code.code: code for code in _TABLE}
