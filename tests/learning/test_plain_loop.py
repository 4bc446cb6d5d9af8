"""One small batch, done again by plain PyTorch loops without any of our code: advantages, loss, gradient, AdamW step."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from statistics import stdev

import pytest
import torch

from drmas_dsl.graph.settings import Call
from runtime.learning.credit import assign
from runtime.models import load_model
from runtime.records import Turn
from tests.learning import plain
from tests.learning.turns import MODEL, make_learner, make_turn

LR = 1e-3


def make_scored() -> list[Turn]:
    """Two questions, three trajectories each, a turn of both agents in each; no lone turns, no equal scores."""
    draw = random.Random(0)
    return [
        make_turn(
            prompt=3 + 5 * i % 17,
            response=1 + 7 * i % 11,
            seed=i,
            question=f"q{i // 6}",
            trajectory=f"t{i // 2}",
            agent=("Solver", "Verifier")[i % 2],
            temperature=(1.0, 0.7)[i % 2],
            score=draw.random(),
            advantage=None,
        )
        for i in range(12)
    ]


def plain_advantages(algorithm: str, turns: Sequence[Turn]) -> list[float]:
    """As `docs/training.md` defines them, under `normalize = agent`."""
    scored = [plain.Scored(turn.question, turn.trajectory, turn.agent, turn.score or 0.0) for turn in turns]
    if algorithm == "rloo":
        return [plain.leave_one_out(scored, one, "raw") for one in scored]
    std = "agent" if algorithm in ("grpo", "dapo") else "none"
    values = [plain.advantage(scored, one, "agent", std, whole=False, lone="raw") for one in scored]
    if algorithm == "reinforce_pp":
        of_agent = {
            turn.agent: [a for a, other in zip(values, turns, strict=True) if other.agent == turn.agent]
            for turn in turns
        }
        mean = {agent: sum(own) / len(own) for agent, own in of_agent.items()}
        values = [
            (value - mean[turn.agent]) / (stdev(of_agent[turn.agent]) + plain.EPS)
            for value, turn in zip(values, turns, strict=True)
        ]
    return values


def plain_step(
    algorithm: str, turns: Sequence[Turn], advantages: Sequence[float], steps: int = 1
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """The last loss and gradient of `steps` AdamW steps on one batch, with the ratios of PPO against the start, and the
    weights after them."""
    model = load_model(MODEL, ".")
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.999), weight_decay=0.0)
    high = 0.28 if algorithm == "dapo" else 0.2
    old: list[torch.Tensor] = []
    for step in range(steps):
        total = torch.zeros(())
        for number, (turn, advantage) in enumerate(zip(turns, advantages, strict=True)):
            ids = torch.tensor([[*turn.prompt_ids, *turn.response_ids]])
            logits = model(ids).logits[0, len(turn.prompt_ids) - 1 : -1] / turn.temperature
            logp = torch.log_softmax(logits, -1)[range(len(turn.response_ids)), list(turn.response_ids)]
            if step == 0:
                old.append(logp.detach())
            ratio = (logp - old[number]).exp()
            surrogate = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1 + high))
            if advantage < 0:
                surrogate = surrogate.clamp(max=-advantage * 3.0)
            weight = (old[number] - torch.tensor(turn.logprobs)).exp().clamp(max=2.0)
            total = total + (surrogate * weight).sum()
        tokens = sum(len(turn.response_ids) for turn in turns)
        total = total / (len(turns) * 16 if algorithm == "dr_grpo" else tokens)
        optimizer.zero_grad()
        total.backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return total.item(), gradient, torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def weights(learner: object) -> torch.Tensor:
    return torch.cat([value.flatten() for value in learner.weights().values()])  # type: ignore[attr-defined]


@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo", "rloo", "reinforce_pp", "dapo"])
def test_a_plain_loop_takes_the_same_step(algorithm):
    learner = make_learner(Call(algorithm), micro_tokens=64)
    turns, _ = assign(make_scored(), learner.train)
    advantages = plain_advantages(algorithm, turns)
    assert [turn.advantage for turn in turns] == pytest.approx(advantages, abs=1e-5)
    loss, gradient, expected = plain_step(algorithm, turns, advantages)

    learner._gradient([(turn, None) for turn in turns], False)
    ours = torch.cat([parameter.grad.flatten() for parameter in learner.parameters])
    learner.optimizer.zero_grad()
    scale = float(gradient.abs().max())
    torch.testing.assert_close(ours, gradient, atol=1e-5 * scale, rtol=0.0)

    metrics = learner.update(turns)
    assert metrics.loss == pytest.approx(loss, abs=1e-5)
    assert metrics.grad_norm == pytest.approx(float(gradient.norm()), rel=1e-5)
    # The first step of Adam is lr * sign(gradient): where that is float noise around 0, so is the step.
    certain = gradient.abs() > 1e-5 * scale
    assert certain.float().mean() > 0.9
    torch.testing.assert_close(weights(learner)[certain], expected[certain], atol=1e-5, rtol=0.0)
    assert (metrics.updates, metrics.tokens) == (1, sum(len(turn.response_ids) for turn in turns))


def test_ratios_are_against_the_policy_before_the_first_update():
    """Two passes over one batch: the second mini-update of a step whose halves are alike is the plain loop's second."""
    turns = [make_turn(prompt=6, response=5, seed=3, advantage=1.0)] * 2
    learner = make_learner(mini_updates=2)
    metrics = learner.update(turns)
    difference = (weights(learner) - plain_step("grpo", turns[:1], [1.0], steps=2)[2]).abs()
    assert (difference > 2e-5).float().mean() < 1e-2
    assert metrics.approx_kl != 0.0


def test_bfloat16_stays_near():
    turns, _ = assign(make_scored(), make_learner().train)
    gradients = []
    for dtype in ("float32", "bfloat16"):
        learner = make_learner(model=dataclasses.replace(MODEL, dtype=dtype))
        learner._gradient([(turn, None) for turn in turns], False)
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in learner.parameters]))
    exact, near = gradients
    assert near.dtype == torch.float32
    assert 0 < (near - exact).norm() < 0.05 * exact.norm()
