"""`drmasc advantages`: the reference's numbers from a file, a run's rollouts, and mistakes by file and line."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drmas_dsl.cli.main import main
from drmas_dsl.graph.serialize import to_json
from drmas_dsl.graph.settings import Call
from runtime.records import Trajectory
from runtime.runfolder import write_trajectories
from tests.graph.systems import lowered, system
from tests.learning.turns import make_turn

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "advantages.json").read_text())["cases"]
OPTIONS = {
    "grpo/trajectory/mean_std": ["--normalize", "trajectory"],
    "grpo/trajectory/mean": ["--normalize", "trajectory", "--algorithm", "dr_grpo"],
    "grpo/agent/mean_std": [],
    "grpo/agent/mean": ["--normalize", "stats(mean = agent, std = none)"],
    "rloo/agent": ["--algorithm", "rloo"],
}


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("key", OPTIONS)
@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: case["name"])
def test_the_reference(case, key, tmp_path, capsys):
    assert main(["advantages", write(tmp_path / "turns.jsonl", case["turns"]), *OPTIONS[key]]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [{name: row[name] for name in ("question", "trajectory", "agent", "score")} for row in rows] == case["turns"]
    np.testing.assert_allclose([row["advantage"] for row in rows], case["advantages"][key], atol=1e-5)


def test_lone_turns(tmp_path, capsys):
    file = write(tmp_path / "t.jsonl", [{"question": "q", "trajectory": "t", "agent": "A", "score": 1.0}])
    for lone, expected in (("raw", 1.0), ("drop", 0.0)):
        main(["advantages", file, "--lone", lone])
        assert json.loads(capsys.readouterr().out)[0]["advantage"] == pytest.approx(expected, abs=1e-5)


def test_steps_are_kept_apart(tmp_path, capsys):
    rows = [
        {"question": "q", "agent": "A", "trajectory": f"t{i}", "step": step, "score": score}
        for step in (1, 2)
        for i, score in enumerate((0, step))
    ]
    main(["advantages", write(tmp_path / "t.jsonl", rows), "--normalize", "stats(mean = agent, std = none)"])
    printed = json.loads(capsys.readouterr().out)
    assert [row["advantage"] for row in printed] == [-0.5, 0.5, -1.0, 1.0]
    assert [row["step"] for row in printed] == [1, 1, 2, 2]


def test_the_table_has_every_agents_inflation(tmp_path, capsys):
    main(["advantages", write(tmp_path / "t.jsonl", REFERENCE[2]["turns"]), "--format", "text"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert "inflation" in head
    assert {line.split()[0] for line in lines} == {"Verifier", "Search", "Answer"}


def test_a_run_brings_its_settings_frozen_agents_and_failures(tmp_path, capsys):
    base = system()
    frozen = dataclasses.replace(base.policies["B"], frozen=True)
    run_system = dataclasses.replace(
        base,
        policies={**base.policies, "B": frozen},
        agents={**base.agents, "B": dataclasses.replace(base.agents["B"], frozen=True)},
        train=dataclasses.replace(base.train, normalize=Call("stats", {"mean": "agent", "std": "none"})),
    )
    graph = lowered("flow { A  B  return A.answer }")[0].graph
    graph.graph["system"] = run_system
    (tmp_path / "graph.json").write_text(to_json(graph, str(tmp_path)))
    trajectories = [
        trajectory("q0", 0, 1.0),
        trajectory("q0", 1, 0.0),
        trajectory("q1", 0, 1.0),
        dataclasses.replace(trajectory("q1", 1, 0.0), failed="the tool was down"),
    ]
    (tmp_path / "rollouts").mkdir()
    write_trajectories(tmp_path / "rollouts" / "step-000001.jsonl", trajectories)
    assert main(["advantages", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["question"], row["agent"], row["advantage"]) for row in rows] == [
        ("q0", "A", 0.5),
        ("q0", "B", 0.0),
        ("q0", "A", -0.5),
        ("q0", "B", 0.0),
        ("q1", "A", 0.0),  # its group was shrunk to one
        ("q1", "B", 0.0),
    ]
    main(["advantages", str(tmp_path), "--normalize", "agent", "--format", "text"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["agent", "A"]


def trajectory(question: str, index: int, reward: float) -> Trajectory:
    """One turn of A and one of B."""
    name = f"{question}.t{index}"
    turns = [
        make_turn(prompt=2, response=2, seed=0, question=question, trajectory=name, agent=agent, score=reward)
        for agent in ("A", "B")
    ]
    return Trajectory(step=1, question=question, id=name, index=index, row={}, events=tuple(turns), reward=reward)


GOOD = '{"question": "q", "trajectory": "t", "agent": "A", "score": 1.0}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "turns.jsonl:2: this line is not JSON"),
        ("[]", "turns.jsonl:2: this line is not a JSON object"),
        ('{"question": "q", "trajectory": "t", "agent": "A"}', "turns.jsonl:2: `score` is missing"),
        (GOOD.replace("1.0", '"1"'), "turns.jsonl:2: `score` is '1', not a finite number"),
        (GOOD.replace("1.0", "NaN"), "turns.jsonl:2: `score` is nan, not a finite number"),
        (GOOD.replace('"q"', "7"), "turns.jsonl:2: `question` is not a text"),
        (GOOD[:-1] + ', "step": "x"}', "turns.jsonl:2: `step` is 'x', not a whole number"),
    ],
)
def test_bad_rows_are_named_by_line(line, message, tmp_path, capsys):
    (tmp_path / "turns.jsonl").write_text(f"{GOOD}\n{line}\n")
    assert main(["advantages", str(tmp_path / "turns.jsonl")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--normalize", "agnet"], "there is no normalisation `agnet`"),
        (["--normalize", "stats(agent)"], "is no normalisation"),
        (["--normalize", "stats(mean = agent, std = half)"], "is no normalisation"),
        (["--normalize", "agent(std = none)"], "takes no arguments"),
        (["--algorithm", "ppo2"], "there is no algorithm `ppo2`"),
    ],
)
def test_bad_names_are_errors(arguments, message, tmp_path, capsys):
    (tmp_path / "turns.jsonl").write_text(GOOD)
    assert main(["advantages", str(tmp_path / "turns.jsonl"), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_missing_and_empty_files_are_errors(tmp_path, capsys):
    (tmp_path / "empty.jsonl").write_text("\n")
    for path in (tmp_path / "none.jsonl", tmp_path / "empty.jsonl", tmp_path):
        assert main(["advantages", str(path)]) == 1
        assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"failed": "down"}', "every trajectory of it failed"),
        ('{"step": 1}', "step-000001.jsonl:1: this line is no trajectory"),
        ('{"step": 1, "events": [3]}', "step-000001.jsonl:1: this line is no trajectory"),
    ],
)
def test_rollouts_that_hold_no_turns_are_told_of(line, says, tmp_path, capsys):
    (tmp_path / "graph.json").write_text(
        to_json(lowered("flow { A  B  return A.answer }")[0].graph, str(tmp_path)), encoding="utf-8"
    )
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "step-000001.jsonl").write_text(line, encoding="utf-8")
    assert main(["advantages", str(tmp_path)]) == 1
    assert says in capsys.readouterr().err
    (tmp_path / "graph.json").write_bytes(b"\xff")
    assert main(["advantages", str(tmp_path)]) == 1
    assert "graph.json" in capsys.readouterr().err


def test_torch_is_not_imported(tmp_path):
    (tmp_path / "turns.jsonl").write_text(GOOD)
    code = (
        "import sys; from drmas_dsl.cli.main import main; main(['advantages', sys.argv[1]]); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'ray', 'transformers')))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "turns.jsonl")], check=True, capture_output=True)
