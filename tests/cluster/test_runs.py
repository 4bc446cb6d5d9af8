"""Whole runs in which a process is killed in the middle of a step: what the user gets in the end."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from drmas_dsl.compiler import compile_file
from drmas_dsl.errors import UserError
from drmas_dsl.graph.execution import system_of
from runtime import runfolder, trainer
from runtime.cluster import engines
from runtime.cluster.cluster import cluster
from runtime.cluster.failures import EngineLost, WorkerLost
from runtime.learning.updates import BadUpdates
from runtime.metrics import read_metrics
from tests.cluster.systems import pid_of

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SOURCE = Path(__file__).parents[1] / "runtime" / "team.mas"
STEPS = 4


def graph_of(*overrides):
    return compile_file(SOURCE, [f"train.steps={STEPS}", "train.batch_size=8", *overrides])


@pytest.fixture(scope="module")
def ray():
    """CPUs enough that every engine and learner has a worker of its own; runs join it."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtime.cluster.cluster._cpus", lambda _: 4)
        with cluster(system_of(graph_of())):
            yield ray


def run(graph, folder, victim=None, refused=None):
    """A run in this process. In its second step the worker of a member that `victim` picks of the crew is killed while it
    has been given something to do; in step `refused` nothing can be rolled out."""
    folder.mkdir()
    made = runfolder.create(folder, graph, SOURCE, [])

    class Killing(trainer.Rollouts):
        def __init__(self, graph, team, *rest):
            super().__init__(graph, team, *rest)
            self._team = team

        async def next(self, number):
            if number == refused:
                raise UserError("the tool is down")
            if number == 2 and victim:
                worker = victim(self._team.crew).station.worker
                pid = await pid_of(worker)
                os.kill(pid, signal.SIGSTOP)
                asyncio.get_running_loop().call_later(0.5, os.kill, pid, signal.SIGKILL)
            return await super().next(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "Rollouts", Killing)
        asyncio.run(trainer.train(graph, made, Console(quiet=True)))
    return made


def engine_of(crew):
    return crew.engines["policy"].replicas["Solver"][0].handle


def learner_of(crew):
    return crew.learners["Solver"].ranks[0]


def learned(folder):
    """All trajectories and the weights in the end, but no seconds."""
    lines = [json.loads(line) for step in range(1, STEPS + 1) for line in folder.rollouts(step).open()]
    for line in lines:
        del line["seconds"]
        for event in line["events"]:
            del event["seconds"]
    return lines, [(p.parent.name, p.read_bytes()) for p in sorted(folder.checkpoint(STEPS).glob("*/*.safetensors"))]


def test_a_run_whose_engine_dies_learns_what_it_would_have(ray, tmp_path):
    whole, hurt = run(graph_of(), tmp_path / "whole"), run(graph_of(), tmp_path / "hurt", engine_of)
    assert learned(whole) == learned(hurt)
    lines = list(read_metrics(hurt.metrics))
    assert [line["restarts"] for line in lines] == [0, 1, 0, 0]
    assert [line["retried"] > 0 for line in lines] == [False, True, False, False]


def test_an_engine_that_does_not_come_back_ends_the_run_with_a_checkpoint(ray, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "RESTARTS", 0)
    with pytest.raises(EngineLost, match="ended unexpectedly"):
        run(graph_of(), tmp_path / "run", engine_of)
    assert list(runfolder.existing(tmp_path / "run").checkpoints()) == [1]


def test_a_learner_that_dies_ends_the_run_and_names_its_checkpoint(ray, tmp_path):
    with pytest.raises(WorkerLost, match="ended unexpectedly") as caught:
        run(graph_of("train.save_every=1"), tmp_path / "run", learner_of)
    assert "step-000001" in caught.value.help


def test_what_was_trained_before_a_step_that_cannot_be_is_saved(ray, tmp_path):
    with pytest.raises(UserError, match="the tool is down"):
        run(graph_of(), tmp_path / "run", refused=3)
    folder = runfolder.existing(tmp_path / "run")
    assert list(folder.checkpoints()) == [2]
    assert folder.rollouts(2).is_file() and not folder.rollouts(3).exists()


def test_updates_that_are_not_finite_leave_the_rollouts_that_they_came_from(ray, tmp_path):
    text = SOURCE.read_text(encoding="utf-8").replace(
        "equal(result != none, true)", "1e38 * equal(result != none, true)"
    )
    (tmp_path / "team.mas").write_text(text, encoding="utf-8")
    (tmp_path / "questions.jsonl").write_bytes((SOURCE.parent / "questions.jsonl").read_bytes())
    unscaled = ["train.normalize=stats(mean = agent, std = none)", "train.max_bad_updates=1"]
    graph = compile_file(tmp_path / "team.mas", unscaled)
    with pytest.raises(BadUpdates, match="not finite"):
        run(graph, tmp_path / "run")
    folder = runfolder.existing(tmp_path / "run")
    (step,) = folder.checkpoints()
    assert folder.rollouts(step).is_file()
