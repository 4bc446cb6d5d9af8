"""Drawings of small systems against golden files (`UPDATE_GOLDEN=1 pytest tests/views` writes them anew: look at the diff), and what
any drawing must have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest

from drmas_dsl.compiler import compile_file
from drmas_dsl.diagnostics.report import Report
from drmas_dsl.errors import UserError
from drmas_dsl.graph.lowering import finished, lower
from drmas_dsl.graph.serialize import from_json, to_json
from drmas_dsl.semantics.resolve import resolve
from drmas_dsl.syntax.parser import parse
from drmas_dsl.syntax.source import Source
from drmas_dsl.views import dot, mermaid, svg, text

CASES = Path(__file__).parent / "cases"
GOLDEN = Path(__file__).parent / "golden"
SYSTEMS = ("refine", "branches")
VIEWS = {"txt": text.draw, "mmd": mermaid.draw, "dot": dot.draw}
SHIPPED = sorted((Path(__file__).parents[2] / "graphs").glob("*.mas"))


def compiled(name: str) -> nx.MultiDiGraph:
    return compile_file(CASES / f"{name}.mas")


def compare(path: Path, drawn: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("ending", VIEWS)
@pytest.mark.parametrize("settings", [False, True], ids=["plain", "settings"])
def test_drawing_is_the_golden_one(name: str, ending: str, settings: bool) -> None:
    drawn = VIEWS[ending](compiled(name), settings)
    compare(GOLDEN / f"{name}{'_settings' if settings else ''}.{ending}", drawn)


@pytest.mark.parametrize("name", SYSTEMS)
def test_json_is_the_golden_one(name: str) -> None:
    compare(GOLDEN / f"{name}.json", to_json(compiled(name), str(CASES)))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("ending", VIEWS)
def test_drawing_of_the_json_is_the_same(name: str, ending: str) -> None:
    graph = compiled(name)
    again = from_json(to_json(graph, str(CASES)), str(CASES))
    assert VIEWS[ending](again) == VIEWS[ending](graph)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_boxes_of_shipped_systems_do_not_overlap(path: Path) -> None:
    pygraphviz = pytest.importorskip("pygraphviz")
    drawn = pygraphviz.AGraph(string=dot.draw(compile_file(path), settings=True)).draw(format="json", prog="dot")
    boxes = {}
    for item in json.loads(drawn)["objects"]:
        if "pos" in item:
            x, y = (float(number) for number in item["pos"].split(","))
            width, height = float(item["width"]) * 36, float(item["height"]) * 36
            boxes[item["name"]] = (x - width, x + width, y - height, y + height)
    assert len(boxes) > 3
    for (one, a), (two, b) in combinations(boxes.items(), 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], f"{one} lies over {two}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_svg_says_everything(name: str) -> None:
    pytest.importorskip("pygraphviz")
    graph = compiled(name)
    root = ET.fromstring(svg.draw(graph))
    words = " ".join("".join(part.itertext()) for part in root.iter("{http://www.w3.org/2000/svg}text"))
    for _, data in graph.nodes(data=True):
        assert data.get("agent", "") in words
    assert "again" in words or "else" in words
    assert "reward =" in words


def test_long_chains_of_guards_stay_flat() -> None:
    guards = "\n".join('  Solver\n  if Solver.answer == "1" { return 1 }' for _ in range(300))
    source = (CASES / "refine.mas").read_text(encoding="utf-8")
    flow = source.index("flow {")
    end = source.index("task {")
    found, _ = parse(
        Source("chain.mas", f"{source[:flow]}flow {{\n{guards}\n  Verifier\n  return none\n}}\n{source[end:]}")
    )
    checked, _ = resolve(found, {})
    assert checked is not None
    lowered = lower(checked, Report())
    assert lowered is not None
    assert max(map(len, text.draw(finished(lowered.graph)).splitlines())) < 120


def test_svg_without_graphviz_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(UserError) as caught:
        svg.draw(compiled("refine"))
    assert "pip install 'drmasc[views]'" in caught.value.help


def test_json_is_the_same_whatever_the_hash_seed() -> None:
    code = (
        "import sys; from drmas_dsl.compiler import compile_file; from drmas_dsl.graph.serialize import to_json;"
        "from drmas_dsl.views import dot; g = compile_file(sys.argv[1]);"
        "sys.stdout.buffer.write((to_json(g, '.') + dot.draw(g)).encode())"
    )
    outputs = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(CASES / "branches.mas")]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert len(outputs) == 1


def test_plain_networkx_reads_the_json() -> None:
    data = json.loads(to_json(compiled("branches"), "."))
    graph = nx.node_link_graph(data, edges="edges")
    assert isinstance(graph, nx.MultiDiGraph)
    assert graph.graph["format"] == "drmasc-graph"
    assert nx.is_weakly_connected(graph)
