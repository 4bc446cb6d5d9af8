"""`drmasc explain`, and the reference pages that the same tables make."""

from __future__ import annotations

import pytest

from drmas_dsl.cli import reference
from drmas_dsl.cli.main import main
from drmas_dsl.diagnostics.codes import CODES
from drmas_dsl.semantics.functions import FUNCTIONS


def test_explains_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "e0605"]) == 0
    assert capsys.readouterr().out.startswith("# E0605: groups of one\n")


def test_explains_a_setting_with_type_range_unit_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sampling.max_tokens"]) == 0
    out = capsys.readouterr().out
    for part in ("Longest response", "int", ">= 1", "tokens", "512", "`sampling` of `agent`"):
        assert part in out


def test_a_bare_name_explains_every_setting_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "temperature"]) == 0
    out = capsys.readouterr().out
    assert "sampling.temperature" in out
    assert "eval.temperature" in out


def test_every_setting_can_be_explained() -> None:
    for path, entry in reference.settings_by_path().items():
        text = reference.setting_text(path, entry)
        assert "default:" in text, path
        assert "Factory" not in text and "<" not in text.replace("<= ", ""), path


@pytest.mark.parametrize(("subject", "hint"), [("temperatur", "`temperature`"), ("E9999", "docs/codes.md")])
def test_an_unknown_subject_is_an_error_with_a_way_on(
    subject: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", subject]) == 1
    err = capsys.readouterr().err
    assert "there is no finding, setting or function" in err
    assert hint in err or "did you mean" in err


def test_the_reference_pages_are_fresh() -> None:
    for name, page in (("settings", reference.settings_page()), ("codes", reference.codes_page())):
        text = (reference.DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert text == page, "run python -m drmas_dsl.cli.reference"


def test_the_page_of_codes_names_every_code_once_in_its_table() -> None:
    page = reference.codes_page()
    for code in CODES:
        assert page.count(f"| [{code}](#") == 1
        assert page.count(f"## {code}: ") == 1


def test_every_function_is_explained_with_its_arguments(capsys):
    for kind, name in FUNCTIONS:
        assert main(["explain", name]) == 0
        out = capsys.readouterr().out
        assert f"a function of the kind {kind}" in out
        for parameter in FUNCTIONS[kind, name].parameters:
            assert f"  {parameter.name}: " in out
    assert main(["explain", "vllm"]) == 0
    assert "gpu_memory: float = 0.9 in 0..1" in capsys.readouterr().out


def test_where_a_setting_of_a_policy_may_stand(capsys):
    for path, where in (("learner.ranks", "on the model only"), ("optimizer.lr", "on an agent only where it owns one")):
        assert main(["explain", path]) == 0
        assert where in capsys.readouterr().out
