"""Weights as arrays, and the canary's judgement."""

import math

import pytest
import torch

from drmas_dsl.errors import UserError
from runtime.cluster.failures import SyncError
from runtime.cluster.sync import canary_prompt, compare, pack, unpack


def test_tensors_survive_the_trip():
    weights = {
        "a": torch.randn(3, 5),
        "b": torch.randn(7).bfloat16(),
        "turned": torch.randn(4, 2).T,
        "n": torch.tensor(3),
    }
    back = unpack(pack(weights))
    for name, tensor in weights.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


def test_unpacking_copies_nothing():
    packed = pack({"a": torch.zeros(4)})
    assert unpack(packed)["a"].data_ptr() == packed["a"][1].ctypes.data


@pytest.mark.parametrize("engine", [[-1.0, -2.5], [-1.0, math.nan], [-1.0, -math.inf]])
def test_a_canary_that_disagrees_stops_the_run(engine):
    with pytest.raises(SyncError, match="'Solver' disagrees with its learner") as caught:
        compare("Solver", engine, [-1.0, -2.0], tolerance=0.1)
    assert isinstance(caught.value, UserError)


def test_a_canary_within_tolerance_gives_the_gap():
    assert compare("Solver", [-1.0, -2.05], [-1.0, -2.0], tolerance=0.1) == pytest.approx(0.05)


@pytest.mark.parametrize(("length", "vocabulary", "context", "expected"), [(32, 258, 4096, 32), (300, 100, 64, 32)])
def test_canary_prompts_fit(length, vocabulary, context, expected):
    prompt = canary_prompt(length, vocabulary, context)
    assert len(prompt) == expected
    assert all(0 <= token < vocabulary for token in prompt)
    assert prompt == canary_prompt(length, vocabulary, context)
