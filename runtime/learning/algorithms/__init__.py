"""The presets over the one loss, by the name that `train.algorithm` calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.learning.algorithms.base import Algorithm
from runtime.learning.algorithms.dapo import dapo
from runtime.learning.algorithms.dr_grpo import dr_grpo
from runtime.learning.algorithms.grpo import grpo
from runtime.learning.algorithms.reinforce_pp import reinforce_pp
from runtime.learning.algorithms.rloo import rloo

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "dapo": dapo,
}


def from_call(call: Call) -> Algorithm:
    """The preset that a setting `train.algorithm` calls; arguments that the call lacks take their defaults.

    Raises:
        UserError: there is no such algorithm, or it has no such setting.
    """
    if call.function not in ALGORITHMS:
        raise UserError(f"there is no algorithm `{call.function}`", f"use one of {', '.join(ALGORITHMS)}")
    try:
        return ALGORITHMS[call.function](**call.args)
    except TypeError as error:
        raise UserError(f"the algorithm cannot be set up so: {error}") from error


__all__ = ["ALGORITHMS", "Algorithm", "from_call"]
