"""The compiler as one visible pipeline: sources -> trees -> checked system -> execution graph -> findings.

`check` is the whole of it and never raises for what a `.mas` file says; `compile_file` and `load_graph` are for who needs
the graph or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from drmas_dsl.diagnostics.consequences import independent
from drmas_dsl.diagnostics.diagnostic import Diagnostic
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.errors import CompileError, UserError
from drmas_dsl.graph.analyses import analyse
from drmas_dsl.graph.budget import Budget
from drmas_dsl.graph.lowering import finished, lower
from drmas_dsl.graph.serialize import from_json
from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax import ast
from drmas_dsl.syntax.parser import parse, read_source
from drmas_dsl.syntax.source import Source

_NAMES = ("E02", "E0306", "E0309", "E0402", "E0403", "E0508", "E0511")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All findings in the order of files (the main one first) and places, the texts that they point into, the graph where
    there is no error, and the prompts' lengths where there is a flow."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]
    graph: nx.MultiDiGraph | None
    budgets: tuple[Budget, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is an error."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)


def check(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> CheckResult:
    """Everything that is to be said about a `.mas` file and the files that it uses.

    Raises:
        UserError: the file cannot be read.
    """
    source, found = read_source(os.fspath(path))
    main, syntax = parse(source)
    syntax = [*found, *syntax]
    sources = {source.file: source}
    checked, semantic = resolve(main, sources, overrides)
    found = [*syntax, *independent(semantic, syntax, [main], sources)]
    partial = any(diagnostic.code.startswith("E01") for diagnostic in found)
    report = Report()
    lengths: tuple[Budget, ...] = ()
    lowered = lower(checked, report) if checked is not None else None
    if checked is not None and lowered is not None and not partial:
        lengths = analyse(checked, lowered, [main, *_used(sources, main)], report)
    found += independent(report.diagnostics, syntax, [main], sources)
    if any(one.code.startswith(_NAMES) for one in found):  # what is misspelled there is not unused here
        found = [one for one in found if one.code != "W0201"]
    order = {file: number for number, file in enumerate(sources)}
    found.sort(key=lambda one: (order.get(one.span.file, len(order)), one.span.start, one.span.end))
    failed = any(one.severity == "error" for one in found)
    return CheckResult(
        tuple(dict.fromkeys(found)),
        sources,
        finished(lowered.graph) if lowered is not None and not failed else None,
        lengths,
    )


def compile_file(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> nx.MultiDiGraph:
    """The execution graph of a `.mas` file.

    Raises:
        CompileError: the system has errors.
        UserError: the file cannot be read.
    """
    result = check(path, overrides)
    if result.graph is None:
        raise CompileError(result.diagnostics, result.sources)
    return result.graph


def load_graph(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> nx.MultiDiGraph:
    """The execution graph of a `.mas` file, or of the JSON that it was compiled to.

    Raises:
        CompileError: the system has errors.
        UserError: the file cannot be read or is no graph, or there are overrides for a compiled one.
    """
    name = os.fspath(path)
    if not name.endswith(".json"):
        return compile_file(name, overrides)
    if overrides:
        raise UserError(f"`{name}` is compiled: --set needs the .mas file", "compile it again with --set")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read `{name}`: {getattr(error, 'strerror', None) or error}") from error
    return from_json(text, os.path.dirname(os.path.abspath(name)))


def _used(sources: Mapping[str, Source], main: ast.File) -> list[ast.File]:
    """The trees of the `.mas` files that the main one uses."""
    return [parse(source)[0] for file, source in sources.items() if file.endswith(".mas") and file != main.path]
