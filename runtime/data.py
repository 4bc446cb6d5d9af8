"""Questions: the rows of a system's dataset, and which of them a step asks.

How rows are read is the business of `runtime.datasets`; which columns a system needs, of the compiler.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.datasets.files import Row, Table, open_files
from runtime.datasets.gym import Gym
from runtime.datasets.hub import Hub
from runtime.datasets.rows import Mixture, Rows, TableRows
from runtime.rollout.functions import Function, find_added, resolved


def load_rows(call: Call, base: str, plugins: Sequence[Any] = ()) -> Rows:
    """The rows of a dataset's call: `dataset(…)`, `mix(…)`, `reasoning_gym(…)`, or a plug-in's function; relative paths start
    from `base`. Rows of files are read when they are asked for.

    Every row has all columns of the dataset (None where it lacks one) and an `id` of its own: the file's, else its number
    from 0. Where there is no `answer`, `ground_truth` stands in.

    Raises:
        UserError: the data cannot be read, or a part of it makes no row.
    """
    args = {name: resolved(value, base) for name, value in call.args.items()}
    match call.function:
        case "dataset":
            path = args["path"]
            hub = isinstance(call.args["path"], str)
            table: Table = Hub(path, args.get("split"), args.get("config")) if hub else open_files(path)
            return TableRows(path, table, args.get("columns"))
        case "mix":
            return Mixture([load_rows(part, base, plugins) for part in args["datasets"]], args["weights"])
        case "reasoning_gym":
            name = f"reasoning_gym({args['task']})"
            return TableRows(name, Gym(args["task"], args["size"], args["seed"], args["options"]))
        case name:
            return TableRows(f"{name}(…)", _Made(f"{name}(…)", find_added(plugins, base, "dataset", name), args))


class _Made(Table):
    """The rows that a plug-in's function makes."""

    def __init__(self, name: str, function: Function, args: Mapping[str, Any]) -> None:
        self._name = name
        try:
            self._rows = list(function(**args))
        except Exception as error:
            raise UserError(f"the dataset {name} fails: {type(error).__name__}: {error}") from error
        for number, row in enumerate(self._rows):
            if not isinstance(row, Mapping):
                raise UserError(f"{self.place(number)} is no mapping of columns but {type(row).__name__}")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int, /) -> Row:
        return self._rows[number]

    def place(self, number: int) -> str:
        return f"{self._name}: row {number}"


class QuestionSampler:
    """Which rows a step asks, addressed by step from 0. Each dataset goes through epochs in an order that the seed
    shuffles; those of a mixture take turns so that each has its share of every run of questions, to within one."""

    def __init__(self, rows: Sequence[Row], batch_size: int, seed: int) -> None:
        self._rows = rows
        self._batch_size = batch_size
        self._seed = seed
        parts, weights = (rows.parts, rows.weights) if isinstance(rows, Mixture) else ([rows], [1.0])
        self._sizes = [len(part) for part in parts]
        self._starts = [0, *accumulate(self._sizes)]
        self._weights = weights
        self._draws: list[tuple[int, int]] = []  # for each question asked: its dataset, and how many it gave before
        self._given = [0] * len(parts)

    def batch(self, step: int) -> list[Row]:
        """The rows of a step. Where the rows do not divide evenly, a batch goes on in the next epoch."""
        start = step * self._batch_size
        return [self._at(place) for place in range(start, start + self._batch_size)]

    def _at(self, place: int) -> Row:
        part, given = self._draw(place) if len(self._sizes) > 1 else (0, place)
        epoch, given = divmod(given, self._sizes[part])
        seed = f"{self._seed}/{part}" if part else str(self._seed)
        return self._rows[self._starts[part] + _shuffled(self._sizes[part], seed, epoch)[given]]

    def _draw(self, place: int) -> tuple[int, int]:
        """The dataset that is furthest behind its share."""
        while len(self._draws) <= place:
            count = len(self._draws) + 1
            behind = [weight * count - given for weight, given in zip(self._weights, self._given, strict=True)]
            part = behind.index(max(behind))
            self._draws.append((part, self._given[part]))
            self._given[part] += 1
        return self._draws[place]


@lru_cache(maxsize=32)
def _shuffled(count: int, seed: str, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
