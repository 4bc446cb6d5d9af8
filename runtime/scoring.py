"""From rolled-out trajectories to turns that can be trained: scores, advantages, and what the step measures.

`score(turn) = R - penalty(agent) * (not valid)`, less what an algorithm takes for overlong responses; R is the agent's own
reward where it has one, else the task's. Advantages come from `learning`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drmas_dsl.graph.settings import System
from runtime.learning.advantages import AgentStatistics
from runtime.learning.algorithms import Algorithm, from_call
from runtime.learning.credit import Group, assign, uninformative
from runtime.metrics import agent_metrics
from runtime.records import ToolCall, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Step:
    """A step's trajectories, their turns with scores and advantages; `turns` are those to train, in order, and
    `informative` the groups whose members differ (a turn without company says nothing about that). `seconds` is what rolling out took."""

    trajectories: tuple[Trajectory, ...]
    turns: tuple[Turn, ...]
    informative: frozenset[Group]
    statistics: Mapping[str, AgentStatistics]
    seconds: float = math.nan


def score(system: System, trajectories: Sequence[Trajectory]) -> Step:
    """Score the turns of the trajectories that did not fail and normalise them.

    Turns of frozen agents get a score and are in no statistic. An algorithm that resamples trains informative groups only.
    """
    algorithm = from_call(system.train.algorithm)
    frozen = {name for name, agent in system.agents.items() if agent.frozen}
    done = [trajectory for trajectory in trajectories if trajectory.failed is None]
    shrunk = {(trajectory.step, trajectory.question) for trajectory in trajectories if trajectory.failed is not None}
    scored = [
        dataclasses.replace(turn, score=_score(system, algorithm, trajectory, turn))
        for trajectory in done
        for turn in trajectory.turns
    ]
    turns, statistics = assign(scored, system.train, frozen, shrunk)
    judged = assign(scored, dataclasses.replace(system.train, lone="drop"), frozen, shrunk)[0]
    silent = uninformative(judged)
    informative = frozenset((turn.step, turn.question) for turn in turns) - silent
    trained = [turn for turn in turns if turn.agent not in frozen]
    if algorithm.resample:
        trained = [turn for turn in trained if (turn.step, turn.question) in informative]
    return Step(_with_turns(trajectories, turns), tuple(trained), informative, statistics)


def _score(system: System, algorithm: Algorithm, trajectory: Trajectory, turn: Turn) -> float:
    agent = system.agents[turn.agent]
    value = trajectory.agent_rewards.get(turn.agent, trajectory.reward)
    if not turn.valid:
        value -= agent.penalty
    if algorithm.overlong is not None:
        value -= algorithm.overlong.punish(turn.tokens[1], agent.sampling.max_tokens)
    return value


def _with_turns(trajectories: Sequence[Trajectory], turns: Sequence[Turn]) -> tuple[Trajectory, ...]:
    """The trajectories with their turns replaced by the scored ones, which come in the same order."""
    scored = iter(turns)

    def of(trajectory: Trajectory) -> Trajectory:
        if trajectory.failed is not None:
            return trajectory
        events: list[Turn | ToolCall] = [
            next(scored) if isinstance(event, Turn) else event for event in trajectory.events
        ]
        return dataclasses.replace(trajectory, events=tuple(events))

    return tuple(of(trajectory) for trajectory in trajectories)


def step_metrics(
    system: System, step: Step, policies: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """All figures of a step, as `metrics.jsonl` holds them. `seconds` are those for which the outer loop was at rollout, learn,
    wait and sync: a rollout that ran ahead took longer than the loop was at it."""
    done = [trajectory for trajectory in step.trajectories if trajectory.failed is None]
    count = max(1, len(done))
    generated = sum(turn.tokens[1] for trajectory in step.trajectories for turn in trajectory.turns)
    trained = sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in step.turns)
    agents = agent_metrics(list(system.agents), step.trajectories)
    return {
        "reward": sum(trajectory.reward for trajectory in done) / count if done else math.nan,
        "success": sum(trajectory.success for trajectory in done) / count if done else math.nan,
        "trajectories": len(step.trajectories),
        "failed": len(step.trajectories) - len(done),
        "informative_groups": len(step.informative),
        "seconds": {**seconds, "step": sum(seconds.values())},
        "tokens_per_second": {
            "rollout": generated / step.seconds if step.seconds else math.nan,
            "learn": trained / seconds["learn"] if seconds["learn"] else math.nan,
        },
        "agents": {
            name: {"policy": system.agents[name].policy, **figures, **_statistics(step.statistics.get(name))}
            for name, figures in agents.items()
        },
        "policies": {name: dict(figures) for name, figures in policies.items()},
    }


def _statistics(figures: AgentStatistics | None) -> dict[str, float]:
    return {} if figures is None else figures._asdict()
