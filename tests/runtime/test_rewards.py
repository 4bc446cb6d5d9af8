"""Rewards as systems write them, end to end: compiled from text, rolled out with real tools, and seen in an evaluation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.compiler import compile_file
from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from runtime.data import load_rows
from runtime.evaluate import DatasetResult, evaluate, results_record
from runtime.records import Trajectory
from tests.rollout.support import Scripted, team

CORPUS = ["Norway\nIts capital is Oslo.", "Japan\nIts capital is Tokyo.", "Kyoto\nKyoto is a city in Japan."]
ROWS = [
    {"question": "Capital of Norway?", "answer": ["Oslo", "City of Oslo"], "hops": 1, "data_source": "one"},
    {"question": "Capital of the country of Kyoto?", "answer": "Tokyo", "hops": 2, "data_source": "two"},
    {"question": "Capital of Atlantis?", "answer": "none known", "hops": 2, "data_source": "two"},
]
SAID = {
    "Norway": ["Norway", "Oslo city"],
    "Kyoto": ["Kyoto", "Japan", "Tokyo"],
    "Atlantis": ["", "Poseidonis", "unsure"],
}
SYSTEM = """
system team
param most: int = 3
model m { weights = tiny(hidden = 16, layers = 1, heads = 2) }
tool find = bm25("corpus.jsonl", top_k = 1)
agent Search { model = m  prompt = "Search {{ task.question }} after {{ facts }}"  output query = regex("look up (.*)") }
agent Answer { model = m  prompt = "Answer {{ task.question }} by {{ facts }}"  output answer = regex("it is (.*)") }
flow {
  facts = none
  loop most {
    Search
    if Search.query == none { break }
    facts = find(Search.query)
  }
  Answer
  return Answer.answer
}
"""


def script(request: Any, prompt: str) -> str:
    """Searches for what stands in `SAID`, then answers with its last word."""
    said = next(said for name, said in SAID.items() if name in prompt)
    if prompt.startswith("Answer"):
        return f"it is {said[-1]}"
    turn = request.order[2]
    return f"look up {said[turn]}" if turn < len(said) - 1 and said[turn] else "enough"


def evaluated(folder: Path, task: str, extra: str = "") -> tuple[dict[str, DatasetResult], dict[str, Trajectory]]:
    """The results and the trajectories, by the first letters of their answers in `SAID`."""
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    corpus = "\n".join(json.dumps({"id": str(n), "contents": text}) for n, text in enumerate(CORPUS))
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "team.mas").write_text(
        SYSTEM + f'{extra}\ntask {{ test = dataset("rows.jsonl")  {task} }}', encoding="utf-8"
    )
    graph = compile_file(folder / "team.mas")
    results, seen = asyncio.run(evaluate(graph, team(graph, Scripted(script))))
    assert [trajectory.failed for trajectory in seen] == [None] * len(seen)
    names = [next(name for name in SAID if name in trajectory.row["question"]) for trajectory in seen]
    return results, dict(zip(names, seen, strict=True))


def rewards(seen: Mapping[str, Trajectory]) -> dict[str, float]:
    return {name: trajectory.reward for name, trajectory in seen.items()}


def test_weighted_rewards_with_counts(tmp_path: Path):
    results, seen = evaluated(
        tmp_path, "reward = 0.8 * f1(result, task.answer) + 0.2 - 0.02 * calls(Search)  success = reward > 0.5"
    )
    # Oslo city against City of Oslo: two common words of two and three.
    assert rewards(seen) == pytest.approx(
        {"Norway": 0.8 * 4 / 5 + 0.2 - 0.04, "Kyoto": 1.0 - 0.06, "Atlantis": 0.2 - 0.02}
    )
    assert [t.success for t in seen.values()] == [True, True, False]
    assert results["test"].avg[1].value == pytest.approx(2 / 3)


def test_a_reward_that_forbids_too_many_searches(tmp_path: Path):
    _, seen = evaluated(tmp_path, "reward = f1(result, task.answer) * equal(calls(Search) <= task.hops, true)")
    assert rewards(seen) == pytest.approx({"Norway": 0.0, "Kyoto": 0.0, "Atlantis": 0.0})
    _, seen = evaluated(tmp_path, "reward = exact_match(result, task.answer) * (1 - 0.1 * (calls(Search) - task.hops))")
    assert rewards(seen) == pytest.approx({"Norway": 0.0, "Kyoto": 0.9, "Atlantis": 0.0})


def test_rewards_of_single_agents_beside_the_shared_one(tmp_path: Path):
    _, seen = evaluated(
        tmp_path,
        """
        reward        = exact_match(result, task.answer)
        reward Search = exact_match(result, task.answer) - 0.1 * calls(Search)
        reward Answer = 0.5 * f1(Answer.answer, task.answer) + 0.5 * equal(Search.query, none)
        success       = f1(result, task.answer) > 0
        """,
    )
    assert rewards(seen) == {"Norway": 0.0, "Kyoto": 1.0, "Atlantis": 0.0}
    assert {name: t.agent_rewards["Search"] for name, t in seen.items()} == pytest.approx(
        {"Norway": -0.2, "Kyoto": 0.7, "Atlantis": -0.1}
    )
    assert seen["Norway"].agent_rewards["Answer"] == pytest.approx(0.5 * 4 / 5)
    assert [t.success for t in seen.values()] == [True, True, False]


def test_a_reward_of_none_counts_nothing(tmp_path: Path):
    _, seen = evaluated(tmp_path, "reward = 0.5 + math_equal(none, task.answer) + f1(Search.query, task.answer)")
    assert set(rewards(seen).values()) == {0.5}


def test_results_by_data_source(tmp_path: Path):
    results, _ = evaluated(tmp_path, "reward = exact_match(result, task.answer)")
    assert {name: result.questions for name, result in results.items()} == {"test": 3, "test/one": 1, "test/two": 2}
    assert results["test/two"].avg[1].value == 0.5 and results["test/one"].avg[1].value == 0.0
    json.dumps(results_record(results))
    results, _ = evaluated(tmp_path, "reward = 1", "eval { split = none }")
    assert set(results) == {"test"}
    results, _ = evaluated(tmp_path, "reward = 1", 'eval { split = "hops" }')
    assert set(results) == {"test", "test/1", "test/2"}
    with pytest.raises(UserError, match="has the column 'hop' of"):
        evaluated(tmp_path, "reward = 1", 'eval { split = "hop" }')


def test_a_generated_task_and_its_verifier(tmp_path: Path):
    pytest.importorskip("reasoning_gym")
    text = SYSTEM.partition("tool")[0] + (
        'agent A { model = m  prompt = "{{ task.question }}"  output sum = regex("it is (.*)") }\n'
        "flow { A  return A.sum }\n"
        'task { test = reasoning_gym("chain_sum", size = 4, options = ["max_terms = 2"])\n'
        "  reward = reasoning_gym_score(result, task.entry)  success = reward > 0.9 }"
    )
    (tmp_path / "sums.mas").write_text(text, encoding="utf-8")
    graph = compile_file(tmp_path / "sums.mas")
    rows = load_rows(system_of(graph).task.test["test"], str(tmp_path))
    answers = {row["question"]: row["answer"] for row in rows[:3]}  # the fourth one is not known

    def answer(request: Any, prompt: str) -> str:
        return next((f"it is {known}" for question, known in answers.items() if question in prompt), "it is many")

    results, seen = asyncio.run(evaluate(graph, team(graph, Scripted(answer))))
    assert [t.reward for t in seen][:3] == [1.0] * 3 and seen[3].reward < 0.1
    assert results["test"].avg[1].value == 0.75


def test_the_functions_of_the_documentation(tmp_path: Path):
    example = Path(__file__).parents[2] / "docs" / "examples" / "estimates.mas"
    tiny = "policy.weights=tiny(hidden = 16, layers = 1, heads = 2)"
    graph = compile_file(example, [tiny, "eval.samples=1", "eval.k=[1]", "eval.limit=3"])
    hints: list[str] = []

    def guess(request: Any, prompt: str) -> str:
        hints.append(prompt.split("It is near ")[1].split(".", maxsplit=1)[0])
        a, b = hints[-1].split(" * ")
        return f"<answer>{int(a) * int(b):,}</answer>"

    _, seen = asyncio.run(evaluate(graph, team(graph, Scripted(guess))))
    for trajectory, hint in zip(seen, hints, strict=True):
        a, b = map(int, hint.split(" * "))
        off = abs(a * b - trajectory.row["answer"]) / trajectory.row["answer"]
        assert trajectory.result == a * b
        assert trajectory.reward == pytest.approx(max(0.0, 1 - off / 0.25)) and trajectory.success == (off < 0.1)
