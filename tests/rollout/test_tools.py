"""Tools: look-ups. The retrievers are tested under `tests/retrieval`."""

from __future__ import annotations

import pytest

from runtime.rollout.failures import ToolFailure
from runtime.rollout.tools import lookup


def test_lookup():
    assert lookup("a", {"a": 1}) == "1" and lookup(" a ", {"a": "x"}) == "x" and lookup("b", {"a": 1}) == "unknown"
    assert lookup("b", "a=1 b=2") == "2" and lookup("big city", "a=1, big city = New York; c=3\n") == "New York"
    assert lookup("c", "a=1\nb=2\n") == "unknown" and lookup("", "") == "unknown"
    with pytest.raises(ToolFailure, match="not list"):
        lookup("a", [1])
