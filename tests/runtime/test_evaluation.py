"""Evaluations in mid-run and of checkpoints: one way of sampling, the best kept, and what each agent costs."""

import json
from pathlib import Path

import pytest

from drmas_dsl.cli.main import main
from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime import runfolder
from runtime.evaluate import summarise
from runtime.metrics import read_metrics
from runtime.runfolder import SCORE, RunFolder
from tests.runtime.test_commands import SYSTEM, drmasc
from tests.runtime.test_metrics import trajectory, turn

GREEDY = ("--set", "eval.temperature=0", "--set", "eval.samples=1", "--set", "eval.k=[1]")


def scored(folder: RunFolder, step: int, score: float) -> None:
    folder.best.mkdir(parents=True)
    (folder.best / SCORE).write_text(json.dumps({"step": step, "score": score}))


def weights(checkpoint: Path) -> dict[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in checkpoint.glob("*/model.safetensors")}


def without_seconds(results):
    for result in results.values():
        for usage in result["usage"].values():
            del usage["seconds"]
    return results


@pytest.mark.ray
@pytest.mark.slow
def test_the_first_of_the_best_checkpoints_is_kept_also_where_a_run_goes_on(tmp_path):
    words = ["train", SYSTEM, "--run", tmp_path, "--set", "train.eval_every=1", "--set", "train.save_every=1"]
    folder = RunFolder(tmp_path)
    for steps, more in ((3, ()), (5, ("--resume",))):
        drmasc(*words, "--set", f"train.steps={steps}", "--set", "policy.optimizer.lr=0.02", *more)
        scores = [line["eval"]["test"]["avg"]["1"]["value"] for line in read_metrics(folder.metrics)]
        assert len(set(scores)) > 1
        best = scores.index(max(scores)) + 1
        assert folder.best_score() == (best, max(scores))
        assert set(weights(folder.best)) == {"Solver", "Verifier"}
        assert weights(folder.best) == weights(folder.checkpoint(best))
        assert (folder.best / "Solver" / "learner.pt").is_file()
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        "best",
        *(f"step-{step:06d}" for step in range(1, 6)),
    }


@pytest.mark.ray
@pytest.mark.slow
def test_an_evaluation_in_mid_run_is_that_of_its_checkpoint(tmp_path):
    """Greedy in evaluations alone: with the sampling of training the two would differ."""
    drmasc(
        "train",
        SYSTEM,
        "--run",
        tmp_path,
        "--set",
        "train.eval_every=1",
        "--set",
        "train.save_every=1",
        "--set",
        "train.steps=2",
        *GREEDY,
    )
    lines = list(read_metrics(tmp_path / "metrics.jsonl"))
    for line in (lines[0], lines[-1]):
        chosen = ("--run", tmp_path, "--checkpoint", line["step"])
        done = drmasc("eval", SYSTEM, *chosen, "--format", "json", *GREEDY)
        assert without_seconds(json.loads(done.stdout)) == without_seconds(line["eval"])


def refused(capsys, *words):
    assert main(list(map(str, words))) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("command", [["eval"], ["run", "--input", '{"question": "1"}']], ids=["eval", "run"])
def test_a_checkpoint_that_is_not_there_is_told_with_those_that_are(capsys, tmp_path, command):
    words = [command[0], SYSTEM, *command[1:]]
    assert "--run" in refused(capsys, *words, "--checkpoint", "last")
    runfolder.create(tmp_path, compile_file(SYSTEM), Path(SYSTEM), [])
    words += ["--run", str(tmp_path), "--checkpoint"]
    assert "no checkpoint yet" in refused(capsys, *words, "best")
    for step in (5, 10):
        RunFolder(tmp_path).checkpoint(step).mkdir(parents=True)
    assert "train.eval_every" in refused(capsys, *words, "best")
    for name in ("7", "newest", "-1"):
        told = refused(capsys, *words, name)
        assert f"no checkpoint '{name}'" in told
        assert "steps 5, 10" in told


def test_checkpoints_by_name(tmp_path):
    folder = RunFolder(tmp_path)
    folder.checkpoint(5).mkdir(parents=True)
    scored(folder, 7, 0.5)
    assert folder.named_checkpoint("5") == folder.checkpoint(5)
    assert folder.named_checkpoint("7") == folder.named_checkpoint("best") == folder.best
    (tmp_path / "checkpoints" / "step-000009.part").mkdir()
    assert folder.last_checkpoint() == (7, folder.best)  # a run that was killed loses nothing before its best
    folder.checkpoint(10).mkdir()
    assert folder.named_checkpoint("last") == folder.checkpoint(10)


TWO_MODELS = """
system pair
model small { weights = tiny(), price { prompt = 1, response = 2 } }
model large { weights = tiny(hidden = 128), price { prompt = 10, response = 40 } }
agent Worker { model = small, prompt = "{{ task.question }}", output answer = text() }
agent Judge { model = large, prompt = "{{ Worker.answer }}", output verdict = text() }
flow { Worker Judge return Worker.answer }
task { reward = equal(result, task.answer) }
eval { samples = 2, k = [1, 2] }
"""


def test_usage_and_cost_of_each_agent_of_a_heterogeneous_team(tmp_path):
    (tmp_path / "pair.mas").write_text(TWO_MODELS)
    system = system_of(compile_file(tmp_path / "pair.mas"))
    work = turn("Worker", prompt_ids=(1,) * 100, response_ids=(1,) * 10, seconds=0.5)
    judged = turn("Judge", prompt_ids=(1,) * 200, response_ids=(1,) * 20, seconds=2.0)
    result = summarise(system, [trajectory(work, judged, success=True), trajectory(work, work, failed="late")])
    assert result.avg[2].value == 0.5
    assert result.failed == 1
    worker, judge = result.usage["Worker"], result.usage["Judge"]
    assert (worker.calls, worker.prompt_tokens, worker.response_tokens, worker.seconds) == (1.5, 150, 15, 0.75)
    assert worker.cost == pytest.approx((150 * 1 + 15 * 2) / 1e6)
    assert (judge.calls, judge.prompt_tokens, judge.response_tokens, judge.seconds) == (0.5, 100, 10, 1.0)
    assert judge.cost == pytest.approx((100 * 10 + 10 * 40) / 1e6)
