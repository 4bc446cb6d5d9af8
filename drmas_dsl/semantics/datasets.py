"""The columns of JSONL and CSV datasets, so that `task.x` can be checked before anything runs.

Reads the first rows only. What the runtime makes of a row is known here too: the published training files' nested
columns come out flat (`env_kwargs`, `reward_model`), and every row has an `id`. Parquet is left to the runtime.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from drmas_dsl.diagnostics.diagnostic import Help
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.suggest import listed
from drmas_dsl.syntax.source import Span

ROWS = 1000
SUFFIXES = (".jsonl", ".csv", ".parquet")


def columns_of(call: Call, span: Span, context: Context) -> tuple[str, frozenset[str]] | None:
    """The file of a dataset as shown to the user, and its columns; None where they are not known. `span` is the
    setting's value, where an unreadable file is reported."""
    if call.function != "dataset":
        return None
    file = call.args["path"]["path"]
    path = os.path.join(context.base, file)
    suffix = os.path.splitext(file)[1].lower()  # noqa: PTH122
    if suffix not in SUFFIXES:
        help = Help(f"its name must end in {listed(SUFFIXES)}")
        context.report.add("E0702", f"`{file}` is no dataset", span, help=help)
        return None
    if suffix == ".parquet":
        return None
    try:
        names = _jsonl(path) if suffix == ".jsonl" else _csv(path)
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        context.report.add("E0702", f"`{file}` cannot be read: {_reason(error)}", span)
        return None
    if not names:
        context.report.add("E0702", f"`{file}` has no rows", span)
        return None
    if call.args["columns"]:
        names = _chosen(call.args["columns"], names, file, span, context)
    return file, frozenset(names) | {"id"}


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _jsonl(path: str) -> set[str]:
    names: set[str] = set()
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(islice(file, ROWS), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} is not JSON ({error.msg})") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not an object of columns")
            names.update(_flat(row))
    return names


def _flat(row: dict[str, Any]) -> Iterator[str]:
    """The columns of a row, and those that the runtime takes out of nested ones."""
    yield from row
    nested = row.get("env_kwargs")
    if isinstance(nested, dict):
        yield from nested
    if isinstance(row.get("reward_model"), dict):
        yield "ground_truth"
    if "ground_truth" in row or "reward_model" in row or (isinstance(nested, dict) and "ground_truth" in nested):
        yield "answer"


def _csv(path: str) -> set[str]:
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        header = set(next(csv.reader(file, strict=True), []))
    return header | ({"answer"} if "ground_truth" in header else set())


def _chosen(columns: list[Any], names: set[str], file: str, span: Span, context: Context) -> set[str]:
    """The names after `columns = ["question", "answer = solution"]`, the new name before the file's."""
    chosen = set()
    for item in columns:
        new, _, old = (part.strip() for part in str(item).partition("="))
        chosen.add(new)
        if (old or new) not in names:
            known = sorted(names)
            help = Help(f"its columns are {listed(known)}")
            context.report.add("E0703", f"the dataset `{file}` lacks a column `{old or new}`", span, help=help)
    return chosen
