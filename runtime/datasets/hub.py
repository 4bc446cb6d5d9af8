"""Datasets of the Hugging Face hub, through the `datasets` library, which caches them on disk and maps them into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drmas_dsl.errors import UserError
from runtime.datasets.files import Row, Table

SPLIT = "train"


class Hub(Table):
    """One split of a dataset of the hub."""

    def __init__(self, name: str, split: str | None, config: str | None) -> None:
        """Raises UserError where the library is missing, or it cannot get the dataset."""
        try:
            import datasets
        except ImportError as error:
            raise UserError(
                f"the dataset {name} of the hub needs the package datasets",
                "install it with `pip install 'drmasc[hub]'`, or name a file",
            ) from error

        self._name = f"{name} ({split or SPLIT})"
        try:
            self._rows: Any = datasets.load_dataset(name, config, split=split or SPLIT)
        except Exception as error:  # whatever the network, the cache and the dataset's files may do
            raise UserError(
                f"cannot load the dataset {self._name} of the hub: {error}",
                "is it spelled well, and the hub in reach? Once loaded it comes from the cache on disk",
            ) from error

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int, /) -> Row:
        return dict(self._rows[number])

    def __iter__(self) -> Iterator[Row]:
        return map(dict, self._rows)

    def place(self, number: int) -> str:
        """The dataset, its split and the row's number from 0."""
        return f"{self._name}: row {number}"
