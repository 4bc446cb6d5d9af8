"""Micro-batches: every turn once, within the budget, with the very ids, and little padding."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.learning.batches import PADDING, micro_batches
from tests.learning.turns import make_learner, make_turn, make_turns

CPU = torch.device("cpu")
lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), max_size=12)


@given(lengths, st.integers(1, 200))
def test_every_turn_once_and_within_the_budget(sizes, budget):
    turns = [make_turn(prompt=p, response=r, seed=i) for i, (p, r) in enumerate(sizes)]
    batches = micro_batches(turns, budget, CPU)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(turns)))
    for batch in batches:
        assert batch.turns == tuple(turns[row] for row in batch.rows)
        assert batch.input_ids.numel() <= budget or len(batch.rows) == 1


@given(lengths, st.integers(1, 1000))
def test_at_most_a_tenth_is_padding(sizes, budget):
    turns = [make_turn(prompt=p, response=r, seed=i) for i, (p, r) in enumerate(sizes)]
    for batch in micro_batches(turns, budget, CPU):
        real = sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in batch.turns)
        assert batch.padding == batch.input_ids.numel() - real <= PADDING * batch.input_ids.numel()


def test_turns_share_a_batch_until_the_budget_or_the_padding_forbids_it():
    def widths(sizes: list[int], budget: int) -> list[tuple[int, ...]]:
        turns = [make_turn(prompt=size - 1, response=1, seed=i) for i, size in enumerate(sizes)]
        return [tuple(batch.input_ids.shape) for batch in micro_batches(turns, budget, CPU)]

    assert widths([20, 19, 18, 20, 17, 19], 1000) == [(6, 20)]  # 7 of 120
    assert widths([20, 19, 18, 20, 17, 19], 60) == [(3, 20), (3, 19)]
    assert widths([20, 16, 16, 20, 15, 20], 1000) == [(5, 20), (1, 15)]  # 8 of 100; 13 of 120
    assert widths([30], 1) == [(1, 30)]


@given(lengths.filter(bool))
def test_rows_hold_the_recorded_ids(sizes):
    turns = [make_turn(prompt=p, response=r, seed=i) for i, (p, r) in enumerate(sizes)]
    for batch in micro_batches(turns, 10_000, CPU):
        for row, turn in enumerate(batch.turns):
            ids = [*turn.prompt_ids, *turn.response_ids]
            assert batch.input_ids[row].tolist() == ids + [0] * (batch.input_ids.shape[1] - len(ids))
        # A token's logits come from the token before it.
        assert torch.equal(batch.input_ids.flatten()[batch.places + 1], batch.tokens)
        for turn, tokens, owners in zip(
            batch.turns, batch.by_turn(batch.tokens), batch.by_turn(batch.owners), strict=True
        ):
            assert tuple(tokens.tolist()) == turn.response_ids
            assert {batch.turns[owner] is turn for owner in owners.tolist()} == {True}
        assert batch.logprobs.tolist() == torch.tensor([p for turn in batch.turns for p in turn.logprobs]).tolist()


def test_an_update_reports_its_padding():
    turns = make_turns()
    batches = micro_batches(turns, 64, CPU)
    expected = sum(batch.padding for batch in batches) / sum(batch.input_ids.numel() for batch in batches)
    assert 0 < make_learner(micro_tokens=64).update(turns).padding_share == expected <= PADDING


def test_turns_that_are_only_scored_need_no_advantage():
    """Such as the canary of a weight sync."""
    turns = make_turns()
    unknown = [dataclasses.replace(turn, advantage=None) for turn in turns]
    learner = make_learner()
    assert all(map(torch.equal, learner.logprobs(unknown), learner.logprobs(turns)))
