"""`drmasc compile` and `drmasc graph` as users call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drmas_dsl.cli.main import main

ROOT = Path(__file__).parents[2]
MATH = str(ROOT / "graphs" / "math.mas")


def test_compile_writes_the_same_to_a_file_and_to_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", MATH, "-o", "out.json"]) == 0
    assert main(["compile", MATH]) == 0
    assert capsys.readouterr().out == Path("out.json").read_text(encoding="utf-8")
    data = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert data["graph"]["version"] == 1 and data["graph"]["system"]["name"] == "math"


def test_compile_takes_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", MATH, "--set", "rounds=5", "--set", "Solver.sampling.temperature=0.5"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [node["max"] for node in data["nodes"] if node["kind"] == "loop"] == [5]
    assert data["graph"]["system"]["agents"]["Solver"]["sampling"]["temperature"] == 0.5


def test_compile_of_a_system_with_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.mas"
    bad.write_text("system bad\nflow { }\n", encoding="utf-8")
    assert main(["compile", str(bad), "-o", str(tmp_path / "out.json")]) == 1
    assert not (tmp_path / "out.json").exists()
    assert "error[E0502]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "begins"), [("text", "system math"), ("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<?xml")]
)
def test_graph_draws_in_every_format(form: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    if form == "svg":
        pytest.importorskip("pygraphviz")
    assert main(["graph", MATH, "--format", form]) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_the_ending_of_the_file_names_the_format(tmp_path: Path) -> None:
    for ending, begins in ((".mmd", "flowchart"), (".dot", "digraph"), (".txt", "system")):
        target = tmp_path / f"deep/drawing{ending}"
        assert main(["graph", MATH, "-o", str(target)]) == 0
        assert target.read_text(encoding="utf-8").startswith(begins)


def test_graph_draws_compiled_json_and_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = tmp_path / "math.json"
    assert main(["compile", MATH, "-o", str(compiled)]) == 0
    assert main(["graph", str(compiled), "--settings"]) == 0
    assert "lr = " in capsys.readouterr().out
    assert main(["graph", str(compiled), "--set", "rounds=3"]) == 1
    assert "--set needs the .mas file" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").mkdir()
    assert main(["compile", MATH, "-o", str(tmp_path / "taken")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_budget_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", MATH, "--budget"]) == 0
    table = capsys.readouterr().out
    assert "Solver" in table and "4096" in table and "task.question" in table
    assert main(["check", MATH, "--budget", "--format", "json"]) == 1
