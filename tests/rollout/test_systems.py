"""Whole systems from `.mas` text: plug-ins, patterns, tools and rewards through the compiler and the rollout together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from drmas_dsl.compiler import compile_file
from runtime.records import Trajectory
from runtime.rollout.scheduler import rollout
from tests.rollout.support import TOKENIZER, Scripted

HEAD = """
system small
model m { weights = tiny() }
role Talker { model = m, prompt = "{{ role }}: {{ task.question }}", sampling { max_tokens = 64 } }
"""


def roll(folder: Path, text: str, engine: Scripted, rows: list[dict[str, Any]]) -> list[Trajectory]:
    path = folder / "small.mas"
    path.write_text(HEAD + dedent(text))
    work = rollout(
        compile_file(path), rows, step=1, group_size=1, seed=0, engines={"m": engine}, tokenizers={"m": TOKENIZER}
    )
    return asyncio.run(work)


def test_plugins_are_awaited_or_run_beside_and_the_batch_stays_in_order(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        dedent("""
        import asyncio, time

        async def wait(seconds: float, *, word: str, extra: str | None = None) -> str:
            await asyncio.sleep(seconds)
            return word

        def block(seconds: float) -> str:
            time.sleep(seconds)
            return "blocked"

        def halves(text: str) -> str | None:
            return text[: len(text) // 2] or None

        def share(answer: str, gold: str, weight: float = 0.5) -> float:
            return weight * (answer == gold)
        """)
    )
    text = """
        use "mine.py"
        tool nap = wait(word = "rested")
        tool hold = block()
        agent A : Talker { prompt = "{{ x }}, {{ y }}", output half = halves() }
        flow { x = nap(task.seconds)  y = hold(task.seconds)  A  return A.half }
        task { reward = share(result, task.answer) }
    """
    rows = [{"id": str(n), "seconds": seconds, "answer": "ab"} for n, seconds in enumerate((0.06, 0.0, 0.03))]
    engine = Scripted(lambda request, prompt: "abcd" if prompt == "rested, blocked" else "")
    trajectories = roll(tmp_path, text, engine, rows)
    assert [trajectory.failed for trajectory in trajectories] == [None] * 3
    assert [trajectory.reward for trajectory in trajectories] == [0.5] * 3
    assert [[request.order for request in batch] for batch in engine.batches] == [[(0, 0, 0), (1, 0, 0), (2, 0, 0)]]


def test_a_parser_that_fails_fails_its_trajectory(tmp_path: Path):
    (tmp_path / "mine.py").write_text("def third(text):\n    return text.split()[2]\n")
    text = """
        use "mine.py"
        agent A : Talker { output word = third() }
        flow { A  return A.word }
        task { reward = equal(result, "c") }
    """
    engine = Scripted(lambda request, prompt: "a b c" if request.order[0] else "a")
    bad, good = roll(tmp_path, text, engine, [{"question": "?"}, {"question": "?"}])
    assert bad.failed == "A.word cannot be parsed: IndexError: list index out of range"
    assert good.failed is None and good.reward == 1.0


def test_a_retriever_that_is_down_fails_those_that_ask_it(tmp_path: Path):
    text = """
        tool retrieve = http_retriever(url = "http://127.0.0.1:9/retrieve", timeout = 2.0, retries = 0)
        agent A : Talker { output query = tag("search") }
        flow { A  documents = retrieve(A.query)  return documents }
        task { reward = equal(result, "x") }
    """
    engine = Scripted(lambda request, prompt: "no query" if request.order[0] else "<search>q</search>")
    asked, silent = roll(tmp_path, text, engine, [{"question": "?"}, {"question": "?"}])
    assert asked.failed is not None
    assert asked.failed.startswith("retrieve: http://127.0.0.1:9/retrieve: Cannot connect")
    assert asked.turns[0].outputs == {"query": "q"} and asked.reward == 0.0 and not asked.success
    assert silent.failed is None and silent.result is None


def test_what_other_branches_recorded_is_kept_where_one_fails(tmp_path: Path):
    text = """
        agent A : Talker { role = "A" }
        agent B : Talker { role = "B", prompt = "{{ role }}{{ history[5].text }}" }
        agent C : Talker { role = "C" }
        flow { parallel { A -> B  C }  return C.text }
        task { reward = equal(result, "x") }
    """
    (trajectory,) = roll(tmp_path, text, Scripted(lambda request, prompt: prompt[0]), [{"question": "?"}])
    assert trajectory.failed is not None and trajectory.failed.startswith("B: the prompt does not render")
    assert [(turn.agent, turn.index) for turn in trajectory.turns] == [("A", 0), ("C", 1)]


def test_nothing_is_asked_after_a_cancellation(tmp_path: Path):
    (tmp_path / "mine.py").write_text("import asyncio\n\nasync def wait(seconds):\n    await asyncio.sleep(seconds)\n")
    (tmp_path / "small.mas").write_text(
        HEAD
        + dedent("""
        use "mine.py"
        tool nap = wait()
        agent A : Talker { output word = text() }
        flow { x = nap(task.seconds)  A  return A.word }
        task { reward = equal(result, "x") }
        """)
    )
    made, engine = compile_file(tmp_path / "small.mas"), Scripted(lambda request, prompt: "x")
    rows = [{"id": str(n), "seconds": 30 * n, "question": ""} for n in (0, 1)]

    async def work() -> None:
        work = rollout(made, rows, step=1, group_size=2, seed=0, engines={"m": engine}, tokenizers={"m": TOKENIZER})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.1)
        await asyncio.sleep(0.05)

    asyncio.run(work())
    assert engine.batches == []


def test_a_vote_over_copies_and_a_pattern(tmp_path: Path):
    text = """
        agent Solver : Talker { output answer = number() }
        agent Judge : Talker { prompt = "{{ Solver.answer | length }}", output verdict = choice("good", "bad") }
        flow check(judge, rounds) { loop rounds { judge  if judge.verdict == "good" { break } } }
        flow {
          parallel 5 { Solver }
          best_answer = vote(Solver.answer)
          known = count(Solver.answer)
          check(Judge, 3)
          return best_answer
        }
        task {
          reward = equal(result, task.answer) - 0.1 * calls(Judge)
          reward Judge = 0.5
          success = result == 3
        }
    """
    said = iter(["2", "3", "so 3", "none", "2 3", "bad", "good"])
    (trajectory,) = roll(
        tmp_path, text, Scripted(lambda request, prompt: next(said)), [{"question": "?", "answer": "3"}]
    )
    assert trajectory.failed is None and trajectory.result == 3.0
    assert [turn.agent for turn in trajectory.turns] == ["Solver"] * 5 + ["Judge"] * 2
    assert trajectory.turns[5].prompt == "5"
    assert trajectory.reward == 0.8 and trajectory.agent_rewards == {"Judge": 0.5} and trajectory.success


def test_the_verifier_search_answer_hierarchy(tmp_path: Path):
    text = """
        tool find = lookup()
        agent Verifier : Talker { role = "V", output enough = choice("yes", "no", tag = "verify") }
        agent Search : Talker { role = "S", output query = tag("search", after = "think") }
        agent Answer : Talker { prompt = "{{ found }}!", output answer = tag("answer") }
        flow {
          loop 4 {
            Verifier
            if Verifier.enough == "yes" { Answer  return Answer.answer }
            if loop.last { break }
            Search
            found = find(Search.query, task.facts)
          }
          return none
        }
        task { reward = exact_match(result, task.answer) }
    """
    verdicts = iter(["no", "what?", "yes"])
    queries = iter(["<search>a</search>", "<think></think><search>a</search>"])

    def say(request: Any, prompt: str) -> str:
        if prompt.endswith("!"):
            return f"<answer>{prompt}</answer>"
        return next(queries) if prompt.startswith("S") else f"<verify>{next(verdicts)}</verify>"

    facts = {"a": "Paris"}
    (trajectory,) = roll(tmp_path, text, Scripted(say), [{"question": "?", "answer": ["paris"], "facts": facts}])
    assert [type(event).__name__ for event in trajectory.events] == ["Turn"] * 4 + ["ToolCall"] + ["Turn"] * 2
    assert [turn.valid for turn in trajectory.turns] == [True, False, False, True, True, True]
    assert trajectory.result == "Paris!" and trajectory.reward == 1.0
    (lost,) = roll(
        tmp_path, text, Scripted(lambda request, prompt: ""), [{"question": "?", "answer": "x", "facts": facts}]
    )
    assert len(lost.turns) == 7 and lost.result is None and lost.reward == 0.0 and lost.failed is None
