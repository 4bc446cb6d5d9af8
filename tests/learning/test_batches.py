"""Micro-batches: every turn once, within the budget, with the very ids, and little padding."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.learning.batches import micro_batches
from tests.learning.turns import make_turn

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


@given(lengths.filter(bool))
def test_rows_hold_the_recorded_ids(sizes):
    turns = [make_turn(prompt=p, response=r, seed=i) for i, (p, r) in enumerate(sizes)]
    (batch,) = micro_batches(turns, 10_000, CPU)
    for row, turn in enumerate(batch.turns):
        ids = [*turn.prompt_ids, *turn.response_ids]
        assert batch.input_ids[row][batch.attention_mask[row].bool()].tolist() == ids
        assert batch.position_ids[row][batch.attention_mask[row].bool()].tolist() == list(range(len(ids)))
        assert batch.responses[row][batch.mask[row]].tolist() == list(turn.response_ids)
    assert batch.mask.shape[1] == max(len(turn.response_ids) for turn in turns)


@given(lengths.filter(bool))
def test_pad_and_unpad_are_inverse(sizes):
    turns = [make_turn(prompt=p, response=r, seed=i) for i, (p, r) in enumerate(sizes)]
    (batch,) = micro_batches(turns, 10_000, CPU)
    values = [torch.rand(len(turn.response_ids)) for turn in batch.turns]
    padded = batch.pad(values)
    assert not padded[~batch.mask].any()
    for back, value in zip(batch.unpad(padded), values, strict=True):
        torch.testing.assert_close(back, value)


def test_turns_of_like_length_share_a_batch():
    turns = [make_turn(prompt=1 + 9 * (i % 2), response=10, seed=i) for i in range(8)]
    short, long = (
        sum(len(t.prompt_ids) + len(t.response_ids) for t in turns if len(t.prompt_ids) == p) for p in (1, 10)
    )
    batches = micro_batches(turns, max(short, long), CPU)
    assert sum(batch.input_ids.numel() for batch in batches) == short + long
