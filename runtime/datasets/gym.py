"""Questions that Reasoning Gym generates: one of its tasks, by size and seed. Also grades answers to them.

A row's `entry` says how to make the question again. The verifier gets it as it was made, with all that the library
keeps about it: written as JSON, some tasks could not be graded any more.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from drmas_dsl.errors import UserError
from runtime.datasets.files import Row, Table


class Gym(Table):
    """`size` questions of a task. `options` are settings of the task, `name = value` each."""

    columns = ("question", "answer", "data_source", "entry")

    def __init__(self, task: str, size: int, seed: int, options: Sequence[str] | None) -> None:
        """Raises UserError where the package is missing, there is no such task, or it does not take an option."""
        self._size = size
        self._entry = {"task": task, "size": size, "seed": seed, "options": list(options or ())}
        self._made = generated(task, size, seed, tuple(options or ()))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int, /) -> Row:
        made = self._made[number]
        entry = {**self._entry, "index": number}
        return {
            "question": made["question"],
            "answer": made["answer"],
            "data_source": self._entry["task"],
            "entry": entry,
        }

    def place(self, number: int) -> str:
        """The task and the question's number from 0."""
        return f"reasoning_gym({self._entry['task']}): row {number}"


def verified(answer: str, entry: Mapping[str, Any]) -> float:
    """What the task's verifier gives for an answer; 0 where it cannot read it."""
    made = generated(entry["task"], entry["size"], entry["seed"], tuple(entry["options"]))
    question = made[entry["index"]]
    try:
        return float(made.score_answer(answer, question))
    except Exception:  # some verifiers expect a form that a model's text does not have
        return 0.0


@lru_cache(maxsize=64)
def generated(task: str, size: int, seed: int, options: tuple[str, ...]) -> Any:
    """The library's dataset.

    Raises:
        UserError: the package is missing, there is no such task, or it does not take an option.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise UserError(
            "reasoning_gym needs the package reasoning-gym", "install it with `pip install 'drmasc[gym]'`"
        ) from error
    if task not in DATASETS:
        raise UserError(f"Reasoning Gym has no task {task!r}", f"it has {', '.join(sorted(DATASETS))}")
    config = DATASETS[task][1]
    given = dict(map(_option, options))
    if unknown := given.keys() - {field.name for field in dataclasses.fields(config)} | given.keys() & {"size", "seed"}:
        known = ", ".join(field.name for field in dataclasses.fields(config) if field.name not in ("size", "seed"))
        raise UserError(f"{task} has no option {', '.join(sorted(unknown))}", f"its options are {known}")
    try:
        return reasoning_gym.create_dataset(task, size=size, seed=seed, **given)
    except Exception as error:
        raise UserError(f"reasoning_gym({task}) cannot be made: {error}") from error


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in text.partition("="))
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError) as error:
        if equals and value.isidentifier():
            return name, {"true": True, "false": False, "none": None}.get(value, value)
        raise UserError(f"{text!r} is no option of a task", 'write `"name = value"`, e.g. `"max_terms = 3"`') from error
