"""What the commands refuse before anything heavy starts, and how they end where a run cannot go well."""

import io
import json
from pathlib import Path

import pytest

from drmas_dsl.cli.main import main
from runtime import commands, runfolder
from runtime.runfolder import RunFolder

SYSTEM = str(Path(__file__).parent / "team.mas")
REMOTE = """system far "A model and a server that nobody serves."
tool find = http_retriever("http://127.0.0.1:9/retrieve", retries = 0)
model policy { engine = openai("http://127.0.0.1:9/v1", model = "x") frozen = true }
agent A {
  model = policy
  prompt = "Sum: {{ task.question }} {{ found }}"
  output answer = regex("[a-z]")
}
flow {
  found = find(task.question)
  A
  return A.answer
}
task { test = dataset("questions.jsonl") reward = equal(result, task.answer) }
"""


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    def start(*_, **__):
        raise AssertionError("Ray was started")

    monkeypatch.setattr("ray.init", start)


@pytest.fixture
def remote(tmp_path):
    """A system without Ray, and a way to change it."""

    def write(*changes):
        text = REMOTE
        for old, new in changes:
            text = text.replace(old, new)
        (tmp_path / "far.mas").write_text(text, encoding="utf-8")
        (tmp_path / "questions.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n', encoding="utf-8")
        return str(tmp_path / "far.mas")

    return write


def trained(path, *policies, steps=3):
    """The folder of a run of the system with checkpoints of these policies (empty ones)."""
    from drmas_dsl.compiler import compile_file

    path.mkdir()
    runfolder.create(path, compile_file(SYSTEM), Path(SYSTEM), [])
    for policy in policies:
        (RunFolder(path).checkpoint(steps) / policy).mkdir(parents=True)
    return str(path)


def refused(capsys, *words):
    assert main(list(map(str, words))) == 1
    return capsys.readouterr().err


def test_resume_needs_a_run(capsys):
    assert "--run" in refused(capsys, "train", SYSTEM, "--resume")


def test_resume_needs_a_checkpoint_and_says_that_the_folder_is_free(capsys, tmp_path):
    told = refused(capsys, "train", SYSTEM, "--resume", "--run", trained(tmp_path / "run"))
    assert "no checkpoint" in told
    assert "leave out --resume" in told


def test_a_finished_run_is_not_started_again(capsys, tmp_path):
    assert main(["train", SYSTEM, "--resume", "--run", trained(tmp_path / "run", "Solver", "Verifier")]) == 0
    assert "--set train.steps=6" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "eval", "run"])
def test_checkpoints_of_another_sharing_are_refused(capsys, tmp_path, command):
    run = trained(tmp_path / "run", "Solver", "Verifier", steps=1)
    extra = {"train": ["--resume"], "run": ["--input", '{"question": "1"}'], "eval": []}[command]
    told = refused(capsys, command, SYSTEM, "--run", run, *extra, "--set", "policy.sharing=full")
    assert "has no policy policy" in told
    assert "sharing" in told


def test_a_system_that_is_frozen_throughout_is_not_trained(capsys, tmp_path, remote):
    system = remote(("task {", 'task { train = dataset("questions.jsonl")'))
    told = refused(capsys, "train", system, "--run", tmp_path / "run")
    assert "every agent is frozen" in told
    assert "drmasc eval" in told


def test_an_evaluation_that_only_fails_says_why_and_is_no_success(capsys, remote):
    assert main(["eval", remote()]) == 1
    told = capsys.readouterr()
    assert "1 of 1 trajectories failed" in told.err
    assert "http://127.0.0.1:9/retrieve" in told.err
    assert "Traceback" not in told.err


def test_a_server_that_is_down_is_named(capsys, remote):
    system = remote(("found = find(task.question)", ""), (" {{ found }}", ""), ("tool find", "# tool find"))
    assert "cannot be reached at http://127.0.0.1:9/v1" in refused(capsys, "eval", system)


def test_a_question_that_lacks_what_a_prompt_reads_is_told_what_there_is(capsys, remote):
    system = remote(("found = find(task.question)", ""), (" {{ found }}", ""), ("tool find", "# tool find"))
    assert main(["run", system, "--input", '{"answer": "2"}']) == 1
    assert "no 'question', only 'answer'" in " ".join(capsys.readouterr().out.split())


def test_an_input_file_that_is_no_text_is_refused(capsys, tmp_path):
    (tmp_path / "row").write_bytes(b"\xff\xfe{")
    assert "not UTF-8" in refused(capsys, "run", SYSTEM, "--input", f"@{tmp_path / 'row'}")


def test_results_are_shown_even_where_they_cannot_be_written(capsys, tmp_path, remote):
    run = Path(trained(tmp_path / "run", "policy"))
    (run / "eval.json").mkdir()
    assert main(["eval", remote(), "--run", str(run), "--format", "json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["test"]["failed"] == 1
    assert "cannot write to the run folder" in told.err


class Closed(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, _):
        raise BrokenPipeError


def test_a_console_leaves_it_to_the_run_what_to_do_behind_head():
    with pytest.raises(BrokenPipeError):
        commands._Console(file=Closed()).print("step 1")
