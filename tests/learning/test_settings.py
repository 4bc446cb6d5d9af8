"""Every setting of an agent or a policy, from `.mas` text to numbers: it acts there and nowhere else."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import System
from runtime.engines.hf import HfEngine
from runtime.engines.protocol import Request
from runtime.learning.credit import assign
from runtime.learning.learner import Learner
from runtime.records import Trajectory
from runtime.scoring import score
from tests.learning.turns import make_turn

TEAM = Path(__file__).parents[1] / "runtime" / "team.mas"
SHARED = "policy.sharing=full"


def team(*overrides: str) -> System:
    """The pair of `team.mas`; a policy each, unless `SHARED`."""
    return system_of(compile_file(TEAM, overrides))


def learner_of(system: System, agent: str) -> Learner:
    policy = system.policies[system.agents[agent].policy]
    return Learner(policy, system.models[policy.model], system.agents, system.train, system.base, system.train.seed)


def turns_of(agent: str, **fields: Any) -> list[Any]:
    sizes = ((4, 5), (9, 2), (7, 8), (5, 5))
    return [make_turn(prompt=p, response=r, seed=i, agent=agent, **fields) for i, (p, r) in enumerate(sizes)]


# What an agent samples with.

SAMPLING = {
    "temperature": "0.2",
    "top_p": "0.3",
    "top_k": "2",
    "min_p": "0.5",
    "max_tokens": "2",
    "stop": str([chr(code) for code in range(ord("a"), ord("z"))]).replace("'", '"'),
}


def sampled(system: System, agent: str) -> list[tuple[int, ...]]:
    settings = system.agents[agent]
    engine = HfEngine(system.models["policy"], [settings.policy], system.base)
    requests = [Request(settings.policy, (70, 71, 72), settings.sampling, seed, (0, seed, 0)) for seed in range(8)]
    answers = engine.generate(requests)
    return [tuple(answer.response_ids) for answer in answers if not isinstance(answer, Exception)]


@pytest.mark.parametrize("name", SAMPLING)
def test_sampling(name):
    before, after = team(), team(f"Solver.sampling.{name}={SAMPLING[name]}")
    assert len(sampled(before, "Solver")) == 8
    assert sampled(after, "Solver") != sampled(before, "Solver")
    assert sampled(after, "Verifier") == sampled(before, "Verifier")


# What an agent is trained with, weights being shared.

LOSS = {"clip_low": "0.0", "clip_high": "0.0", "kl": "1.0", "entropy": "1.0", "weight": "3.0"}


def gradient(system: System, agent: str) -> torch.Tensor:
    """Of the agent's turns, off the old policy and the start, so that clips and KL have something to do."""
    learner = learner_of(system, agent)
    turns = turns_of(agent)
    old = learner.logprobs(turns)
    with torch.no_grad():
        for parameter in learner.parameters:
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    learner._gradient(list(zip(turns, old, strict=True)), False)
    return torch.cat([parameter.grad.flatten() for parameter in learner.parameters if parameter.grad is not None])


@pytest.mark.parametrize("name", LOSS)
def test_loss(name):
    before, after = team(SHARED), team(SHARED, f"Solver.loss.{name}={LOSS[name]}")
    assert (gradient(after, "Solver") - gradient(before, "Solver")).norm() > 1e-3
    torch.testing.assert_close(gradient(after, "Verifier"), gradient(before, "Verifier"))


def test_frozen():
    learner = learner_of(team(SHARED, "Solver.frozen=true"), "Verifier")
    assert learner.update([*turns_of("Solver"), *turns_of("Verifier")]).turns == len(turns_of("Verifier"))
    assert learner.update(turns_of("Solver")).updates == 0


def test_penalty():
    def scores(system: System) -> dict[str, float | None]:
        turns = [make_turn(prompt=2, response=2, seed=0, agent=agent, valid=False) for agent in system.agents]
        step = score(system, [Trajectory(1, "q0", "t0", 0, {}, events=tuple(turns), reward=1.0)])
        return {turn.agent: turn.score for turn in step.turns}

    assert scores(team()) == {"Solver": 1.0, "Verifier": 0.75}
    assert scores(team("Solver.penalty=0.5")) == {"Solver": 0.5, "Verifier": 0.75}


# What a policy is trained with, weights being separate.

POLICY = {
    "optimizer.lr": "1e-2",
    "optimizer.betas": "[0.5, 0.6]",
    "optimizer.weight_decay": "0.5",
    "optimizer.warmup": "5",
    "optimizer.schedule": "linear",
    "optimizer.grad_clip": "1e-7",
    "aggregate": "sequence_mean_token_mean",
}


def trained(system: System, agent: str) -> torch.Tensor:
    """Weights after three updates, which differ in their gradients."""
    learner = learner_of(system, agent)
    for seed in range(3):
        assert learner.update([dataclasses.replace(turn, advantage=1.0 - seed) for turn in turns_of(agent)]).updates
    return torch.cat([value.flatten() for value in learner.weights().values()])


@pytest.mark.parametrize("name", POLICY)
def test_policy(name):
    before, after = team(), team(f"Solver.{name}={POLICY[name]}")
    assert (trained(after, "Solver") - trained(before, "Solver")).abs().max() > 1e-5
    assert torch.equal(trained(after, "Verifier"), trained(before, "Verifier"))


def test_micro_tokens():
    after = team("Solver.micro_tokens=20")
    passes = {agent: len(list(learner_of(after, agent)._share(turns_of(agent)))) for agent in after.agents}
    unlimited = len(list(learner_of(team(), "Solver")._share(turns_of("Solver"))))
    assert passes["Solver"] > unlimited == passes["Verifier"]


# What holds for all of a run.


@pytest.mark.parametrize("override", ["train.tis=none", "train.tis=0.5"])
def test_tis(override):
    agent = "Solver"
    assert (gradient(team(override), agent) - gradient(team(), agent)).norm() > 1e-3


def test_truncated():
    turns = [*turns_of("Solver"), *turns_of("Solver", truncated=True)]
    assert learner_of(team(), "Solver").update(turns).turns == 2 * len(turns_of("Solver"))
    assert learner_of(team("train.truncated=mask"), "Solver").update(turns).turns == len(turns_of("Solver"))


def test_mini_updates():
    assert learner_of(team("train.mini_updates=3"), "Solver").update(turns_of("Solver")).updates == 3


def test_lone():
    turns = [dataclasses.replace(turn, question=turn.trajectory, score=0.5) for turn in turns_of("Solver")]
    assert {turn.advantage for turn in assign(turns, team().train)[0]} == {0.0}
    raw = [turn.advantage for turn in assign(turns, team("train.lone=raw").train)[0]]
    assert raw == pytest.approx([0.5] * len(turns), rel=1e-5)
