"""Scores and advantages of rolled-out trajectories, per agent, against numbers worked out by hand."""

import dataclasses
import math
from typing import Any

import pytest

from drmas_dsl.graph.settings import Agent, Call, Eval, Lora, Model, Optimizer, Policy, Sampling, System, Task, Train
from runtime.records import Trajectory
from runtime.scoring import score, step_metrics
from tests.runtime.test_metrics import turn


def system(**train) -> System:
    agents = {
        "A": Agent(name="A", model="m", policy="A", penalty=0.5, sampling=Sampling(max_tokens=10)),
        "B": Agent(name="B", model="m", policy="B", penalty=0.0),
        "F": Agent(name="F", model="m", policy="F", frozen=True),
    }
    policies = {
        name: Policy(name, "m", (name,), agent.frozen, Optimizer(), "token_mean", 1024, Lora())
        for name, agent in agents.items()
    }
    settings: dict[str, Any] = {"lone": "drop", "group_size": 2, "batch_size": 1} | train
    models = {"m": Model(name="m", weights="w")}
    return System("s", "", {}, models, policies, agents, {}, Task(), Train(**settings), Eval(), {})


def walk(index: int, *turns, reward: float, question: str = "q", **fields) -> Trajectory:
    name = f"{question}.{index}"
    events = tuple(dataclasses.replace(t, question=question, trajectory=name) for t in turns)
    return Trajectory(step=1, question=question, id=name, index=index, row={}, events=events, reward=reward, **fields)


def test_the_penalty_is_the_agents_own_and_only_for_what_did_not_parse():
    step = score(
        system(),
        [
            walk(0, turn("A", valid=False), turn("B", valid=False), reward=1.0),
            walk(1, turn("A"), turn("B"), reward=1.0),
        ],
    )
    assert [t.score for t in step.turns] == [0.5, 1.0, 1.0, 1.0]
    a_bad, b_bad, a_good, b_good = step.turns
    assert a_good.advantage == pytest.approx(0.25 / math.sqrt(0.125), rel=1e-4)
    assert a_bad.advantage == pytest.approx(-0.25 / math.sqrt(0.125), rel=1e-4)
    assert b_bad.advantage == b_good.advantage == 0


def test_an_agents_own_reward_takes_the_place_of_the_tasks():
    step = score(system(), [walk(0, turn("A"), turn("B"), reward=1.0, agent_rewards={"B": 0.25})])
    assert [t.score for t in step.turns] == [1.0, 0.25]


def test_frozen_agents_are_scored_and_neither_trained_nor_counted():
    trajectories = [walk(0, turn("F"), turn("A"), reward=1.0), walk(1, turn("F"), turn("A"), reward=0.0)]
    step = score(system(), trajectories)
    assert {t.agent for t in step.turns} == {"A"}
    assert "F" not in step.statistics
    assert all(t.score is not None for walk in step.trajectories for t in walk.turns)


def test_failures_are_left_out_and_a_group_of_one_left_over_is_dropped():
    failed = walk(0, turn("A"), reward=0.0, failed="tool down")
    step = score(system(lone="raw"), [failed, walk(1, turn("A"), reward=1.0)])
    assert [t.trajectory for t in step.turns] == ["q.1"]
    assert step.turns[0].advantage == 0
    assert step.trajectories[0] is failed


def test_resampling_algorithms_train_informative_groups_only():
    trajectories = [
        walk(0, turn("A"), reward=1.0), walk(1, turn("A"), reward=0.0),
        walk(0, turn("A"), reward=1.0, question="flat"), walk(1, turn("A"), reward=1.0, question="flat"),
    ]  # fmt: skip
    assert len(score(system(), trajectories).turns) == 4
    step = score(system(algorithm=Call("dapo")), trajectories)
    assert {t.question for t in step.turns} == {"q"}
    assert step.informative == {(1, "q")}


def test_a_turn_without_company_informs_nobody():
    lone = [walk(0, turn("A"), turn("B"), reward=1.0), walk(1, turn("A"), reward=1.0)]
    step = score(system(algorithm=Call("dapo"), lone="raw"), lone)
    assert not step.informative and not step.turns


def test_tokens_of_a_remote_agent_are_those_that_its_server_counts():
    team = system(algorithm=Call("dapo", {"overlong_buffer": 4, "overlong_penalty": 1.0}))
    long = turn("A", response_ids=(0,) * 30, usage=(20, 8))  # its ids are bytes
    step = dataclasses.replace(score(team, [walk(0, long, reward=1.0)]), seconds=2.0)
    assert step.trajectories[0].turns[0].score == 0.5
    assert step_metrics(team, step, {}, {"learn": 1.0})["tokens_per_second"]["rollout"] == 4.0


def test_overlong_responses_lose_what_dapo_says():
    algorithm = Call("dapo", {"overlong_buffer": 4, "overlong_penalty": 1.0})
    lengths = (6, 8, 10)
    trajectories = [walk(i, turn("A", response_ids=(0,) * n), reward=1.0) for i, n in enumerate(lengths)]
    assert [t.score for t in score(system(algorithm=algorithm), trajectories).turns] == [1.0, 0.5, 0.0]


def test_metrics_hold_the_step_the_agents_and_the_policies():
    team = system()
    step = score(team, [walk(0, turn("A"), turn("B"), reward=1.0, success=True), walk(1, turn("A"), reward=0.0)])
    step = dataclasses.replace(step, seconds=2.0)  # of which the loop may have waited for less
    figures = step_metrics(team, step, {"A": {"loss": 0.5}}, {"rollout": 0.1, "learn": 1.0, "sync": 0.0})
    assert (figures["reward"], figures["success"], figures["failed"]) == (0.5, 0.5, 0)
    assert figures["tokens_per_second"] == {"rollout": 1.5, "learn": 9.0}
    assert figures["agents"]["A"]["inflation"] == pytest.approx(1.0)
    assert figures["agents"]["A"]["policy"] == "A"
    assert "inflation" not in figures["agents"]["F"]
    assert figures["policies"] == {"A": {"loss": 0.5}}
