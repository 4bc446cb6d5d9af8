"""Figures per agent, and what is written of them."""

import json
import math
from typing import Any

from runtime.metrics import MetricsWriter, agent_metrics, read_metrics
from runtime.records import Trajectory, Turn


def turn(agent: str, **fields) -> Turn:
    base: dict[str, Any] = {
        "step": 1, "question": "q", "trajectory": "t", "agent": agent, "policy": agent, "index": 0, "prompt_ids": (1, 2),
        "response_ids": (3,), "logprobs": (-1.0,), "weights_version": 0, "temperature": 1.0, "prompt": "p", "text": "x",
        "outputs": {}, "valid": True, "defaulted": False, "truncated": False,
    }  # fmt: skip
    return Turn(**(base | fields))


def trajectory(*events: Turn, **fields) -> Trajectory:
    return Trajectory(step=1, question="q", id="t", index=0, row={}, events=events, **fields)


def test_agent_figures_count_turns_and_leave_failures_out():
    trajectories = [
        trajectory(turn("A", score=1.0, advantage=1.0), turn("A", score=0.5, valid=False, advantage=-1.0), reward=1.0),
        trajectory(turn("B", score=0.0, truncated=True, response_ids=(1, 2, 3)), reward=0.0),
        trajectory(turn("A", score=9.0), failed="tool down"),
    ]
    figures = agent_metrics(["A", "B", "C"], trajectories)
    assert figures["A"]["score"] == 0.75
    assert figures["A"]["reward"] == 1.0
    assert figures["A"]["calls_per_trajectory"] == 1.0
    assert figures["A"]["active_share"] == 0.5
    assert figures["A"]["valid_share"] == 0.5
    assert figures["A"]["advantage_std"] == 1.0
    assert figures["B"]["truncated_share"] == 1.0
    assert figures["B"]["response_tokens"] == 3
    assert math.isnan(figures["C"]["score"])
    assert figures["C"]["active_share"] == 0


def test_own_rewards_count_for_their_agent():
    only = trajectory(turn("A"), turn("B"), reward=1.0, agent_rewards={"B": 0.25})
    figures = agent_metrics(["A", "B"], [only])
    assert (figures["A"]["reward"], figures["B"]["reward"]) == (1.0, 0.25)


def test_what_is_written_is_valid_json_and_read_back(tmp_path):
    with MetricsWriter(tmp_path / "metrics.jsonl", tmp_path / "board") as writer:
        writer.write(1, {"reward": 0.5, "agents": {"A": {"score": math.nan}}})
        writer.write(2, {"reward": math.inf, "agents": {"A": {"score": 1.0}}})
    for line in (tmp_path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: 1 / 0)
    first, second = read_metrics(tmp_path / "metrics.jsonl")
    assert first == {"step": 1, "reward": 0.5, "agents": {"A": {"score": None}}}
    assert second["reward"] is None
    assert list((tmp_path / "board").glob("events*"))
