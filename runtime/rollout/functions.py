"""Finds the function that a name of the graph means: built in, from a plug-in that the system uses, or from an installed
package's entry point.

The table of signatures stands in `drmas_dsl.semantics.functions`; a test compares it with these.
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import System
from runtime.rollout import parsers, reducers, rewards, tools

Function = Callable[..., Any]

BUILT_IN: dict[tuple[str, str], Function] = {
    **{("parser", f.__name__): f for f in (parsers.tag, parsers.choice, parsers.boxed, parsers.number)},
    **{("parser", f.__name__): f for f in (parsers.json, parsers.regex, parsers.text)},
    **{
        ("reducer", f.__name__): f
        for f in (reducers.vote, reducers.first, reducers.best, reducers.concat, reducers.count)
    },
    **{("reward", f.__name__): f for f in (rewards.math_equal, rewards.exact_match, rewards.f1, rewards.equal)},
    **{("tool", f.__name__): f for f in (tools.lookup, tools.http_retriever)},
}
ENTRY_POINTS = "drmasc.functions"


def find(system: System, kind: str, name: str) -> Function:
    """The function `name` where a `kind` stands (parser, reducer, reward or tool).

    Raises:
        UserError: there is none, or the plug-in that has it does not load.
    """
    if built_in := BUILT_IN.get((kind, name)):
        return built_in
    for plugin in system.plugins:
        path = os.path.join(system.base, plugin["path"] if isinstance(plugin, Mapping) else plugin)
        if callable(function := _names_of(os.path.abspath(path)).get(name)):
            return function
    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        return entry_point.load()
    raise UserError(f"there is no {kind} {name!r} here", 'use the file that defines it: use "my_functions.py"')


@lru_cache
def _names_of(path: str) -> dict[str, Any]:
    try:
        return runpy.run_path(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:
        raise UserError(f"{path} does not load: {type(error).__name__}: {error}") from error
