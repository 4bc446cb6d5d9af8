"""Rows as systems see them: flat columns, an `id` for every row, all columns in every row; and mixtures of several.

Nothing is kept but where rows lie: a row is read, and made, each time that it is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, overload

from drmas_dsl.errors import UserError
from runtime.datasets.files import Row, Table


class Rows(Sequence[Row]):
    """Rows by number, or slices of them as lists. `columns` are those of every row."""

    columns: tuple[str, ...] = ()

    def read(self, number: int) -> Row:
        """A row."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        numbers = range(len(self))[index]
        return self.read(numbers) if isinstance(numbers, int) else [self.read(number) for number in numbers]


class TableRows(Rows):
    """The rows of a table; with `columns`, only these, as `["question", "answer = solution"]` names them."""

    def __init__(self, name: str, table: Table, columns: Sequence[str] | None = None) -> None:
        """Raises UserError where the table has no rows, lacks a column, or its ids do not name rows."""
        if not len(table):
            raise UserError(f"{name} has no rows")
        self._table = table
        self._named = _names(columns) if columns else None
        known = dict.fromkeys(table.columns or (column for row in table for column in flat(row)))
        if self._named:
            for old in self._named.values():
                if old.partition(".")[0] not in known and old not in known:
                    raise UserError(f"{name} has no column {old!r}", f"its columns are {', '.join(known)}")
            known = dict.fromkeys(self._named)
        self._has_ids = "id" in known
        self.columns = tuple(dict.fromkeys((*known, "id")))
        if self._has_ids:
            self._check_ids()

    def __len__(self) -> int:
        return len(self._table)

    def read(self, number: int) -> Row:
        """A row."""
        row = self._chosen(flat(self._table[number]))
        if not self._has_ids:
            row["id"] = str(number)
        return {column: row.get(column) for column in self.columns}

    def _chosen(self, row: Row) -> Row:
        return row if self._named is None else {new: _at(row, old) for new, old in self._named.items()}

    def _check_ids(self) -> None:
        seen: dict[str, int] = {}
        for number, row in enumerate(self._table):
            id = self._chosen(flat(row)).get("id")
            if id is None:
                raise UserError(f"{self._table.place(number)}: no id, where other rows have one")
            if (first := seen.setdefault(str(id), number)) != number:
                raise UserError(
                    f"{self._table.place(number)}: the id {id!r} is that of {self._table.place(first)} too",
                    "ids name the questions of a dataset",
                )


class Mixture(Rows):
    """Several datasets: their rows one after the other, and the `weights` by which training draws from each. An id is
    told apart by the number of its dataset, from 1."""

    def __init__(self, parts: Sequence[Rows], weights: Sequence[float] | None) -> None:
        """Without weights, the parts count by their sizes. The parts of a mixture in it become parts."""
        weights = [float(len(part)) for part in parts] if weights is None else weights
        self.parts: list[Rows] = []
        self.weights: list[float] = []
        for part, weight in zip(parts, weights, strict=True):
            inner = part.parts if isinstance(part, Mixture) else [part]
            shares = part.weights if isinstance(part, Mixture) else [1.0]
            self.parts += inner
            self.weights += [weight / sum(weights) * share for share in shares]
        self.columns = tuple(dict.fromkeys(column for part in self.parts for column in part.columns))
        self._ends = list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def read(self, number: int) -> Row:
        """A row."""
        place = bisect_right(self._ends, number)
        row = self.parts[place][number - (self._ends[place - 1] if place else 0)]
        return {**dict.fromkeys(self.columns), **row, "id": f"{place + 1}:{row['id']}"}


def flat(row: Mapping[str, Any]) -> Row:
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


def _names(columns: Sequence[str]) -> dict[str, str]:
    """New names to old ones."""
    pairs = ([part.strip() for part in item.partition("=")] for item in columns)
    return {new: old or new for new, _, old in pairs}


def _at(row: Mapping[str, Any], name: str) -> Any:
    """A column, or what lies in one: `answers.text`."""
    if name in row or "." not in name:
        return row.get(name)
    outer, _, inner = name.partition(".")
    return _at(value, inner) if isinstance(value := row.get(outer), Mapping) else None
