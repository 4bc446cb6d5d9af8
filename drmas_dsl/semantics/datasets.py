"""The columns of datasets in JSONL and CSV files, so that `task.x` can be checked before anything runs.

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
from drmas_dsl.graph.datafiles import SUFFIXES, data_files, suffix_of
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.context import Context
from drmas_dsl.semantics.suggest import listed
from drmas_dsl.syntax.source import Span

ROWS = 1000  # of each file
GYM_COLUMNS = frozenset({"id", "question", "answer", "data_source", "entry"})


def columns_of(call: Call, span: Span, context: Context) -> dict[str, frozenset[str]]:
    """The columns of a call's datasets that are known, by their name as shown to the user. `span` is the setting's value,
    where an unreadable file is reported."""
    if call.function == "mix":
        parts = [columns_of(part, span, context) for part in call.args["datasets"]]
        return {name: columns for part in parts for name, columns in part.items()}
    if call.function == "reasoning_gym":
        return {f"reasoning_gym({call.args['task']})": GYM_COLUMNS}
    if call.function != "dataset" or isinstance(call.args["path"], str):
        return {}
    shown = call.args["path"]["path"]
    files = data_files(os.path.join(context.base, shown))
    try:
        names = _columns(files)
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        context.report.add("E0702", f"`{shown}` cannot be read: {_reason(error)}", span)
        return {}
    except _NoDataset:
        help = Help(f"its name must end in {listed(SUFFIXES)}")
        context.report.add("E0702", f"`{shown}` is no dataset", span, help=help)
        return {}
    if names is None:
        return {}
    if not names:
        context.report.add("E0702", f"`{shown}` has no rows", span)
        return {}
    if call.args["columns"]:
        names = _chosen(call.args["columns"], names, shown, span, context)
    return {shown: frozenset(names) | {"id"}}


class _NoDataset(Exception):
    """A file with another suffix."""


def _columns(files: list[str]) -> set[str] | None:
    """The columns of the files together, by the first rows; None where one is Parquet."""
    suffixes = {suffix_of(file) for file in files}
    if not suffixes <= set(SUFFIXES):
        raise _NoDataset
    if ".parquet" in suffixes:
        return None
    names: set[str] = set()
    for file in files:
        names |= _jsonl(file) if suffix_of(file) == ".jsonl" else _csv(file)
    return names


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
        if (old or new).partition(".")[0] not in names and (old or new) not in names:
            known = sorted(names)
            help = Help(f"its columns are {listed(known)}")
            context.report.add("E0703", f"the dataset `{file}` lacks a column `{old or new}`", span, help=help)
    return chosen
