"""Every code has an explanation whose wrong example gives that code alone and whose right one gives nothing.

An example shows what matters. What a system needs besides (`FRAME`) is added here, and files that the explanation shows are
laid beside it; `drmasc check main.mas --set …` lines are overrides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drmas_dsl.cli.reference import EXPLANATIONS
from drmas_dsl.compiler import check
from drmas_dsl.diagnostics.codes import CODES

FRAME = {
    r"system ": "system demo",
    r"model ": "model m { weights = tiny() }",
    r"agent Solver |use \"(agents|roles)": 'agent Solver { model = m, prompt = "{{ task.question }}", output answer = boxed() }',
    r"flow \{": "flow { Solver  return Solver.answer }",
    r"task \{": "task { reward = math_equal(result, task.answer) }",
}
FENCE = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def framed(example: str, code: str) -> str:
    if code == "E0210":  # about what is missing
        return example
    missing = [text for pattern, text in FRAME.items() if not re.search(f"^(?:{pattern})", example, re.MULTILINE)]
    if re.search(r"^model m ", example, re.MULTILINE) is None and FRAME["model "] not in missing:
        missing.append(FRAME["model "])
    return example + "\n".join(missing) + "\n"


def found_in(code: str, which: str, folder: Path) -> set[str]:
    text = (EXPLANATIONS / f"{code}.md").read_text(encoding="utf-8")
    overrides: list[str] = []
    for language, info, body in FENCE.findall(text):
        words = info.split()
        if language == "sh":
            overrides = re.findall(rf"--set (\S+)\s+# {which}", body)
        elif words[:1] == [which]:
            encoding = words[1] if len(words) > 1 else "utf-8"
            (folder / "main.mas").write_bytes(framed(body, code).encode(encoding))
        elif words[0] not in ("wrong", "right"):
            (folder / info).write_text(body, encoding="utf-8")
    return {one.code for one in check(folder / "main.mas", overrides).diagnostics}


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_example_gives_the_code_and_the_right_one_nothing(code: str, tmp_path: Path) -> None:
    assert found_in(code, "wrong", tmp_path) == {code}
    assert found_in(code, "right", tmp_path) == set()


@pytest.mark.parametrize("code", CODES)
def test_the_heading_is_that_of_the_table(code: str) -> None:
    heading = (EXPLANATIONS / f"{code}.md").read_text(encoding="utf-8").partition("\n")[0]
    assert heading == f"# {code}: {CODES[code].title}"


def test_no_explanation_without_a_code() -> None:
    assert {path.stem for path in EXPLANATIONS.glob("*.md")} == set(CODES)
