"""What comes out of a system without mistakes: inheritance, policies, chat, prompts, columns and places."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drmas_dsl.graph.settings import Call
from tests.semantics.support import SYSTEM, check, checked, codes

TEAM = """system team "Two."
param rate: float = 1
model policy {
  weights = "some/model"
  sharing = none
  chat { system = "Be kind.", enable_thinking = true }
  optimizer { lr = 1e-4, betas = [0.8, 0.9] }
}
role Member {
  model = policy
  penalty = rate / 4
  sampling { temperature = 0.5, max_tokens = 9 }
  output answer = boxed()
  output note = tag("note")
}
agent A : Member {
  prompt = "{{ B.note }} {{ found }} {{ loop.index }} {{ A.text }}"
  chat { enable_thinking = false }
  optimizer { lr = 1e-5 }
  output note = number()
}
agent B : A {
  sampling { max_tokens = 10 }
  frozen = true
}
tool find = lookup
flow { loop 2 { A  found = find(A.answer, task.facts)  B }  return A.answer }
task { reward = exact_match(result, task.answer), success = reward > 0.5 }
"""


def test_inheritance_merges_key_by_key(tmp_path: Path) -> None:
    agents = checked(tmp_path, TEAM).system.agents
    assert (agents["B"].sampling.temperature, agents["B"].sampling.max_tokens) == (0.5, 10)
    assert (agents["A"].sampling.temperature, agents["A"].sampling.max_tokens) == (0.5, 9)
    assert [(output.name, output.type) for output in agents["B"].outputs] == [("answer", "string"), ("note", "float")]
    assert agents["B"].penalty == 0.25


def test_an_agent_lies_over_its_model(tmp_path: Path) -> None:
    agent = checked(tmp_path, TEAM).system.agents["A"]
    assert (agent.chat.system, agent.chat.enable_thinking) == ("Be kind.", False)
    assert (agent.optimizer.lr, agent.optimizer.betas) == (1e-5, (0.8, 0.9))


def test_policies(tmp_path: Path) -> None:
    system = checked(tmp_path, TEAM).system
    assert {name: (policy.model, policy.agents, policy.frozen) for name, policy in system.policies.items()} == {
        "A": ("policy", ("A",), False),
        "B": ("policy", ("B",), True),
    }
    assert system.policies["A"].optimizer.lr == 1e-5
    assert system.agents["A"].policy == "A"
    shared = checked(tmp_path, TEAM.replace("  optimizer { lr = 1e-5 }\n", ""), "policy.sharing=full").system
    assert list(shared.policies) == ["policy"]
    assert shared.policies["policy"].agents == ("A", "B")
    assert not shared.policies["policy"].frozen
    assert shared.agents["B"].policy == "policy"
    assert shared.agents["B"].optimizer.lr == 1e-4
    assert system.policies["A"].lora is None
    assert checked(tmp_path, TEAM, "policy.sharing=adapter").system.policies["A"].lora is not None


def test_prompt_reads(tmp_path: Path) -> None:
    text = TEAM
    reads = checked(tmp_path, text).prompt_reads["A"]
    assert [read.expression for read in reads] == [
        {"kind": "output", "agent": "B", "name": "note"},
        {"kind": "variable", "name": "found"},
        {"kind": "loop", "name": "index"},
        {"kind": "text", "agent": "A"},
    ]
    assert [text[read.span.start : read.span.end] for read in reads] == ["note", "found", "index", "text"]


def test_places(tmp_path: Path) -> None:
    places = checked(tmp_path, TEAM).places
    shown = {
        path: TEAM[places[path].start : places[path].end] for path in ("A", "A.optimizer.lr", "B.penalty", "policy")
    }
    assert shown == {"A": "A", "A.optimizer.lr": "lr", "B.penalty": "penalty", "policy": "policy"}
    assert places["A.optimizer.lr"].start == TEAM.index("lr = 1e-5")


def test_success_may_use_the_reward(tmp_path: Path) -> None:
    task = checked(tmp_path, TEAM).system.task
    assert task.success == {"kind": "op", "op": ">", "args": [task.reward, {"kind": "const", "value": 0.5}]}


def test_calls_have_all_arguments(tmp_path: Path) -> None:
    system = checked(tmp_path, TEAM).system
    assert system.models["policy"].engine == Call("hf", {"max_batch": 256, "timeout": 3600.0, "sleep": False})
    assert system.train.algorithm.function == "grpo"
    assert system.train.algorithm.args["clip"] == 0.2
    assert system.train.normalize == Call("agent", {})


def test_one_dataset_is_named_test(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "1", "answer": "1", "facts": {}}\n', encoding="utf-8")
    text = TEAM.replace("task {", 'task { test = dataset("rows.jsonl")')
    (test,) = checked(tmp_path, text).system.task.test.items()
    assert test[0] == "test" and test[1].args["path"] == {"path": "rows.jsonl"}


def test_used_files_name_paths_of_their_own(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    (lib / "weights").mkdir(parents=True)
    (lib / "ask.j2").write_text("{{ task.question }}\n{{ task.wrong }}\n", encoding="utf-8")
    (lib / "lib.mas").write_text(
        'use "more.py"\nmodel m { weights = "weights" }\nrole R { prompt = file("ask.j2") }\n', encoding="utf-8"
    )
    (lib / "more.py").write_text("def grade(answer: str) -> float:\n    return 1.0\n", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("question,answer\n1,1\n", encoding="utf-8")
    text = (
        'system s\nuse "lib/lib.mas"\nagent A : R { model = m, output answer = boxed() }\n'
        'flow { A  return A.answer }\ntask { train = dataset("rows.csv"), reward = grade(result) }\n'
    )
    found, findings = check(tmp_path, text)
    assert found is not None
    assert found.system.models["m"].weights == {"path": "lib/weights"}
    assert found.system.plugins == ({"path": "lib/more.py"},)
    assert [(one.code, one.span.file) for one in findings] == [("E0703", str(lib / "ask.j2"))]


def test_an_abstract_model_needs_no_weights(tmp_path: Path) -> None:
    text = SYSTEM.replace("model m {", "model base { context = 64 }\nmodel m : base {")
    system = checked(tmp_path, text).system
    assert list(system.models) == ["m"]
    assert system.models["m"].context == 64


def test_what_a_role_gives_to_frozen_and_trained_agents_alike_is_fine(tmp_path: Path) -> None:
    system = checked(tmp_path, TEAM).system
    assert system.agents["B"].frozen
    assert system.agents["B"].penalty == 0.25


def test_a_remote_model_is_frozen(tmp_path: Path) -> None:
    text = SYSTEM.replace("weights = tiny()", 'engine = openai("http://localhost:1", "x")')
    system = checked(tmp_path, text).system
    assert system.models["m"].frozen
    assert system.agents["A"].frozen
    assert system.policies["m"].frozen


def test_after_a_syntax_error_nothing_follows(tmp_path: Path) -> None:
    _, found = check(tmp_path, SYSTEM.replace("model m {", "modle m {").replace("boxed", "boxd"), partial=True)
    assert [one.code for one in found] == ["E0207"]


def test_missing_reader_of_columns_accepts_all(tmp_path: Path) -> None:
    assert codes(tmp_path, SYSTEM.replace("task.answer", "task.whatever")) == []


@pytest.mark.parametrize("text", ["", "\n", "system x", "model m {}", "flow {}"])
def test_next_to_nothing_is_no_crash(tmp_path: Path, text: str) -> None:
    check(tmp_path, text, "a=1", "x=", "model.sharing=full", "task.reward=1")


def test_a_thousand_agents_take_a_second(tmp_path: Path) -> None:
    agents = "".join(
        f'agent A{i} : Member {{\n  prompt = """\n    You are {{{{ role }}}} {i}. {{{{ task.question }}}}\n'
        f'    {{% for turn in history %}}{{{{ turn.text }}}}{{% endfor %}}\n  """\n  penalty = 0.{i}\n}}\n'
        for i in range(1000)
    )
    text = SYSTEM.replace("flow {", "role Member { model = m, output x = boxed() }\n" + agents + "flow {")
    checked(tmp_path, SYSTEM)  # imports
    start = time.process_time()
    checked(tmp_path, text)
    assert time.process_time() - start < 3  # about 1 s where nothing else runs
