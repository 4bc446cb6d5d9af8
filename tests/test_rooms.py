"""The rooms of the house: who may import whom, held over every file of the packages."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = {"torch", "transformers", "ray", "vllm", "numpy", "safetensors", "rich", "matplotlib", "pyarrow", "runtime"}
FOR_THE_RUNTIME = ("drmas_dsl.graph", "drmas_dsl.errors")


def imports(path: Path) -> set[tuple[str, bool]]:
    """(module, at the top of the file?) of every import in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        top = node in tree.body
        if isinstance(node, ast.Import):
            found |= {(alias.name, top) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add((node.module, top))
    return found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "drmas_dsl").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_language_imports_nothing_heavy(path):
    for module, top in imports(path):
        room = module.split(".")[0]
        late_and_allowed = not top and room == "runtime" and path.parent.name == "cli"
        assert room not in HEAVY or late_and_allowed, f"{path} imports {module}"


@pytest.mark.parametrize("path", sorted((ROOT / "runtime").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_runtime_sees_the_graph_alone(path):
    for module, _ in imports(path):
        if module.split(".")[0] == "drmas_dsl":
            assert module.startswith(FOR_THE_RUNTIME), f"{path} imports {module}"
