"""The whole way as a user goes it: the command line, real Ray, real (tiny) models, a run folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.metrics import read_metrics

HERE = Path(__file__).parent
SYSTEM = str(HERE / "team.mas")
DRMASC = [sys.executable, "-m", "drmas_dsl.cli.main"]
pytestmark = [pytest.mark.ray, pytest.mark.slow]


def drmasc(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*DRMASC, *map(str, words)], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def learned(folder: Path) -> list[dict[str, Any]]:
    """The steps of a run without what a clock measured."""
    return [{k: v for k, v in line.items() if "second" not in k} for line in read_metrics(folder / "metrics.jsonl")]


def weights(folder: Path, step: int) -> dict[str, bytes]:
    files = (folder / "checkpoints" / f"step-{step:06d}").glob("*/model.safetensors")
    return {file.parent.name: file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    done = drmasc("train", SYSTEM, "--run", folder)
    return folder, done.stdout


def test_a_run_leaves_all_that_it_promises(run):
    folder, printed = run
    assert "Mean reward" in printed
    for name in ("system.mas", "graph.json", "run.json", "metrics.jsonl", "curve.png"):
        assert (folder / name).stat().st_size > 0, name
    assert len(learned(folder)) == 3
    assert list((folder / "tensorboard").glob("events*"))
    assert set(weights(folder, 3)) == {"Solver", "Verifier"}
    about = json.loads((folder / "run.json").read_text())
    assert about["seed"] == 0
    assert "torch" in about["versions"]


def test_rollouts_record_what_was_consumed_and_produced(run):
    folder, _ = run
    lines = (folder / "rollouts" / "step-000002.jsonl").read_text().splitlines()
    assert len(lines) == 8
    for line in map(json.loads, lines):
        for turn in (event for event in line["events"] if event["kind"] == "turn"):
            assert len(turn["response_ids"]) == len(turn["logprobs"]) > 0
            assert turn["weights_version"] == 1
            penalty = 0.25 if turn["agent"] == "Verifier" and not turn["valid"] else 0
            assert turn["score"] == pytest.approx(line["reward"] - penalty)
            assert turn["advantage"] is not None


def test_both_policies_learn_and_engines_follow(run):
    folder, _ = run
    for step, line in enumerate(learned(folder), 1):
        for figures in line["policies"].values():
            assert figures["weights_version"] == step
            assert figures["engine_logp_gap_max"] < 1e-4
    start = weights(folder, 3)
    assert start["Solver"] != start["Verifier"]


def test_the_same_seed_gives_the_same_run_bit_for_bit(run, tmp_path):
    folder, _ = run
    drmasc("train", SYSTEM, "--run", tmp_path / "again")
    assert learned(tmp_path / "again") == learned(folder)
    assert weights(tmp_path / "again", 3) == weights(folder, 3)


def test_a_run_that_goes_on_from_a_checkpoint_ends_as_if_it_had_not_stopped(run, tmp_path):
    folder, _ = run
    drmasc("train", SYSTEM, "--run", tmp_path / "half", "--set", "train.steps=2")
    assert not (tmp_path / "half" / "checkpoints" / "step-000003").exists()
    done = drmasc("train", SYSTEM, "--run", tmp_path / "half", "--resume")
    assert "Going on with train.steps = 3 (was 2)" in done.stdout
    assert weights(tmp_path / "half", 3) == weights(folder, 3)
    about, before = (json.loads((path / "run.json").read_text()) for path in (tmp_path / "half", folder))
    assert (about["overrides"], before["overrides"]) == ([], [])
    (earlier,) = about["earlier"]
    assert (earlier["overrides"], earlier["until_step"]) == (["train.steps=2"], 2)
    assert (tmp_path / "half" / "graph.json").read_text() == (folder / "graph.json").read_text()
    lines = map(json.loads, (tmp_path / "half" / "rollouts" / "step-000003.jsonl").open(encoding="utf-8"))
    assert {turn["weights_version"] for line in lines for turn in line["events"]} == {2}
    assert learned(tmp_path / "half") == learned(folder)


def test_eval_and_run_use_the_checkpoint(run):
    folder, _ = run
    trained = json.loads(drmasc("eval", SYSTEM, "--run", folder, "--format", "json").stdout)
    assert trained["test"]["questions"] == 5
    assert set(trained["test"]["passed"]) == {"1", "2"}
    assert (folder / "eval.json").exists()
    table = drmasc("eval", SYSTEM).stdout
    assert "pass@2" in table
    asked = ["run", SYSTEM, "--input", '{"question": "1 + 1", "answer": "2"}', "--format", "json"]
    before, after = (json.loads(drmasc(*asked, *extra).stdout) for extra in ([], ["--run", folder]))
    assert before["events"][0]["weights_version"] == 0
    assert after["events"][0]["prompt_ids"] == before["events"][0]["prompt_ids"]
    assert after["events"][0]["logprobs"] != before["events"][0]["logprobs"]


def test_a_compiled_graph_trains_as_its_source_does(run, tmp_path):
    folder, _ = run
    drmasc("train", folder / "graph.json", "--run", tmp_path / "compiled")
    assert learned(tmp_path / "compiled") == learned(folder)


def test_an_override_takes_effect(tmp_path):
    drmasc(
        "train",
        SYSTEM,
        "--run",
        tmp_path / "run",
        "--set",
        "rounds=1",
        "--set",
        "policy.sharing=full",
        "--set",
        "train.steps=1",
    )
    (line,) = learned(tmp_path / "run")
    assert line["agents"]["Verifier"]["calls_per_trajectory"] == 0
    assert set(line["policies"]) == {"policy"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["overrides"][0] == "rounds=1"


def test_a_folder_that_holds_something_is_left_alone(run):
    folder, _ = run
    done = drmasc("train", SYSTEM, "--run", folder, code=1)
    assert "not empty" in done.stderr
    assert "--resume" in done.stderr


def test_ctrl_c_saves_what_was_trained_and_leaves_no_process(tmp_path):
    folder = tmp_path / "run"
    words = [*DRMASC, "train", SYSTEM, "--run", str(folder), "--set", "train.steps=100000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(_lines(folder / "metrics.jsonl")) < 3:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, printed + errors
    assert "Traceback" not in errors
    done = len(_lines(folder / "metrics.jsonl"))
    assert done >= 3
    assert set(weights(folder, done)) == {"Solver", "Verifier"}
    assert f"Stopped after step {done}" in printed
    assert not _left_in_session(process.pid)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _left_in_session(session: int) -> list[str]:
    """Processes that still run in a session, after a moment to end."""
    for _ in range(50):
        left = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    left.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        if not left:
            return []
        time.sleep(0.1)
    return left


def test_staleness_rolls_out_one_version_behind(tmp_path):
    drmasc("train", SYSTEM, "--run", tmp_path / "run", "--set", "train.staleness=1", "--set", "train.steps=4")
    for step in range(1, 5):
        lines = (tmp_path / "run" / "rollouts" / f"step-{step:06d}.jsonl").read_text().splitlines()
        versions = {turn["weights_version"] for line in lines for turn in json.loads(line)["events"]}
        assert versions == {max(0, step - 2)}


def test_a_reader_that_leaves_ends_the_run_with_what_was_trained_saved(tmp_path):
    folder = tmp_path / "run"
    words = [*DRMASC, "train", SYSTEM, "--run", str(folder), "--set", "train.steps=20"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.stdout.close()  # as `head -2` does
        errors = process.stderr.read()
    assert process.returncode == 1, errors
    assert lines[1].startswith("step 1/20")
    assert not errors
    done = len(_lines(folder / "metrics.jsonl"))
    assert set(weights(folder, done)) == {"Solver", "Verifier"}


def test_a_checkpoint_of_another_size_is_refused(run, tmp_path):
    folder, _ = run
    (tmp_path / "wide.mas").write_text(Path(SYSTEM).read_text().replace("hidden = 32", "hidden = 48"))
    shutil.copy(HERE / "questions.jsonl", tmp_path)
    done = drmasc("eval", tmp_path / "wide.mas", "--run", folder, code=1)
    assert "holds no checkpoint of policy" in done.stderr


def test_adapters_learn_over_a_base_that_stays(tmp_path):
    folder = tmp_path / "run"
    drmasc("train", SYSTEM, "--run", folder, "--set", "policy.sharing=adapter", "--set", "train.steps=2")
    for line in learned(folder):
        assert set(line["policies"]) == {"Solver", "Verifier"}
        assert all(figures["engine_logp_gap_max"] < 1e-4 for figures in line["policies"].values())
    merged = weights(folder, 2)
    assert merged["Solver"] != merged["Verifier"]
    for policy in merged:
        assert (folder / "checkpoints" / "step-000002" / policy / "adapter" / "adapter_model.safetensors").is_file()
    drmasc("eval", SYSTEM, "--run", folder, "--set", "policy.sharing=adapter")
