"""What the checks of settings share: where findings go, which names exist, and where relative paths start.

One `Context` lives for one system. Files that settings name are looked up here, so that a missing file is reported in
one way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Edit, Help
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.semantics.plugins import PluginFunction
from drmas_dsl.semantics.suggest import listed, nearest
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.source import Source, Span

OVERRIDE = "--set"


@dataclass(slots=True)
class Context:
    """The state of one check. `base` is the absolute folder of the main file; `sources` grows by every file that is
    read; `others` says what each declared name is (for messages); `places` gives spans by path; `values` keeps what a
    setting was found to be, so that what is inherited is checked once."""

    report: Report
    base: str
    sources: dict[str, Source]
    params: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    plugins: dict[str, PluginFunction] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    places: dict[str, Span] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)

    def absolute(self, path: str, file: str) -> str:
        """The absolute form of a path that `file` names; overrides start from the current folder."""
        folder = os.path.abspath(".") if file == OVERRIDE else os.path.dirname(os.path.abspath(file))
        return os.path.normpath(os.path.join(folder, path))

    def relative(self, path: str) -> str:
        """A path as it stands in findings and in the graph: relative to the main file's folder."""
        return os.path.relpath(path, self.base).replace(os.sep, "/")

    def value(self, path: str, file: str) -> dict[str, str]:
        """The graph's form of a path: absolute where the user gave it so."""
        absolute = self.absolute(path, file)
        return {"path": absolute if os.path.isabs(path) else self.relative(absolute)}

    def exists(self, text: ast.Text, what: str, there: Callable[[str], bool] = os.path.isfile) -> bool:
        """Whether the path is there; otherwise it is reported, with the nearest neighbour in its folder."""
        absolute = self.absolute(text.value, text.span.file)
        if "\0" not in text.value and there(absolute):
            return True
        missing_file(text, absolute, what, self.report)
        return False


def missing_file(text: ast.Text, absolute: str, what: str, report: Report) -> None:
    """Report a file that is not there; the help names the nearest file in the same folder."""
    folder, name = os.path.split(absolute)
    try:
        neighbours = sorted(path.name for path in Path(folder).iterdir())
    except (OSError, ValueError):
        parent = os.path.dirname(text.value) or text.value
        report.add("E0701", f"there is no {what} `{text.value}`", text.span, notes=[f"there is no folder `{parent}`"])
        return
    if os.path.exists(absolute):
        kind = "folder" if os.path.isdir(absolute) else "file"
        report.add("E0701", f"`{text.value}` is a {kind}, not a {what}", text.span)
        return
    match = nearest(name, neighbours)
    help: Help | None
    if match is not None:
        better = text.value[: len(text.value) - len(name)] + match
        help = Help(f"did you mean `{better}`?", (Edit(text.span, f'"{better}"'),))
    else:
        alike = [other for other in neighbours if Path(other).suffix == Path(name).suffix]
        help = Help(f"the folder has {listed(alike)}") if alike else None
    report.add("E0701", f"there is no {what} `{text.value}`", text.span, help=help)
