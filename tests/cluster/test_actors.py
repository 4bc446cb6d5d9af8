"""Engines and learners on a real Ray: what they compute, and how weights get across."""

from dataclasses import replace

import pytest
import torch

from runtime import models
from runtime.cluster.failures import SyncError, received
from runtime.cluster.handles import Actors
from runtime.cluster.stations import Handle
from runtime.cluster.sync import TOLERANCE, compare, pack
from runtime.engines.hf import HfEngine
from runtime.learning.learner import Learner
from runtime.team import Team
from tests.cluster.systems import asked_of, system, trained_on, turn
from tests.engines.tiny import model, request

pytestmark = pytest.mark.ray
SYSTEM = system(("Solver", "Verifier", "Critic", "Idle"), frozen=("Idle",))


def turns_of(crew, runner, policy):
    """A few turns with advantages of either sign."""
    asked = asked_of(policy)
    drawn = runner.run(crew.engines["small"].generate(asked))
    return asked, drawn, trained_on(asked, drawn)


def test_a_step_of_training_reaches_the_engine(crew, runner):
    """Roll out, update, sync: the engine then serves exactly what a learner in this process arrives at."""
    asked, before, turns = turns_of(crew, runner, "Solver")
    metrics = runner.run(crew.learners["Solver"].update(turns))
    gap = runner.run(crew.sync("Solver"))
    after = runner.run(crew.engines["small"].generate(asked))

    torch.set_num_threads(1)
    local = HfEngine(SYSTEM.models["small"], ["Solver"], "")
    assert before == local.generate(asked)
    assert metrics.updates == 1
    assert gap < 1e-4
    assert {completion.weights_version for completion in after} == {1}
    learner = Learner(SYSTEM.policies["Solver"], SYSTEM.models["small"], SYSTEM.agents, SYSTEM.train, "", 0)
    learner.update(turns)
    local.load_weights("Solver", learner.weights(), 1)
    assert after == local.generate(asked)
    assert after != before
    (idle,) = runner.run(crew.engines["small"].generate([request(b"what is it", policy="Idle")]))
    assert idle.weights_version == 0


def test_the_canary_notices_foreign_weights(crew, runner):
    foreign = {name: p.detach() for name, p in models.load_model(model(seed=9), "").named_parameters()}
    engine, learner = crew.engines["small"], crew.learners["Critic"]
    asked, completion = runner.run(
        engine.replicas["Critic"][0].handle.ask("load_weights", "Critic", (3, pack(foreign)))
    )
    (theirs,) = runner.run(learner.logprobs([turn(completion, asked, "Critic", 0.0)]))
    with pytest.raises(SyncError, match="'Critic' disagrees"):
        compare("Critic", completion.logprobs, theirs, TOLERANCE["float32"])
    assert runner.run(crew.sync("Critic")) < 1e-4  # the right ones repair it


def test_a_checkpoint_moves_into_engine_and_learner(crew, runner, tmp_path):
    learner, engine = crew.learners["Verifier"], crew.engines["small"]
    start, trained = tmp_path / "start", tmp_path / "trained"
    runner.run(learner.save(start))
    asked, before, turns = turns_of(crew, runner, "Verifier")
    runner.run(learner.update(turns))
    runner.run(crew.sync("Verifier"))
    runner.run(learner.save(trained))
    after = runner.run(engine.generate(asked))

    runner.run(crew.load(SYSTEM.policies["Verifier"], start))
    assert runner.run(engine.generate(asked)) == before
    runner.run(crew.load(SYSTEM.policies["Verifier"], trained, version=1))
    assert runner.run(engine.generate(asked)) == after
    runner.run(learner.load(start))
    assert runner.run(crew.sync("Verifier")) < 1e-4
    assert runner.run(engine.generate(asked)) == before


def test_frozen_policies_have_no_learner(crew):
    assert sorted(crew.learners) == ["Critic", "Solver", "Verifier"]


def recording(worker):
    """In a worker: note the calls of its members' methods from here on."""
    worker.calls = []

    def noting(name, method):
        def noted(*args):
            worker.calls.append(name)
            return method(*args)

        return noted

    for member, _ in worker._members.values():
        for name in ("sleep", "wake", "update", "load_weights"):
            if hasattr(member, name):
                setattr(member, name, noting(name, getattr(member, name)))


def test_engines_sleep_while_the_learners_of_their_pool_update(crew, runner):
    """On a CPU they have nothing to give back, and are asked all the same. The worker has the engine and a learner."""
    asleep = replace(SYSTEM, models={"small": model("small", engine_args={"sleep": True})})
    handle = crew.engines["small"].replicas["Verifier"][0].handle
    (mine,) = [member.learns for member in handle.station.seat.members if member.learns]
    members = {member: Handle(handle.station, member.name) for member in handle.station.seat.members}
    _, before, turns = turns_of(crew, runner, mine)

    async def run():
        worker, team = handle.station.worker, Team(asleep, Actors(asleep, members), {})
        await received(worker.__ray_call__.remote(recording))
        figures = await team.update(turns)
        await team.sync({mine: figures[mine].weights_version})
        return await received(worker.__ray_call__.remote(lambda self: self.calls))

    assert runner.run(run()) == ["sleep", "update", "wake", "load_weights"]
    _, after, _ = turns_of(crew, runner, mine)
    assert after != before
