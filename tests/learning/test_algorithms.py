"""Presets: the language's table and the implementations agree; what each of them changes."""

import inspect

import numpy as np
import pytest

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from drmas_dsl.semantics.functions import FUNCTIONS
from runtime.learning.advantages import Normalization, Scored, group_relative
from runtime.learning.algorithms import ALGORITHMS, from_call

TABLE = {name: signature for (kind, name), signature in FUNCTIONS.items() if kind == "algorithm"}


def test_the_table_and_the_implementations_name_the_same_algorithms():
    assert set(TABLE) == set(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_parameters_and_defaults_agree(name):
    written = {p.name: p.default for p in inspect.signature(ALGORITHMS[name]).parameters.values()}
    assert {p.name: p.default for p in TABLE[name].parameters} == written


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_call_without_arguments_takes_the_defaults(name):
    algorithm = from_call(Call(name))
    assert algorithm.clip_low == 0.2
    assert algorithm.clip_high == (0.28 if name == "dapo" else 0.2)
    assert algorithm.kl == algorithm.entropy == 0.0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_honoured_is_what_takes_effect(name):
    algorithm = from_call(Call(name))
    assert ("aggregate" in TABLE[name].honours) == (algorithm.aggregate is None)
    turns = _turns()
    with_deviation = algorithm.estimate(turns, Normalization("agent", "agent"), "raw")
    without = algorithm.estimate(turns, Normalization("agent", "none"), "raw")
    assert ("deviation" in TABLE[name].honours) == (not np.allclose(with_deviation, without))


def test_clip_high_follows_clip():
    assert from_call(Call("grpo", {"clip": 0.1})).clip_high == 0.1
    assert from_call(Call("grpo", {"clip": 0.1, "clip_high": 0.3})).clip_high == 0.3


@pytest.mark.parametrize("call", [Call("gpro"), Call("grpo", {"clips": 0.1})])
def test_what_is_unknown_is_an_error(call):
    with pytest.raises(UserError):
        from_call(call)


def test_overlong_responses_lose_score_linearly():
    overlong = from_call(Call("dapo", {"overlong_buffer": 4, "overlong_penalty": 0.5})).overlong
    assert overlong is not None
    assert [overlong.punish(length, 16) for length in (1, 12, 13, 14, 16)] == [0.0, 0.0, 0.125, 0.25, 0.5]
    assert from_call(Call("dapo")).overlong is None


def test_reinforce_pp_divides_by_the_deviation_of_the_step():
    turns = _turns()
    advantages = from_call(Call("reinforce_pp")).estimate(turns, Normalization("agent", "agent"), "raw")
    centred = group_relative(turns, Normalization("agent", "none"))
    for agent in (0, 1):
        of_agent = centred[turns.agent == agent]
        expected = (of_agent - of_agent.mean()) / (of_agent.std(ddof=1) + 1e-6)
        np.testing.assert_allclose(advantages[turns.agent == agent], expected, atol=1e-12)


def _turns() -> Scored:
    """Two groups of three trajectories; two agents, one turn each."""
    trajectory = np.repeat(np.arange(6), 2)
    return Scored(
        step=np.zeros(12, int),
        group=trajectory // 3,
        trajectory=trajectory,
        agent=np.tile([0, 1], 6),
        score=np.array([1.0, 0.9, 0.0, -0.1, 1.0, 1.0, 0.0, 0.5, 0.25, 0.0, 4.0, 1.0]),
        trained=np.ones(12, bool),
        shrunk=np.zeros(12, bool),
    )
