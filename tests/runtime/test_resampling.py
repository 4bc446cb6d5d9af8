"""DAPO's further questions, where a step's groups say nothing: each question is asked once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from drmas_dsl.graph.settings import Call
from runtime.data import QuestionSampler
from runtime.trainer import collect
from tests.rollout.support import Scripted, agent, chain, system, team

TELLING = {1, 5}  # of the questions, where one of two answers is right


def answer(request, prompt):
    number = int(prompt.split()[-1])
    return f"<a>{'no' if number in TELLING and request.order[1] else number}</a>"


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_every_question_of_a_step_is_asked_once(seed):
    base = system([agent("A", prompt="{{ task.question }}")])
    train = replace(base.train, algorithm=Call("dapo"), batch_size=2, group_size=2, steps=3, seed=seed)
    graph = chain(replace(base, train=train), "A")
    rows = [{"id": number, "question": str(number), "answer": str(number)} for number in range(8)]
    step = asyncio.run(collect(graph, team(graph, Scripted(answer)), QuestionSampler(rows, 2, seed), 1))
    asked = Counter(trajectory.question for trajectory in step.trajectories)
    assert set(asked.values()) == {2}
    assert {int(question) for _, question in step.informative} == TELLING & {*map(int, asked)}
    assert len(asked) > 2  # more than the batch
    assert step.seconds > 0
