"""Run folders in the hands of somebody in a hurry: in use, in the way, half written, not to be written to."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drmas_dsl.compiler import compile_file
from drmas_dsl.errors import UserError
from runtime import runfolder
from runtime.runfolder import RunFolder

SYSTEM = Path(__file__).parent / "team.mas"
GRAPH = compile_file(SYSTEM)


def made(path):
    path.mkdir(exist_ok=True)
    return runfolder.create(path, GRAPH, SYSTEM, [])


def test_a_run_that_ended_before_its_first_step_does_not_stand_in_the_way(tmp_path):
    folder = made(tmp_path / "run")
    folder.metrics.touch()
    made(folder.path)
    folder.metrics.write_text('{"step": 1}\n', encoding="utf-8")
    with pytest.raises(UserError, match="not empty"):
        made(folder.path)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="not empty"):
        made(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_processes_do_not_train_into_one_folder(tmp_path):
    path = tmp_path / "run ä"
    code = f"from pathlib import Path; from runtime import runfolder\nwith runfolder.alone(Path({str(path)!r})): print('in')"

    def other():
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    with runfolder.alone(path):
        assert "another `drmasc train` is at work" in other().stderr
    assert other().stdout == "in\n"
    assert not list(path.iterdir())


@pytest.mark.parametrize("name", ["file", "file/run", "x" * 300])
def test_a_folder_that_cannot_be_made_is_told_of(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot make the run folder") as caught, runfolder.alone(tmp_path / name):
        pass
    assert "--run" in caught.value.help
    with pytest.raises(UserError, match="holds no run"):
        runfolder.existing(tmp_path / name)


def test_what_cannot_be_written_is_told_of(tmp_path):
    with pytest.raises(UserError, match="No space left") as caught, runfolder.writing(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "space" in caught.value.help


def test_a_run_that_goes_on_forgets_what_it_did_beyond_its_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    lines = [json.dumps({"step": step}) for step in (1, 2, 3)]
    folder.metrics.write_text("\n".join([*lines, '{"step": 4, "rew']), encoding="utf-8")
    (tmp_path / "rollouts").mkdir()
    for step in (1, 2, 3):
        folder.rollouts(step).touch()
    folder.forget_after(2)
    assert folder.metrics.read_text("utf-8").splitlines() == lines[:2]
    assert sorted((tmp_path / "rollouts").iterdir()) == [folder.rollouts(1), folder.rollouts(2)]


def test_a_checkpoint_whose_exchange_was_cut_short_is_the_one_before(tmp_path):
    folder = RunFolder(tmp_path)
    for name in ("step-000002", "best"):
        folder.best.with_name(f"{name}.old").mkdir(parents=True)
    folder.checkpoint(4).mkdir()
    folder.checkpoint(4).with_name("step-000004.old").mkdir()  # the new one was complete already
    with runfolder.alone(tmp_path):
        pass
    assert sorted(path.name for path in folder.best.parent.iterdir() if path.suffix != ".old") == [
        "best",
        "step-000002",
        "step-000004",
    ]
