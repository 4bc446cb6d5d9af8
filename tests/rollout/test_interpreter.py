"""Walks over hand-made graphs: what every kind of node does, what is recorded, and how walks fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

from drmas_dsl.graph.execution import MORE
from drmas_dsl.graph.settings import Call, Eval, Output, Sampling, Task
from runtime.records import ToolCall, Trajectory
from runtime.rollout.interpreter import seed_of
from runtime.rollout.scheduler import rollout
from tests.rollout.support import (
    TINY,
    TOKENIZER,
    Nodes,
    Scripted,
    agent,
    call,
    chain,
    const,
    graph,
    looped,
    op,
    output,
    system,
)

ROW = {"id": "q", "question": "Why?", "answer": "yes", "facts": {"k": "v"}}


def roll(
    made: nx.MultiDiGraph, engine: Scripted, rows: list[dict[str, Any]] | None = None, **settings: Any
) -> list[Trajectory]:
    given: dict[str, Any] = {"step": 1, "group_size": 1, "seed": 0, **settings}
    return asyncio.run(rollout(made, rows or [ROW], engines={"m": engine}, tokenizers={"m": TOKENIZER}, **given))


def says(text: str) -> Scripted:
    return Scripted(lambda request, prompt: text)


def test_a_turn_is_recorded_as_the_engine_had_it():
    (trajectory,) = roll(chain(system([agent("A")]), "A"), says("it is <a>Yes!</a>"))
    (turn,) = trajectory.turns
    assert (turn.step, turn.question, turn.trajectory, turn.agent, turn.index) == (1, "q", "q/0", "A", 0)
    assert TOKENIZER.decode(turn.prompt_ids) == turn.prompt == "Why?"
    assert TOKENIZER.decode(turn.response_ids) == "it is <a>Yes!</a><|end|>" and turn.text == "it is <a>Yes!</a>"
    assert len(turn.logprobs) == len(turn.response_ids) and turn.weights_version == 3
    assert turn.outputs == {"answer": "Yes!"} and turn.valid and not turn.defaulted and not turn.truncated
    assert (trajectory.result, trajectory.reward, trajectory.success, trajectory.failed) == ("Yes!", 1.0, True, None)


def test_what_does_not_parse_is_none_or_its_default_and_invalid_either_way():
    verdict = Output(
        "verdict", Call("choice", {"options": ["ok", "bad"], "tag": "v", "default": "bad", "after": None}), "string"
    )
    made = chain(system([agent("A"), agent("B", outputs=(verdict,))]), "A", "B")
    made.nodes["n3"]["value"] = output("A", "answer")
    (trajectory,) = roll(made, says("no tags"))
    first, second = trajectory.turns
    assert first.outputs == {"answer": None} and not first.valid and not first.defaulted
    assert second.outputs == {"verdict": "bad"} and not second.valid and second.defaulted
    assert trajectory.result is None and trajectory.reward == 0.0 and trajectory.failed is None


def test_truncated_at_max_tokens():
    (trajectory,) = roll(chain(system([agent("A", sampling=Sampling(max_tokens=4))]), "A"), says("<a>yes</a>"))
    assert trajectory.turns[0].truncated and trajectory.turns[0].text == "<a>y" and not trajectory.turns[0].valid


def test_prompts_see_task_role_history_outputs_variables_and_loop():
    template = (
        "{{ role }}|{{ task.question }}|{{ loop.index }}/{{ loop.max }}{% if loop.last %}!{% endif %}|"
        "{{ A.answer }}|{{ A.text }}|{% for turn in history %}{{ turn.agent }}:{{ turn.text }}:{{ turn.answer }};{% endfor %}"
    )
    (trajectory,) = roll(looped(system([agent("A", template)]), 2, "A"), says("<a>x</a>"))
    first, second = (turn.prompt for turn in trajectory.turns)
    assert first == "the A|Why?|1/2|||"
    assert second == "the A|Why?|2/2!|x|<a>x</a>|A:<a>x</a>:x;"


def test_a_loop_counts_from_one_and_anew_when_entered_again():
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "loop", "max": 2},
        "n2": {"kind": "loop", "max": 3, "loops": ["n1"]},
        "n3": {"kind": "call", "agent": "A", "loops": ["n1", "n2"]},
        "n4": {"kind": "branch", "loops": ["n1", "n2"]},
        "n5": {"kind": "return", "value": output("A", "answer")},
    }
    leave = op("==", output("A", "answer"), const("stop"))
    edges = [("n0", "n1"), ("n1", "n2", MORE), ("n1", "n5"), ("n2", "n3", MORE), ("n2", "n1"), ("n3", "n4")]
    edges += [("n4", "n1", leave), ("n4", "n2")]
    made = graph(system([agent("A", "{{ loop.index }}{% if loop.last %}!{% endif %}")]), nodes, edges)
    (trajectory,) = roll(made, says("<a>go</a>"))
    assert [turn.prompt for turn in trajectory.turns] == ["1", "2", "3!"] * 2
    assert [turn.index for turn in trajectory.turns] == list(range(6))
    words = iter(["go", "stop", "go", "go", "go"])
    (broken,) = roll(made, Scripted(lambda request, prompt: f"<a>{next(words)}</a>"))
    assert [turn.prompt for turn in broken.turns] == ["1", "2", "1", "2", "3!"]


def test_a_loop_with_nothing_in_it_ends():
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "loop", "max": 3},
        "n2": {"kind": "return", "value": const("out")},
    }
    (trajectory,) = roll(graph(system([]), nodes, [("n0", "n1"), ("n1", "n1", MORE), ("n1", "n2")]), says(""))
    assert trajectory.failed is None and trajectory.result == "out"


TOOL_NODES: Nodes = {
    "n0": {"kind": "start"},
    "n1": {"kind": "call", "agent": "A"},
    "n2": {
        "kind": "tool",
        "tool": "find",
        "args": {"key": output("A", "answer"), "facts": {"kind": "task", "name": "facts"}},
        "bind": "found",
    },
    "n3": {"kind": "call", "agent": "B"},
    "n4": {"kind": "return", "value": {"kind": "variable", "name": "found"}},
}
TOOL_EDGES = [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4")]


def test_a_tool_binds_its_result_and_stands_in_the_history():
    prompt = "{{ found }}|{% for turn in history %}{{ turn.tool }}{{ turn.agent }}={{ turn.text }};{% endfor %}"
    made = graph(system([agent("A"), agent("B", prompt)]), TOOL_NODES, TOOL_EDGES)
    (trajectory,) = roll(made, says("<a>k</a>"))
    assert trajectory.turns[1].prompt == "v|A=<a>k</a>;find=v;"
    assert trajectory.result == "v"
    tool = trajectory.events[1]
    assert isinstance(tool, ToolCall) and tool.args == {"key": "k", "facts": {"k": "v"}} and tool.result == "v"


def test_a_tool_whose_argument_is_none_is_not_called():
    made = graph(system([agent("A"), agent("B", "{{ found }}|{{ history | length }}")]), TOOL_NODES, TOOL_EDGES)
    (trajectory,) = roll(made, says("nothing"))
    assert trajectory.turns[1].prompt == "|1" and trajectory.result is None
    assert not any(isinstance(event, ToolCall) for event in trajectory.events)


def test_a_tool_that_fails_fails_the_trajectory_and_keeps_what_was_recorded():
    made = graph(system([agent("A"), agent("B")]), TOOL_NODES, TOOL_EDGES)
    bad, good = roll(made, says("<a>k</a>"), [{**ROW, "facts": 3}, {**ROW, "id": "r"}])
    assert bad.failed == "find: facts must be a mapping or a text of key=value items, not int"
    assert [turn.agent for turn in bad.turns] == ["A"]
    assert good.failed is None and good.result == "v"


def test_branches_run_from_the_forks_state_and_meet_in_source_order():
    prompt = "{% for turn in history %}{{ turn.agent }}{% endfor %}"
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "call", "agent": "A"},
        "n2": {"kind": "fork", "join": "n6", "copies": None},
        "n3": {"kind": "call", "agent": "B"},
        "n4": {"kind": "call", "agent": "C"},
        "n5": {"kind": "call", "agent": "D"},
        "n6": {"kind": "join", "fork": "n2"},
        "n7": {"kind": "call", "agent": "E"},
        "n8": {"kind": "return", "value": output("C", "answer")},
    }
    edges = [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n2", "n3"),
        ("n2", "n5"),
        ("n3", "n4"),
        ("n4", "n6"),
        ("n5", "n6"),
        ("n6", "n7"),
    ]
    edges += [("n7", "n8")]
    made = graph(system([agent(name, prompt) for name in "ABCDE"]), nodes, edges)
    for immediate in (False, True):
        engine = Scripted(lambda request, text: f"<a>{request.policy}</a>")
        (trajectory,) = roll(made, engine, immediate=immediate)
        prompts = {turn.agent: turn.prompt for turn in trajectory.turns}
        assert prompts == {"A": "", "B": "A", "C": "AB", "D": "A", "E": "ABCD"}
        assert [turn.agent for turn in trajectory.turns] == list("ABCDE")
        assert [turn.index for turn in trajectory.turns] == [0, 1, 2, 3, 4]
        assert trajectory.result == "C"
    gated = says("<a>x</a>")
    roll(made, gated, immediate=False)
    assert [[request.policy for request in batch] for batch in gated.batches] == [["A"], ["B", "D"], ["C"], ["E"]]


def test_copies_of_a_block_leave_lists():
    nodes: Nodes = {
        "n0": {"kind": "start"},
        "n1": {"kind": "fork", "join": "n4", "copies": 3},
        "n2": {"kind": "call", "agent": "A"},
        "n3": {"kind": "assign", "bind": "x", "value": output("A", "answer")},
        "n4": {"kind": "join", "fork": "n1"},
        "n5": {"kind": "call", "agent": "B"},
        "n6": {"kind": "return", "value": call("vote", xs={"kind": "variable", "name": "x"})},
    }
    edges = [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n5"), ("n5", "n6")]
    made = graph(system([agent("A"), agent("B", "{{ A.answer | join(',') }} of {{ A.text | length }}")]), nodes, edges)
    answers = iter(["<a>no</a>", "oops", "<a>no</a>", "fine"])
    (trajectory,) = roll(made, Scripted(lambda request, text: next(answers)))
    assert trajectory.turns[3].prompt == "no,,no of 3"
    assert trajectory.result == "no"
    assert len({turn.index for turn in trajectory.turns}) == 4


def test_the_copies_seeds_differ():
    seeds = {
        seed_of(seed, step, question, index, turn)
        for seed in (0, 1)
        for step in (1, 2)
        for question in ("a", "b")
        for index in (0, 1)
        for turn in ((0,), (1,), (0, 0, 0), (0, 1, 0))
    }
    assert len(seeds) == 64 and all(0 <= seed < 2**63 for seed in seeds)


def test_own_rewards_success_and_calls():
    task = Task(
        reward=op("-", const(1), op("*", const(0.25), {"kind": "calls", "agent": "A"})),
        agent_rewards={"A": op("+", output("A", "answer"), const(1))},
        success=op(">=", {"kind": "result"}, const("a")),
    )
    (trajectory,) = roll(looped(system([agent("A")], task=task), 2, "A"), says("none here"))
    assert trajectory.reward == 0.5 and trajectory.agent_rewards == {"A": 0.0} and not trajectory.success
    assert trajectory.failed is None
    (solved,) = roll(looped(system([agent("A")], task=task), 2, "A"), says("<a>b</a>"))
    assert solved.failed is not None and "TypeError" in solved.failed  # "b" + 1


@pytest.mark.parametrize("value", ["high", float("nan"), float("inf")])
def test_a_reward_that_is_no_number_fails(value: Any):
    (trajectory,) = roll(chain(system([agent("A")], reward=const(value)), "A"), says("<a>b</a>"))
    assert trajectory.failed is not None and "which is no finite number" in trajectory.failed


def test_a_cycle_that_is_no_loop_is_cut():
    made = chain(system([agent("A"), agent("B")]), "A", "B")
    made.remove_edge("n2", "n3")
    made.add_edge("n2", "n1", order=9, condition=None)
    (trajectory,) = roll(made, says("<a>b</a>"))
    assert trajectory.failed is not None and "does not end" in trajectory.failed
    assert [turn.agent for turn in trajectory.turns] == ["A", "B"]


def test_a_node_without_an_edge_to_take_fails():
    made = chain(system([agent("A")]), "A")
    made.edges["n1", "n2", 0]["condition"] = const(False)
    (trajectory,) = roll(made, says("<a>b</a>"))
    assert trajectory.failed == "the graph has no edge to take from node n1"


def test_history_is_dropped_from_the_oldest_until_the_prompt_fits():
    prompt = "{{ task.question }}{% for turn in history %}[{{ turn.text }}]{% endfor %}"
    speaker = agent("A", prompt, sampling=Sampling(max_tokens=20))
    made = looped(system([speaker]), 5, "A")
    made.graph["system"] = replace(made.graph["system"], models={"m": replace(TINY, context=20 + 4 + 24)})
    numbers = iter("12345")
    (trajectory,) = roll(made, Scripted(lambda request, text: f"<a>{next(numbers)}</a>"))
    assert [turn.dropped_history for turn in trajectory.turns] == [0, 0, 0, 1, 2]
    assert trajectory.turns[-1].prompt == "Why?[<a>3</a>][<a>4</a>]"
    assert all(len(turn.prompt_ids) + 20 <= 48 for turn in trajectory.turns)
    long, fine = roll(made, says("<a>1</a>"), [{**ROW, "question": "long " * 20}, {**ROW, "id": "r"}])
    assert long.failed == "A: the prompt has 100 tokens without any history, and only 28 fit beside max_tokens"
    assert fine.failed is None


def test_a_template_that_fails_says_so():
    (trajectory,) = roll(chain(system([agent("A", "{{ task.missing }}")]), "A"), says("x"))
    assert trajectory.failed is not None and trajectory.failed.startswith(
        "A: the prompt does not render: UndefinedError"
    )
    assert "missing" in trajectory.failed


def test_evaluation_has_its_own_temperature():
    made = chain(system([agent("A")], eval=Eval(temperature=0.6, top_p=None)), "A")
    engine = says("<a>x</a>")
    roll(made, engine, evaluation=True)
    roll(made, engine)
    (first,), (second,) = engine.batches
    assert (first.sampling.temperature, first.sampling.top_p) == (0.6, 1.0) and second.sampling.temperature == 1.0
