"""Tables in JSONL, CSV and Parquet files, read row by row when a row is asked for.

Of a JSONL file only the places of its lines are kept, of Parquet the compact columns of Arrow; CSV stays in memory. Every
row can tell its place, for messages. What the columns mean is no business of this module.
"""

from __future__ import annotations

import csv
import json
import os
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.datafiles import SUFFIXES, data_files, suffix_of

Row = dict[str, Any]


class Table(ABC):
    """Rows by number. `columns` are those of every row, where that is known without reading them."""

    columns: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int: ...
    @abstractmethod
    def __getitem__(self, number: int, /) -> Row: ...
    @abstractmethod
    def place(self, number: int) -> str:
        """Where the row stands, for messages."""

    def __iter__(self) -> Iterator[Row]:
        return (self[number] for number in range(len(self)))


def open_files(path: str) -> Table:
    """The table of a file, or those of a folder or pattern one after the other.

    Raises:
        UserError: a file cannot be read, or a line of it makes no row.
    """
    files = data_files(path)
    if not files:
        raise UserError(f"{path} has no files of data", f"their names must end in {', '.join(SUFFIXES)}")
    tables = [_open(file) for file in files]
    return tables[0] if len(tables) == 1 else Joined(tables)


def _open(file: str) -> Table:
    kind = _KINDS.get(suffix_of(file))
    if kind is None:
        raise UserError(f"{file} is no dataset", f"its name must end in {', '.join(SUFFIXES)}")
    try:
        return kind(file)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}", "see the system's dataset(…)") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from error


class JsonLines(Table):
    """A JSONL file. Rows are parsed when they are asked for; opening reads the file once, for the places of its lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = Path(path).open("rb")  # noqa: SIM115  (open as long as the table is)
        self._starts, self._lines = array("Q"), array("Q")  # of the lines that are not blank: byte and number
        start = 0
        for number, line in enumerate(self._file, 1):
            if line.strip():
                self._starts.append(start)
                self._lines.append(number)
            start += len(line)
        self._size = start

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int, /) -> Row:
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else self._size
        return self._row(os.pread(self._file.fileno(), end - start, start), number)

    def __iter__(self) -> Iterator[Row]:
        with Path(self._path).open("rb") as file:
            lines = (line for line in file if line.strip())
            for number, line in enumerate(lines):
                yield self._row(line, number)

    def place(self, number: int) -> str:
        """`FILE:LINE`."""
        return f"{self._path}:{self._lines[number]}"

    def _row(self, line: bytes, number: int) -> Row:
        try:
            row = json.loads(line.decode().rstrip())
        except json.JSONDecodeError as error:
            raise UserError(
                f"{self.place(number)}:{error.colno}: no JSON: {error.msg}", "a JSONL file has an object on each line"
            ) from error
        except UnicodeDecodeError as error:
            raise UserError(f"{self.place(number)} is not UTF-8: {error.reason} at byte {error.start}") from error
        if not isinstance(row, dict):
            raise UserError(
                f"{self.place(number)}: not an object of columns", 'e.g. {"question": "1 + 1?", "answer": "2"}'
            )
        return row


class Csv(Table):
    """A CSV file with a header. All values are texts."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: list[tuple[str, ...]] = []
        self._lines = array("Q")
        header: list[str] | None = None
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
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
                        self._rows.append(tuple(values))
                        self._lines.append(reader.line_num)
            except csv.Error as error:
                raise UserError(f"{path}:{reader.line_num}: no CSV: {error}") from error
        self._header = header or []

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int, /) -> Row:
        return dict(zip(self._header, self._rows[number], strict=True))

    def place(self, number: int) -> str:
        """`FILE:LINE`."""
        return f"{self._path}:{self._lines[number]}"


class Parquet(Table):
    """A Parquet file, its columns mapped into memory by Arrow."""

    def __init__(self, path: str) -> None:
        import pyarrow
        import pyarrow.parquet

        self._path = path
        try:
            self._table = pyarrow.parquet.read_table(path, memory_map=True)
        except pyarrow.ArrowInvalid as error:
            raise UserError(f"{path} is no Parquet file: {error}") from error

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, number: int, /) -> Row:
        return self._table.slice(number, 1).to_pylist()[0]

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(batch.to_pylist() for batch in self._table.to_batches(max_chunksize=1024))

    def place(self, number: int) -> str:
        """The file and the row's number from 0."""
        return f"{self._path}: row {number}"


class Joined(Table):
    """Several tables, one after the other."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._ends = list(accumulate(map(len, tables)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int, /) -> Row:
        table, inside = self._inside(number)
        return table[inside]

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self._tables)

    def place(self, number: int) -> str:
        """As the row's own table says."""
        table, inside = self._inside(number)
        return table.place(inside)

    def _inside(self, number: int) -> tuple[Table, int]:
        place = bisect_right(self._ends, number)
        return self._tables[place], number - (self._ends[place - 1] if place else 0)


_KINDS: dict[str, Callable[[str], Table]] = {".jsonl": JsonLines, ".csv": Csv, ".parquet": Parquet}
