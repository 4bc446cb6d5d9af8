"""Whole runs in which a process is killed in the middle of a step: what the user gets in the end."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from runtime import runfolder, trainer
from runtime.cluster import engines
from runtime.cluster.cluster import cluster
from runtime.cluster.failures import EngineLost, WorkerLost
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


def run(graph, folder, victim=None):
    """A run in this process. In its second step the worker of a member that `victim` picks of the crew is killed while it
    has been given something to do."""
    folder.mkdir()
    made = runfolder.create(folder, graph, SOURCE, [])

    class Killing(trainer.Rollouts):
        def __init__(self, graph, team, *rest):
            super().__init__(graph, team, *rest)
            self._team = team

        async def next(self, number):
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
