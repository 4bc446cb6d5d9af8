"""The JSON of a graph: paths that move with it, and texts that are no graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drmas_dsl.compiler import compile_file, load_graph
from drmas_dsl.errors import CompileError, UserError
from drmas_dsl.graph.serialize import from_json, to_json
from tests.graph.systems import graphs_equal

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "graphs").glob("*.mas"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_systems_come_back_equal(path: Path) -> None:
    graph = compile_file(path)
    assert graphs_equal(from_json(to_json(graph, str(path.parent)), str(path.parent)), graph)


def test_paths_move_with_the_file(tmp_path: Path) -> None:
    graph = compile_file(ROOT / "graphs" / "lookup.mas")
    elsewhere = tmp_path / "deep" / "folder"
    elsewhere.mkdir(parents=True)
    text = to_json(graph, str(elsewhere))
    assert f'"{ROOT}' not in text
    moved = from_json(text, str(elsewhere)).graph["system"]
    stored = moved.task.train.args["path"]["path"]
    assert (elsewhere / stored).resolve() == (ROOT / "graphs" / "data" / "lookup_train.jsonl").resolve()
    assert to_json(from_json(text, str(elsewhere)), str(ROOT / "graphs")) == to_json(graph, str(ROOT / "graphs"))


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "null", "3", '{"graph": 3}', '{"graph": {"format": "other"}}', '{"nodes": []}'],
)
def test_what_is_no_graph_is_said_so(text: str) -> None:
    with pytest.raises(UserError, match="not a compiled graph"):
        from_json(text, ".")


def document() -> Any:
    return json.loads(to_json(compile_file(ROOT / "graphs" / "search.mas"), "."))


def test_another_version_is_refused() -> None:
    data = document()
    data["graph"]["version"] = 2
    with pytest.raises(UserError, match="version 2"):
        from_json(json.dumps(data), ".")


def _spoil(data: Any, path: list[Any], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    if value is None:
        del data[path[-1]]
    else:
        data[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["nodes", 0, "kind"], "branch", "one start"),
        (["nodes", 2, "kind"], "other", "unknown kind"),
        (["nodes", 2, "agent"], "Nobody", "Nobody"),
        (["nodes", 2, "agent"], None, "has no agent"),
        (["nodes", 2, "loops"], ["n77"], "not there"),
        (["edges", 0, "order"], None, "order"),
        (["edges", 0, "condition"], None, "condition"),
        (["edges"], [], "leads nowhere"),
        (["edges"], None, "damaged"),
        (["nodes"], 3, "damaged"),
        (["graph", "system"], {}, "damaged"),
        (["graph", "system", "agents", "Search", "colour"], "red", "colour"),
        (["graph", "system", "train"], 3, "damaged"),
        (["graph", "system", "train", "steps"], "3", "train.steps is '3'"),
        (["graph", "system", "train", "steps"], 0, "train.steps is 0, which is out of its range"),
        (["graph", "system", "train", "lone"], "keep", "none of raw, drop"),
        (["graph", "system", "train", "algorithm"], "grpo", "train.algorithm is 'grpo'"),
        (["graph", "system", "eval", "k"], [1, None], "eval.k[1] is None"),
        (["graph", "system", "agents", "Search", "model"], "nothing", "agents.Search.model names 'nothing'"),
        (["graph", "system", "agents", "Search", "name"], "Other", "'Search' is called 'Other'"),
        (["graph", "system", "agents", "Search", "sampling", "temperature"], True, "sampling.temperature is True"),
        (["graph", "system", "task", "reward"], {"kind": "value"}, "is no expression"),
        (["graph", "system", "task", "reward"], None, "task.reward"),
        (["graph", "system", "params"], [], "params is ()"),
        (["multigraph"], False, "multigraph"),
    ],
)
def test_a_damaged_graph_is_refused(path: list[Any], value: Any, words: str) -> None:
    data = document()
    _spoil(data, path, value)
    with pytest.raises(UserError) as caught:
        from_json(json.dumps(data), ".")
    assert "damaged" in caught.value.message and words in caught.value.message


def test_load_graph_takes_both_kinds_of_file(tmp_path: Path) -> None:
    source = ROOT / "graphs" / "math.mas"
    target = tmp_path / "math.json"
    target.write_text(to_json(compile_file(source, ["rounds=3"]), str(tmp_path)), encoding="utf-8")
    assert load_graph(target).graph["system"].params == {"rounds": 3}
    with pytest.raises(UserError, match=r"--set needs the \.mas file"):
        load_graph(target, ["rounds=3"])
    with pytest.raises(UserError, match="cannot read"):
        load_graph(tmp_path / "missing.json")
    with pytest.raises(UserError, match="cannot read"):
        load_graph(tmp_path / "missing.mas")


def test_a_system_with_errors_carries_its_findings(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mas"
    bad.write_text("system bad\nflow { }\n", encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        load_graph(bad)
    assert "E0502" in {finding.code for finding in caught.value.diagnostics}
    assert str(bad) in caught.value.sources
