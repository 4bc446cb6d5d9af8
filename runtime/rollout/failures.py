"""Why a trajectory cannot go on. What is wrong with the whole run is a `UserError` instead."""

from __future__ import annotations


class Failure(Exception):
    """This trajectory cannot go on; its message is the record's `failed`."""


class ToolFailure(Failure):
    """A tool cannot answer: its server is down, or what it was given makes no sense."""


def described(error: BaseException) -> str:
    """An exception as one line: a failure's own words, and the kind before those of any other."""
    return str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
