"""Questions: the rows of a dataset, and which of them a step asks.

Reads JSONL, CSV and Parquet. The rows of the reference's datasets (`env_kwargs`, `reward_model`) come out flat, as any
other. Which columns a system needs is the compiler's business.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.rollout.functions import Function, find_added, resolved

Row = dict[str, Any]
Placed = tuple[str, Row]  # where a row stands, for messages, and the row


def load_rows(call: Call, base: str, plugins: Sequence[Any] = ()) -> list[Row]:
    """The rows of `dataset(path, columns)`, or those that a function of a plug-in gives; relative paths start from `base`.

    Every row has all columns of the file (None where it lacks one) and an `id` of its own: the file's, else its number
    from 0. Where there is no `answer`, `ground_truth` stands in.

    Raises:
        UserError: the file cannot be read, or a line of it makes no row.
    """
    args = {name: resolved(value, base) for name, value in call.args.items()}
    if call.function == "dataset":
        source = args["path"]
        placed = _read(Path(source), args.get("columns"))
    else:
        source = f"{call.function}(…)"
        placed = _made(source, find_added(plugins, base, "dataset", call.function), args)
    if not placed:
        raise UserError(f"{source} has no rows")
    _identify(placed)
    columns = dict.fromkeys(column for _, row in placed for column in row)
    return [{column: row.get(column) for column in columns} for _, row in placed]


class QuestionSampler:
    """Which rows a step asks: epochs in an order that the seed shuffles, one after the other, addressed by step from 0."""

    def __init__(self, rows: Sequence[Row], batch_size: int, seed: int) -> None:
        self._rows = rows
        self._batch_size = batch_size
        self._seed = seed

    def batch(self, step: int) -> list[Row]:
        """The rows of a step. Where the rows do not divide evenly, a batch goes on in the next epoch."""
        start = step * self._batch_size
        return [self._at(place) for place in range(start, start + self._batch_size)]

    def _at(self, place: int) -> Row:
        epoch, place = divmod(place, len(self._rows))
        return self._rows[_shuffled(len(self._rows), self._seed, epoch)[place]]


@lru_cache(maxsize=4)
def _shuffled(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def _read(path: Path, columns: Sequence[str] | None) -> list[Placed]:
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise UserError(f"{path} is no dataset", f"its name must end in {', '.join(_READERS)}")
    try:
        placed = [(place, _flat(row)) for place, row in read(path)]
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "see the system's dataset(…)") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    return _chosen(placed, columns, path) if columns and placed else placed


def _made(source: str, function: Function, args: Mapping[str, Any]) -> list[Placed]:
    """The rows that a plug-in's function makes."""
    try:
        rows = list(function(**args))
    except Exception as error:
        raise UserError(f"the dataset {source} fails: {type(error).__name__}: {error}") from error
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise UserError(f"{source}: row {number} is no mapping of columns but {type(row).__name__}")
    return [(f"{source}: row {number}", _flat(dict(row))) for number, row in enumerate(rows)]


def _jsonl(path: Path) -> Iterator[Placed]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                row = json.loads(line.rstrip())
            except json.JSONDecodeError as error:
                raise UserError(
                    f"{place}:{error.colno}: no JSON: {error.msg}", "a JSONL file has an object on each line"
                ) from error
            if not isinstance(row, dict):
                raise UserError(f"{place}: not an object of columns", 'e.g. {"question": "1 + 1?", "answer": "2"}')
            yield place, row


def _csv(path: Path) -> Iterator[Placed]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header: list[str] | None = None
        try:
            for values in reader:
                place = f"{path}:{reader.line_num}"
                if header is None:
                    header = values
                    if len(set(header)) < len(header):
                        raise UserError(f"{place}: two columns have the same name", "rename one of them")
                elif values:
                    if len(values) != len(header):
                        raise UserError(f"{place}: {len(values)} values for {len(header)} columns")
                    yield place, dict(zip(header, values, strict=True))
        except csv.Error as error:
            raise UserError(f"{path}:{reader.line_num}: no CSV: {error}") from error


def _parquet(path: Path) -> Iterator[Placed]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path} is no Parquet file: {error}") from error
    for number, row in enumerate(rows):
        yield f"{path}: row {number}", row


_READERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}


def _flat(row: Row) -> Row:
    """The row with the reference's nested columns beside the others: `env_kwargs` unfolded, `ground_truth` out of
    `reward_model` (its `target`, where it has one), and `answer` where there was none."""
    row = dict(row)
    if isinstance(kwargs := row.get("env_kwargs"), dict):
        row = {**row, **kwargs}
    if isinstance(model := row.get("reward_model"), dict) and row.get("ground_truth") is None:
        row["ground_truth"] = model.get("ground_truth")
    if isinstance(truth := row.get("ground_truth"), dict) and truth.keys() == {"target"}:
        row["ground_truth"] = truth["target"]
    if row.get("answer") is None and row.get("ground_truth") is not None:
        row["answer"] = row["ground_truth"]
    return row


def _chosen(placed: Sequence[Placed], columns: Sequence[str], path: Path) -> list[Placed]:
    """Only the named columns: `["question", "answer = solution"]`, the new name before the file's."""
    names = {}
    for item in columns:
        new, _, old = (part.strip() for part in item.partition("="))
        names[new] = old or new
    known = dict.fromkeys(column for _, row in placed for column in row)
    for old in names.values():
        if old not in known:
            raise UserError(f"{path} has no column {old!r}", f"its columns are {', '.join(known)}")
    return [(place, {new: row.get(old) for new, old in names.items()}) for place, row in placed]


def _identify(placed: Sequence[Placed]) -> None:
    """Give every row an `id` where the file has none."""
    if not any("id" in row for _, row in placed):
        for number, (_, row) in enumerate(placed):
            row["id"] = str(number)
        return
    seen: dict[str, str] = {}
    for place, row in placed:
        if row.get("id") is None:
            raise UserError(f"{place}: no id, where other rows have one")
        if (first := seen.setdefault(str(row["id"]), place)) != place:
            raise UserError(
                f"{place}: the id {row['id']!r} is that of {first} too", "ids name the questions of a dataset"
            )
