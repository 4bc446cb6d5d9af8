"""Turns as tensors: cut into micro-batches by a budget of tokens, sorted by length so that padding stays small.

Rows are aligned at their right end (all padding is before the prompt), so that the last T + 1 positions give the logits
of every response token and no others. Token ids are those that the engine recorded. What a batch is trained with
does not stand here. Legend: B turns, W tokens of the longest row, T tokens of the longest response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.records import Turn


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One forward pass. `rows` are the turns' places in the sequence that was cut; (B, W): `input_ids`, `attention_mask`,
    `position_ids`; (B, T): `responses` and `mask`, where a response token stands."""

    rows: tuple[int, ...]
    turns: tuple[Turn, ...]
    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    responses: Tensor
    mask: Tensor
    temperature: Tensor

    def pad(self, values: Sequence[Sequence[float] | Tensor]) -> Tensor:
        """One value per response token of each turn, as (B, T); 0 elsewhere."""
        padded = torch.zeros(self.mask.shape)
        for row, items in enumerate(values):
            padded[row, padded.shape[1] - len(items) :] = torch.as_tensor(items, dtype=torch.float32)
        return padded.to(self.mask.device)

    def unpad(self, values: Tensor) -> list[Tensor]:
        """The inverse of `pad`."""
        return [row[row.shape[0] - len(turn.response_ids) :] for row, turn in zip(values, self.turns, strict=True)]


def micro_batches(turns: Sequence[Turn], budget: int, device: torch.device) -> list[MicroBatch]:
    """All turns, each once, longest first, in batches of at most `budget` tokens with padding (or of one turn)."""
    batches = []
    rows: list[int] = []
    for row in sorted(range(len(turns)), key=lambda row: (-_length(turns[row]), -len(turns[row].response_ids), row)):
        if rows and (len(rows) + 1) * _length(turns[rows[0]]) > budget:
            batches.append(_batch(rows, turns, device))
            rows = []
        rows.append(row)
    return [*batches, _batch(rows, turns, device)] if rows else batches


def _length(turn: Turn) -> int:
    return len(turn.prompt_ids) + len(turn.response_ids)


def _batch(rows: Sequence[int], all_turns: Sequence[Turn], device: torch.device) -> MicroBatch:
    turns = tuple(all_turns[row] for row in rows)
    width = max(map(_length, turns))
    longest = max(len(turn.response_ids) for turn in turns)
    input_ids = torch.tensor([[0] * (width - _length(turn)) + [*turn.prompt_ids, *turn.response_ids] for turn in turns])
    columns = torch.arange(width)[None]
    starts = torch.tensor([[width - _length(turn)] for turn in turns])
    first_response = torch.tensor([[width - len(turn.response_ids)] for turn in turns])
    return MicroBatch(
        rows=tuple(rows),
        turns=turns,
        input_ids=input_ids.to(device),
        attention_mask=(columns >= starts).long().to(device),
        position_ids=(columns - starts).clamp(min=0).to(device),
        responses=input_ids[:, width - longest :].to(device),
        mask=(columns >= first_response)[:, width - longest :].to(device),
        temperature=torch.tensor([[turn.temperature] for turn in turns]).to(device),
    )
