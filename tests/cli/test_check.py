"""`drmasc check`: exit codes, formats, overrides, several files, and files that are no systems."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drmas_dsl.cli.main import main

ROOT = Path(__file__).parents[2]
GOOD = """system demo
model m { weights = tiny() }
agent A { model = m, prompt = "{{ task.question }}", output answer = boxed() }
flow { A  return A.answer }
task { reward = math_equal(result, task.answer) }
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.mas"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.mas"
    path.write_text(GOOD.replace("return A.answer", "return A.anwser").replace("tiny()", "tiny(layers = 0)"))
    return path


def test_a_good_file(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good)]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no findings\n")


def test_errors_in_text_with_their_count(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(bad)]) == 1
    captured = capsys.readouterr()
    assert f"--> {bad}:4:20" in captured.out
    assert "did you mean `answer`" in captured.out
    assert captured.err == "2 errors\n"


def test_warnings_alone_do_not_fail(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good.write_text(GOOD + "param spare: int = 1\n")
    assert main(["check", str(good)]) == 0
    assert capsys.readouterr().err == "1 warning\n"


def test_json_for_good_and_bad_files_together(good: Path, bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good), str(bad), str(bad), "--format", "json"]) == 1
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["version"] == 1
    assert sorted((one["code"], one["line"]) for one in data["diagnostics"]) == [("E0208", 4), ("E0302", 2)]
    assert captured.err == ""


def test_sarif_without_findings_is_a_whole_log(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good), "--format", "sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("override", "code"),
    [("A.sampling.temperature=0.5", None), ("A.sampling.temperature=-1", "E0302"), ("A.sampling.temp=1", "E0209"),
     ("nonsense", "E0209"), ("A.sampling.temperature=(", None)],
)  # fmt: skip
def test_overrides_are_checked_in_their_own_file(
    override: str, code: str | None, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["check", str(good), "--set", override, "--format", "json"])
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    if code is None and "(" not in override:
        assert (status, found) == (0, [])
        return
    assert status == 1
    assert {one["file"] for one in found} == {"--set"}
    assert code is None or [one["code"] for one in found] == [code]


def test_files_that_cannot_be_read_do_not_hide_the_others(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path / "missing.mas"), str(tmp_path), str(bad)]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("cannot read") == 2
    assert "E0208" in captured.out


def test_bad_usage(good: Path) -> None:
    for arguments in (
        ["check"],
        ["check", str(good), "--format", "xml"],
        ["check", str(good), "--nonsense"],
        ["chekc"],
    ):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 5000, b"\xff\xfe\x00", bytes(range(256)) * 20, b"{" * 3000, b"\r\r\n", "ü\u2028".encode()]
)
def test_whatever_a_file_holds_there_is_no_traceback(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.mas"
    path.write_bytes(data)
    for format in ("text", "json", "sarif"):
        assert main(["check", str(path), "--format", format]) == 1
        assert capsys.readouterr().out


def test_the_shipped_systems_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((ROOT / "graphs").glob("*.mas")):
        assert main(["check", str(path)]) == 0, capsys.readouterr().out
        assert capsys.readouterr().err == "no findings\n", path


def test_check_imports_nothing_heavy(good: Path) -> None:
    code = f"""
import sys
from drmas_dsl.cli.main import main
main(["check", {str(good)!r}])
heavy = sorted({{"lark", "torch", "ray", "transformers", "vllm", "numpy", "rich", "runtime"}} & set(sys.modules))
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plain_pipe_gets_no_colour_and_a_closed_one_no_traceback(bad: Path) -> None:
    command = [sys.executable, "-m", "drmas_dsl.cli.main", "check", str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "\x1b" not in done.stdout
    if shutil.which("bash"):
        line = " ".join(command) + " | true"
        piped = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert "Traceback" not in piped.stderr
