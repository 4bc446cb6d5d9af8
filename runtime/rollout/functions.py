"""Finds the function that a name of the graph means: built in, from a plug-in that the system uses, or from an installed
package's entry point.

The table of signatures stands in `drmas_dsl.semantics.functions`; a test compares it with these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
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
    ("reward", "reasoning_gym_score"): rewards.reasoning_gym_score,
    **{("tool", f.__name__): f for f in (tools.lookup, tools.http_retriever, tools.bm25)},
}
ENTRY_POINTS = "drmasc.functions"


def find(system: System, kind: str, name: str) -> Function:
    """The function `name` where a `kind` stands (parser, reducer, reward or tool).

    Raises:
        UserError: there is none, or the plug-in that has it does not load.
    """
    return BUILT_IN.get((kind, name)) or find_added(system.plugins, system.base, kind, name)


def find_added(plugins: Sequence[Any], base: str, kind: str, name: str) -> Function:
    """The function `name` of a plug-in, else of an installed package.

    Raises:
        UserError: there is none, or the plug-in that has it does not load.
    """
    for plugin in plugins:
        if callable(function := getattr(_loaded(os.path.abspath(resolved(plugin, base))), name, None)):
            return function
    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        return entry_point.load()
    raise UserError(f"there is no {kind} `{name}`", 'name the file that defines it: use "my_functions.py"')


def resolved(value: Any, base: str) -> Any:
    """A path value `{"path": …}` of the graph as a path that can be opened; any other value as it is."""
    return os.path.join(base, value["path"]) if isinstance(value, Mapping) and value.keys() == {"path"} else value


@lru_cache
def _loaded(path: str) -> ModuleType:
    """The module of a plug-in, run once."""
    spec = spec_from_file_location(f"drmasc_plugin_{blake2b(path.encode(), digest_size=4).hexdigest()}", path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from error
    except Exception as error:
        raise UserError(f"{path} does not load: {type(error).__name__}: {error}") from error
    return module
