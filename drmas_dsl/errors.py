"""The one exception that a user is meant to read.

Whatever goes wrong because of what the user gave (a file, a setting, a checkpoint, a server that is down) is
raised as `UserError`; the command line prints it without a traceback. A bug stays an ordinary exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drmas_dsl.diagnostics.diagnostic import Diagnostic
    from drmas_dsl.syntax.source import Source


class UserError(Exception):
    """An error in the user's terms: what is wrong, and how to go on."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:  # it crosses process borders
        return type(self), (self.message, self.help)


def first_line(error: BaseException) -> str:
    """What an exception says first; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class CompileError(UserError):
    """A system with errors. It carries every finding and the texts that they point into, and the command line prints
    them as `drmasc check` does."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], sources: Mapping[str, Source]) -> None:
        errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
        super().__init__(f"the system has {'an error' if errors == 1 else f'{errors} errors'}")
        self.diagnostics = diagnostics
        self.sources = sources

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.diagnostics, self.sources)
