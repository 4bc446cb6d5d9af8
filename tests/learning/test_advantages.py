"""Advantages: the reference's numbers, the definitions as plain loops, and what must hold for any turns."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call
from runtime.learning import advantages as adv
from runtime.learning.advantages import NORMALIZATIONS, Normalization
from runtime.learning.credit import scored
from tests.learning import plain

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "advantages.json").read_text())["cases"]
EVERY = dict(NORMALIZATIONS) | {
    f"{mean}/{std}": Normalization(mean, std)
    for mean in ("agent", "trajectory", "turn")
    for std in ("agent", "trajectory", "turn", "none")
}
ESTIMATES = {
    "grpo/trajectory/mean_std": lambda turns: adv.group_relative(turns, NORMALIZATIONS["trajectory"]),
    "grpo/trajectory/mean": lambda turns: adv.group_relative(turns, Normalization("trajectory", "none", whole=True)),
    "grpo/agent/mean_std": lambda turns: adv.group_relative(turns, NORMALIZATIONS["agent"]),
    "grpo/agent/mean": lambda turns: adv.group_relative(turns, Normalization("agent", "none")),
    "rloo/agent": lambda turns: adv.leave_one_out(turns, NORMALIZATIONS["agent"]),
}


@pytest.mark.parametrize("key", ESTIMATES)
@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: case["name"])
def test_the_reference(case, key):
    turns = arrays([plain.Scored(**turn) for turn in case["turns"]])
    np.testing.assert_allclose(ESTIMATES[key](turns), case["advantages"][key], atol=1e-5)


def test_the_reference_has_no_estimate_that_is_not_compared():
    assert {key for case in REFERENCE for key in case["advantages"]} == set(ESTIMATES)


scores = st.sampled_from([0.0, 1.0, 0.9, -0.1]) | st.floats(-2, 2).map(lambda x: round(x, 3))


@st.composite
def batches(draw: st.DrawFn) -> list[plain.Scored]:
    """A few groups; agent `Frozen` is not trained, and whole groups are shrunk."""
    turns = []
    for question in range(draw(st.integers(1, 3))):
        shrunk = draw(st.booleans())
        for trajectory in range(draw(st.integers(1, 4))):
            agents = draw(st.lists(st.sampled_from(["A", "B", "Frozen"]), min_size=1, max_size=4))
            turns += [
                plain.Scored(f"q{question}", f"t{trajectory}", agent, draw(scores), agent != "Frozen", shrunk)
                for agent in agents
            ]
    return draw(st.permutations(turns))


def arrays(turns: list[plain.Scored]) -> adv.Scored:
    return scored(
        steps=[0] * len(turns),
        questions=[turn.question for turn in turns],
        trajectories=[turn.trajectory for turn in turns],
        agents=[turn.agent for turn in turns],
        scores=[turn.score for turn in turns],
        frozen={turn.agent for turn in turns if not turn.trained},
        shrunk={(0, turn.question) for turn in turns if turn.shrunk},
    )[0]


@given(batches(), st.sampled_from(sorted(EVERY)), st.sampled_from(["raw", "drop"]))
def test_every_normalisation_is_its_definition(turns, name, lone):
    norm = EVERY[name]
    expected = [plain.advantage(turns, turn, norm.mean, norm.std, norm.whole, lone) for turn in turns]
    np.testing.assert_allclose(adv.group_relative(arrays(turns), norm, lone), expected, atol=1e-7)


@given(batches(), st.sampled_from(["raw", "drop"]))
def test_leave_one_out_is_its_definition(turns, lone):
    turns = [dataclasses.replace(turn, trained=True, shrunk=False) for turn in turns]
    expected = [plain.leave_one_out(turns, turn, lone) for turn in turns]
    np.testing.assert_allclose(adv.leave_one_out(arrays(turns), NORMALIZATIONS["agent"], lone), expected, atol=1e-9)


@given(batches(), st.randoms(), st.sampled_from(sorted(EVERY)), st.sampled_from(["raw", "drop"]))
def test_the_order_of_turns_changes_nothing(turns, random, name, lone):
    order = list(range(len(turns)))
    random.shuffle(order)
    straight = adv.group_relative(arrays(turns), EVERY[name], lone)
    shuffled = adv.group_relative(arrays([turns[i] for i in order]), EVERY[name], lone)
    np.testing.assert_allclose(shuffled, straight[order], atol=1e-9)


@given(batches(), st.sampled_from([0.1, 0.3, 1e9 / 3]), st.sampled_from(sorted(EVERY)))
def test_constant_groups_give_exactly_zero(turns, score, name):
    turns = [dataclasses.replace(turn, score=score) for turn in turns]
    assert not adv.group_relative(arrays(turns), EVERY[name], "drop").any()
    assert not adv.leave_one_out(arrays(turns), EVERY[name], "drop").any()
    assert not adv.batch_relative(arrays(turns), EVERY[name], "drop").any()


@given(batches(), st.floats(-100, 100), st.floats(1, 10))
def test_shifting_and_stretching_all_scores_changes_little(turns, shift, stretch):
    """Only the eps beside the deviation is not scale-free."""
    moved = [dataclasses.replace(turn, score=turn.score * stretch + shift) for turn in turns]
    for name in NORMALIZATIONS:
        before = adv.group_relative(arrays(turns), NORMALIZATIONS[name], "drop")
        after = adv.group_relative(arrays(moved), NORMALIZATIONS[name], "drop")
        np.testing.assert_allclose(after, before, rtol=0.02, atol=1e-6)


@given(batches(), scores, st.sampled_from(sorted(EVERY)))
def test_frozen_turns_are_in_no_statistic(turns, score, name):
    changed = [turn if turn.trained else dataclasses.replace(turn, score=score) for turn in turns]
    before = adv.group_relative(arrays(turns), EVERY[name])
    np.testing.assert_array_equal(before, adv.group_relative(arrays(changed), EVERY[name]))
    assert not before[[not turn.trained for turn in turns]].any()


def test_statistics_do_not_cross_steps():
    one = scored(
        steps=[1, 1, 2, 2], questions=["q"] * 4, trajectories=["a", "b"] * 2, agents=["A"] * 4, scores=[0, 1, 5, 5]
    )
    np.testing.assert_allclose(adv.group_relative(one[0], NORMALIZATIONS["agent"])[2:], 0)


def test_a_group_shrunk_to_one_is_dropped_and_others_are_raw():
    alone = [plain.Scored("q", "t", "A", 1.0)]
    for lone, expected in (("raw", 1 / (1 + 1e-6)), ("drop", 0.0)):
        assert adv.group_relative(arrays(alone), NORMALIZATIONS["agent"], lone)[0] == pytest.approx(expected)
    shrunk = [dataclasses.replace(alone[0], shrunk=True)] * 2
    for estimator in (adv.group_relative, adv.leave_one_out, adv.batch_relative):
        assert not estimator(arrays(shrunk), NORMALIZATIONS["agent"], "raw").any()


@given(batches())
def test_inflation_is_its_definition(turns):
    data = arrays(turns)
    names = list(dict.fromkeys(turn.agent for turn in turns))
    for name, figures in zip(names, adv.agent_statistics(data), strict=True):
        if name != "Frozen":
            assert figures.inflation == pytest.approx(plain.inflation(turns, name), rel=1e-6, nan_ok=True)


def test_shares_count_turns():
    turns = [plain.Scored("q0", f"t{i}", "A", 1.0) for i in range(3)]  # equal scores
    turns += [plain.Scored("q1", "t0", "A", 1.0), plain.Scored("q1", "t1", "B", 0.0)]  # each alone
    a, b = adv.agent_statistics(arrays(turns))
    assert (a.lone_share, a.zero_variance_share) == (0.25, 0.75)
    assert (b.lone_share, b.zero_variance_share) == (1.0, 0.0)
    assert math.isnan(adv.agent_statistics(arrays(turns[:3]))[0].inflation)


def test_a_rarely_called_agent_far_from_the_mean_is_inflated():
    """The agent of the few bad trajectories: its gradient spikes under trajectory statistics, and not under its own."""
    turns = [plain.Scored("q", f"t{i}", "Answer", float(i > 1)) for i in range(10)]
    turns += [plain.Scored("q", f"t{i}", "Search", float(i > 1)) for i in range(3)]
    _, search = adv.agent_statistics(arrays(turns))
    assert search.inflation > 2
    common = adv.group_relative(arrays(turns), NORMALIZATIONS["trajectory"])[10:]
    own = adv.group_relative(arrays(turns), NORMALIZATIONS["agent"])[10:]
    assert (common**2).mean() > 2 * (own**2).mean()
    assert own.mean() == pytest.approx(0)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call("agent_std"), Normalization("trajectory", "agent")),
        (Call("stats", {"mean": "turn", "std": "none"}), Normalization("turn", "none")),
    ],
)
def test_normalisations_by_name(call, expected):
    assert adv.normalization(call) == expected


@pytest.mark.parametrize("call", [Call("agents"), Call("stats"), Call("stats", {"mean": "none", "std": "none"})])
def test_unknown_normalisations_are_errors(call):
    with pytest.raises(UserError):
        adv.normalization(call)


def test_a_hundred_thousand_turns_take_no_time():
    n = 100_000
    random = np.random.default_rng(0)
    trajectory = random.integers(0, n // 4, n)
    seconds = []
    for _ in range(20):
        turns = adv.Scored(
            step=np.zeros(n, int),
            group=trajectory // 8,
            trajectory=trajectory,
            agent=random.integers(0, 3, n),
            score=random.normal(size=n),
            trained=np.ones(n, bool),
            shrunk=np.zeros(n, bool),
        )
        start = time.thread_time()  # other work on the machine does not count
        adv.group_relative(turns, NORMALIZATIONS["agent"])
        seconds.append(time.thread_time() - start)
    assert min(seconds) < 0.02
