"""What a rollout records: turns, tool calls and trajectories. Frozen, plain, and written to JSONL as they are.

A turn is one call of one agent and the unit of training; a trajectory is one walk through the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of one agent. `prompt_ids` and `response_ids` are what the engine consumed and produced; `logprobs` are
    the engine's, of the distribution that it sampled from, one per response token. `valid`: every output parsed;
    `defaulted`: an output took its default; `truncated`: cut at max_tokens. `score` and `advantage` come later. `usage`: prompt and
    response tokens as its server counts them, for a remote model, whose ids are bytes."""

    step: int
    question: str
    trajectory: str
    agent: str
    policy: str
    index: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    weights_version: int
    temperature: float
    prompt: str = ""
    text: str = ""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    valid: bool = True
    defaulted: bool = False
    truncated: bool = False
    dropped_history: int = 0
    seconds: float = 0.0
    score: float | None = None
    advantage: float | None = None
    usage: tuple[int, int] | None = None

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the prompt and of the response."""
        return self.usage or (len(self.prompt_ids), len(self.response_ids))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: its arguments and its result, in the order of the trajectory's events."""

    tool: str
    args: Mapping[str, Any]
    result: Any
    seconds: float


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One walk. `failed` is None or the reason why it could not end; then `result` and `reward` mean nothing.
    `agent_rewards` holds the agents that have a reward of their own."""

    step: int
    question: str
    id: str
    index: int
    row: Mapping[str, Any]
    events: tuple[Turn | ToolCall, ...] = ()
    result: Any = None
    reward: float = 0.0
    agent_rewards: Mapping[str, float] = field(default_factory=dict)
    success: bool = False
    failed: str | None = None
    seconds: float = 0.0

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Its turns, in order."""
        return tuple(event for event in self.events if isinstance(event, Turn))
