"""Two ranks that share a learner (FSDP2 over gloo) do what one does alone, up to float error."""

from __future__ import annotations

import dataclasses
import math
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import spawn

from drmas_dsl.graph.settings import Call, Learner, Lora, Optimizer
from runtime.learning import passes, shards
from runtime.records import Turn
from tests.learning.turns import MODEL, make_learner, make_turns

OPTIONS: dict[str, Any] = {"optimizer": Optimizer(lr=1e-3, grad_clip=0.5), "micro_tokens": 64, "mini_updates": 2}
RECOMPUTED = dataclasses.replace(MODEL, learner=Learner(checkpointing=True))
CASES: dict[str, dict[str, Any]] = {
    "full": {"algorithm": Call("grpo", {"kl": 0.05, "entropy": 0.01})},
    "adapter": {"algorithm": Call("dr_grpo", {"kl": 0.05}), "lora": Lora(rank=4, alpha=8.0)},
    "checkpointing": {"algorithm": Call("grpo", {"kl": 0.05}), "model": RECOMPUTED},
    "without gradients for some": {"algorithm": Call("grpo")},
}


def work(rank: int, port: int, folder: str) -> None:
    """One rank: for each case an update, a checkpoint, a further update, and a bad one."""
    torch.set_num_threads(1)
    passes.PART = 4  # so that ranks have different numbers of parts at a time
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    results = {name: steps(name, Path(folder, name)) for name in CASES}
    if rank == 0:
        torch.save(results, Path(folder, "results.pt"))
    dist.destroy_process_group()


def steps(name: str, folder: Path) -> dict[str, Any]:
    """What a learner goes through, and what it says of it."""
    learner = make_learner(**CASES[name], **OPTIONS)
    turns = some_turns()
    learner._gradient([(turn, None) for turn in turns], False)
    gradient = torch.cat([shards.whole(parameter.grad).flatten() for parameter in learner.parameters])
    learner.optimizer.zero_grad()
    logprobs = learner.logprobs(turns)
    first = learner.update(turns, agent_norms=True)
    learner.save(folder)
    weights = learner.weights()
    second = learner.update(turns)
    bad = learner.update([*turns[:-1], make_bad(turns[-1])])
    return {
        "gradient": gradient,
        "logprobs": torch.cat(logprobs),
        "first": plain(first),
        "second": plain(second),
        "bad": bad.bad,
        "sharded": all(isinstance(parameter, DTensor) for parameter in learner.parameters),
        "weights": torch.cat([value.flatten() for value in weights.values()]),
    }


def some_turns() -> list[Turn]:
    """Turns of which every third has no advantage."""
    return [
        dataclasses.replace(turn, advantage=turn.advantage if place % 3 else 0.0)
        for place, turn in enumerate(make_turns(9))
    ]


def make_bad(turn: Any) -> Any:
    return dataclasses.replace(turn, advantage=math.nan)


def plain(metrics: Any) -> dict[str, float]:
    values = {
        name: getattr(metrics, name) for name in ("loss", "grad_norm", "clip_share", "entropy", "kl", "approx_kl")
    }
    counts = {name: float(getattr(metrics, name)) for name in ("turns", "tokens", "updates", "skipped")}
    return values | counts | {f"norm of {agent}": norm for agent, norm in metrics.agent_grad_norm.items()}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn(work, (port, str(folder)), nprocs=2)
    return folder, torch.load(folder / "results.pt", weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ranks_change_nothing(ranks, name, tmp_path):
    alone = steps(name, tmp_path)
    shared = ranks[1][name]
    assert (shared["sharded"], alone["sharded"]) == (True, False)
    scale = float(alone["gradient"].abs().max())
    torch.testing.assert_close(shared["gradient"], alone["gradient"], atol=1e-5 * scale, rtol=0.0)
    torch.testing.assert_close(shared["logprobs"], alone["logprobs"], atol=1e-5, rtol=1e-5)
    # Adam divides by the gradient's size, so that float noise in an entry near 0 becomes a step of its own.
    torch.testing.assert_close(shared["weights"], alone["weights"], atol=1e-4, rtol=1e-4)
    assert shared["first"] == pytest.approx(alone["first"], rel=1e-3, abs=1e-5, nan_ok=True)
    assert shared["second"] == pytest.approx(alone["second"], rel=1e-2, abs=1e-4, nan_ok=True)
    assert shared["bad"] == alone["bad"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_of_two_ranks_goes_on_with_one(ranks, name, tmp_path):
    folder, results = ranks
    learner = make_learner(**CASES[name], **OPTIONS)
    learner.load(folder / name)
    assert plain(learner.update(some_turns())) == pytest.approx(
        results[name]["second"], rel=1e-3, abs=1e-5, nan_ok=True
    )
