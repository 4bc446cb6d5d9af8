"""What saves memory changes no number: activations computed again, weights and optimiser that wait on the CPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from drmas_dsl.graph import settings
from drmas_dsl.graph.settings import Call, Lora
from runtime.learning.optimizer import move_state
from tests.learning.turns import MODEL, make_learner, make_turns

KL = Call("grpo", {"kl": 0.1})


def with_settings(**values: bool) -> settings.Model:
    return dataclasses.replace(MODEL, learner=settings.Learner(**values))


def saved_for_backward(model: settings.Model, lora: Lora | None) -> tuple[str, int]:
    """The metrics of an update, and the bytes that its forward passes kept."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    learner = make_learner(KL, model=model, lora=lora)
    learner.update(make_turns())
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        return repr(learner.update(make_turns())), sum(kept.values())


@pytest.mark.parametrize("lora", [None, Lora(rank=4)])
def test_checkpointing_keeps_less_and_changes_no_bit(lora):
    plain, kept = saved_for_backward(with_settings(), lora)
    again, less = saved_for_backward(with_settings(checkpointing=True), lora)
    assert again == plain
    assert less < 0.7 * kept


@pytest.mark.parametrize("lora", [None, Lora(rank=4)])
def test_offload_changes_no_bit(lora):
    one, two = (make_learner(KL, lora=lora, model=with_settings(offload=offload)) for offload in (False, True))
    for _ in range(2):
        assert repr(one.update(make_turns())) == repr(two.update(make_turns()))
    assert {parameter.device.type for parameter in two.parameters} == {"cpu"}
    assert all(torch.equal(a, b) for a, b in zip(one.logprobs(make_turns()), two.logprobs(make_turns()), strict=True))


@pytest.mark.parametrize("lora", [None, Lora(rank=4)])
def test_all_that_a_learner_holds_can_move(lora):
    """To a device that every machine has, and that keeps no values."""
    learner = make_learner(KL, lora=lora)
    learner.update(make_turns())
    learner.trained.to(torch.device("meta"))
    move_state(learner.optimizer, torch.device("meta"))
    with learner.trained.start() as start:
        tensors = [*learner.trained.net.parameters(), *start.parameters()]
    moments = [state[name] for state in learner.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert {tensor.device.type for tensor in [*tensors, *moments]} == {"meta"}
    assert len(moments) == 2 * len(learner.parameters)
    assert {state["step"].device.type for state in learner.optimizer.state.values()} == {"cpu"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_offload_frees_the_gpu_between_updates():
    learner = make_learner(KL, model=with_settings(offload=True))
    learner.update(make_turns())
    assert not any(parameter.is_cuda for parameter in learner.trained.net.parameters())
    assert not any(value.is_cuda for state in learner.optimizer.state.values() for value in state.values())
