"""`drmasc fmt`: in place, as a check, as a diff, from standard input; never over a file with errors."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from drmas_dsl.cli.main import main

UGLY = "train{steps=3 ,lr=1}\n\n\n\n# end"
TIDY = "train {\n  steps = 3\n}\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_writes_in_place_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.mas", UGLY)
    tidy = write(tmp_path / "y.mas", TIDY)
    before = tidy.stat().st_mtime_ns
    assert main(["fmt", str(path), str(tidy)]) == 0
    assert path.read_text() == "train { steps = 3, lr = 1 }\n\n# end\n"
    assert tidy.stat().st_mtime_ns == before, "a tidy file is not touched"
    assert capsys.readouterr().err == f"reformatted {path}\n"


def test_check_and_diff_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "x.mas", UGLY)
    assert main(["fmt", "--check", str(path)]) == 1
    assert capsys.readouterr().err == f"would reformat {path}\n"
    assert main(["fmt", "--diff", str(path)]) == 1
    diff = capsys.readouterr().out
    assert "-train{steps=3 ,lr=1}\n" in diff
    assert "+train { steps = 3, lr = 1 }\n" in diff
    assert "\\ No newline at end of file" in diff
    assert path.read_text() == UGLY
    assert main(["fmt", "--check", "--diff", str(write(path, TIDY))]) == 0


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UGLY.encode())))
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == "train { steps = 3, lr = 1 }\n\n# end\n"


@pytest.mark.parametrize("data", [b"train {", b"train { steps = }", b"# \xff\ntrain{}"])
def test_a_file_with_errors_is_left_alone(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.mas"
    path.write_bytes(data)
    assert main(["fmt", str(path)]) == 1
    assert path.read_bytes() == data
    assert "error[E01" in capsys.readouterr().err


def test_line_ends_of_windows_become_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / "x.mas"
    path.write_bytes(b"\xef\xbb\xbftrain {\r\n  steps = 3\r\n}\r\n")
    assert main(["fmt", str(path)]) == 0
    assert path.read_bytes() == TIDY.encode()


def test_the_shipped_systems_are_formatted() -> None:
    root = Path(__file__).parents[2]
    assert main(["fmt", "--check", *map(str, sorted((root / "graphs").rglob("*.mas")))]) == 0
