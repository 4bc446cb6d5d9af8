"""Turns as tensors: cut into micro-batches by a budget of tokens, in order of length so that padding stays below a tenth.

Rows are aligned at their left end: what pads stands behind all that counts, where no causal model looks, so that no mask is
needed. What is known of response tokens is flat, turn by turn, without padding. Token ids are those that the engine recorded.
Settings do not stand here. Legend: B turns, W tokens of the longest, N response tokens of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.records import Turn

PADDING = 0.1  # of a micro-batch's tokens, at most


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One forward pass. `rows` are the turns' places in the sequence that was cut. `input_ids` is (B, W); all else is (N,):
    `places`, where in the flattened (B * W) a response token's logits come from; `tokens`, which token it is; `owners`, the
    place of its turn in `turns`; `temperature`, `advantages`, and the engine's `logprobs`."""

    rows: tuple[int, ...]
    turns: tuple[Turn, ...]
    input_ids: Tensor
    places: Tensor
    tokens: Tensor
    owners: Tensor
    temperature: Tensor
    advantages: Tensor
    logprobs: Tensor

    @property
    def padding(self) -> int:
        """Tokens that only fill up."""
        return self.input_ids.numel() - sum(map(length, self.turns))

    def turns_of(self, owners: Tensor) -> list[Turn]:
        """The turns at these places, each once."""
        return [self.turns[owner] for owner in sorted(set(owners.tolist()))]

    def by_turn(self, values: Tensor) -> tuple[Tensor, ...]:
        """One value per response token, (N,), as one tensor for each turn."""
        return torch.split(values, [len(turn.response_ids) for turn in self.turns])


def micro_batches(turns: Sequence[Turn], budget: int, device: torch.device) -> list[MicroBatch]:
    """All turns, each once, longest first, in batches of at most `budget` tokens with padding (or of one turn)."""
    batches = []
    rows: list[int] = []
    filled = 0
    for row in sorted(range(len(turns)), key=lambda row: (-length(turns[row]), row)):
        size = (len(rows) + 1) * length(turns[rows[0] if rows else row])
        if rows and (size > budget or size - filled - length(turns[row]) > PADDING * size):
            batches.append(_batch(rows, turns, device))
            rows, filled = [], 0
        rows.append(row)
        filled += length(turns[row])
    return [*batches, _batch(rows, turns, device)] if rows else batches


def length(turn: Turn) -> int:
    """Tokens that the model reads."""
    return len(turn.prompt_ids) + len(turn.response_ids)


def _batch(rows: Sequence[int], all_turns: Sequence[Turn], device: torch.device) -> MicroBatch:
    turns = tuple(all_turns[row] for row in rows)
    width = max(map(length, turns))
    lengths = torch.tensor([len(turn.response_ids) for turn in turns])

    def of_tokens(values: list[float | None]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32).repeat_interleave(lengths).to(device)

    return MicroBatch(
        rows=tuple(rows),
        turns=turns,
        input_ids=torch.tensor(
            [[*turn.prompt_ids, *turn.response_ids] + [0] * (width - length(turn)) for turn in turns]
        ).to(device),
        places=torch.tensor(
            [
                row * width + column
                for row, turn in enumerate(turns)
                for column in range(len(turn.prompt_ids) - 1, length(turn) - 1)
            ]
        ).to(device),
        tokens=torch.tensor([token for turn in turns for token in turn.response_ids]).to(device),
        owners=torch.arange(len(turns)).repeat_interleave(lengths).to(device),
        temperature=of_tokens([turn.temperature for turn in turns]),
        advantages=of_tokens([turn.advantage or 0.0 for turn in turns]),
        logprobs=torch.tensor([value for turn in turns for value in turn.logprobs], dtype=torch.float32).to(device),
    )
