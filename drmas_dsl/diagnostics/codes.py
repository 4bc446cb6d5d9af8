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
    # Names
    Code("E0201", "unknown name"),
    Code("E0202", "duplicate name"),
    Code("E0203", "cycle of inheritance"),
    # Types and settings
    Code("E0301", "wrong type"),
    Code("E0302", "out of range"),
    # Prompts
    Code("E0401", "bad template"),
    # Flow
    Code("E0501", "unreachable statement"),
    # Training
    Code("E0601", "setting of a shared policy on an agent"),
    # Files
    Code("E0701", "missing file"),
    # Warnings
    Code("W0201", "unused declaration"),
)

CODES: dict[str, Code] = {code.code: code for code in _TABLE}
