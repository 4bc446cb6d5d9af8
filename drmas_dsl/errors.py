"""The one exception that a user is meant to read.

Whatever goes wrong because of what the user gave (a file, a setting, a checkpoint, a server that is down) is
raised as `UserError`; the command line prints it without a traceback. A bug stays an ordinary exception.
"""

from __future__ import annotations


class UserError(Exception):
    """An error in the user's terms: what is wrong, and how to go on."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __reduce__(self) -> tuple[type, tuple[str, str]]:  # it crosses process borders
        return type(self), (self.message, self.help)
