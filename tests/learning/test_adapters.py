"""Adapters: the base stays, the adapter learns, engines get it merged, and a checkpoint is a whole model and the adapter."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Call, Lora, Optimizer
from runtime.models import load_model
from tests.learning.turns import MODEL, make_learner, make_turns

LORA = Lora(rank=4, alpha=8.0)


def test_before_the_first_update_the_adapter_changes_nothing():
    start = dict(load_model(MODEL, ".").named_parameters())
    exported = make_learner(lora=LORA).weights()
    assert exported.keys() == start.keys()
    assert all(torch.equal(exported[name], start[name]) for name in start)


def test_an_update_changes_the_adapter_and_not_the_base():
    learner = make_learner(lora=LORA, optimizer=Optimizer(lr=1e-2))
    frozen = {name: p.detach().clone() for name, p in learner.trained.net.named_parameters() if not p.requires_grad}
    before = learner.weights()
    assert learner.update(make_turns()).updates == 1
    after = learner.weights()
    now = dict(learner.trained.net.named_parameters())
    assert all(torch.equal(now[name], value) for name, value in frozen.items())
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    linear = {name for name in before if "proj" in name}
    assert changed == linear


def test_only_the_targets_are_adapted():
    learner = make_learner(lora=dataclasses.replace(LORA, targets=("q_proj",)), optimizer=Optimizer(lr=1e-2))
    before = learner.weights()
    learner.update(make_turns())
    changed = {name for name, value in learner.weights().items() if not torch.equal(value, before[name])}
    assert changed == {f"model.layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1)}


def test_the_merged_weights_compute_what_the_learner_computes():
    learner = make_learner(lora=LORA, optimizer=Optimizer(lr=1e-2))
    learner.update(make_turns())
    model = load_model(MODEL, ".")
    model.load_state_dict(learner.weights(), strict=False)
    merged = make_learner()
    merged.trained.net = model
    for ours, theirs in zip(learner.logprobs(make_turns()), merged.logprobs(make_turns()), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_the_start_is_the_reference():
    learner = make_learner(Call("grpo", {"kl": 0.1}), lora=LORA, optimizer=Optimizer(lr=1e-2))
    full = make_learner(Call("grpo", {"kl": 0.1}))
    assert learner.update(make_turns()).kl == 0.0
    with learner.trained.start() as start, full.trained.start() as other:
        ids = torch.tensor([[1, 2, 3]])
        torch.testing.assert_close(start(ids).logits, other(ids).logits)
    assert learner.update(make_turns()).kl != 0.0


def test_saving_and_loading_goes_on_bit_for_bit(tmp_path):
    learner = make_learner(lora=LORA, optimizer=Optimizer(lr=1e-2))
    learner.update(make_turns())
    learner.save(tmp_path)
    other = make_learner(lora=LORA, optimizer=Optimizer(lr=1e-2), seed=5)
    other.load(tmp_path)
    assert repr(learner.update(make_turns())) == repr(other.update(make_turns()))
    ours, theirs = learner.weights(), other.weights()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_checkpoint_loads_as_a_whole_model_and_as_an_adapter(tmp_path):
    from peft import PeftModel

    learner = make_learner(lora=LORA, optimizer=Optimizer(lr=1e-2))
    learner.update(make_turns())
    learner.save(tmp_path)
    ids = torch.tensor([[5, 6, 7, 8]])
    expected = learner.trained.net(ids).logits
    whole = AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True)
    adapted = PeftModel.from_pretrained(load_model(MODEL, "."), str(tmp_path / "adapter"))
    torch.testing.assert_close(whole(ids).logits, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(adapted(ids).logits, expected, atol=1e-4, rtol=1e-4)


def test_another_adapters_checkpoint_is_an_error(tmp_path):
    make_learner(lora=LORA).save(tmp_path)
    with pytest.raises(UserError, match="no checkpoint of policy"):
        make_learner(lora=Lora(rank=8)).load(tmp_path)
    with pytest.raises(UserError, match="no checkpoint of policy"):
        make_learner(lora=Lora(rank=4, targets=("q_proj",))).load(tmp_path)
