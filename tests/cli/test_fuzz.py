"""A short run of the mutation fuzzer: no text makes the compiler fail or wait. The long one is `benchmarks/fuzz_compiler.py`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_compiler import LIMIT, examine, furnish, mutated, seeds

TEXTS = seeds()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    furnish(path)
    return path


# The number of a mutation has no simpler ones to shrink to.
@settings(max_examples=120, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_mutated_systems_give_findings_and_nothing_else(folder: Path, number: int) -> None:
    rng = random.Random(number)
    assert examine(mutated(rng.choice(TEXTS), TEXTS, rng), folder / "fuzzed.mas") < LIMIT
