"""Passes in parts: for every kind of model the logits, and the gradients, are those of the whole model at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from runtime.learning import passes
from runtime.learning.batches import micro_batches
from tests.learning.turns import make_turns

SIZES: dict[str, Any] = {
    "vocab_size": 258,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "initializer_range": 0.3,
}
MODELS = {
    "tied": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, tie_word_embeddings=True)),
    "untied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)),
    "soft cap": lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, final_logit_softcapping=3.0, sliding_window=8)),
    "logit_scale": lambda: CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25)),
    "logits_scaling": lambda: GraniteForCausalLM(GraniteConfig(**SIZES, logits_scaling=4.0)),
    "experts": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=2)),
    "learned positions": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=258, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3)
    ),
    "adapter": lambda: adapted(["q_proj", "down_proj"]),
    "adapted head": lambda: adapted(["lm_head"]),
}


def adapted(targets: list[str]) -> Any:
    config = LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM", init_lora_weights=False)
    return get_peft_model(LlamaForCausalLM(LlamaConfig(**SIZES)), config)


def loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    logprobs = logits.log_softmax(-1)
    return (logprobs[range(len(tokens)), tokens] + 0.1 * logprobs.exp().square().sum(-1)).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_parts_give_the_logits_and_gradients_of_the_whole(name, dtype, monkeypatch):
    monkeypatch.setattr(passes, "PART", 7)  # so that turns are cut in the middle
    torch.manual_seed(0)
    net = MODELS[name]().eval()
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    turns = make_turns(8)
    parts, counts = [], []
    for batch in micro_batches(turns, 100, torch.device("cpu")):
        for where, logits in passes.parts(net, batch, dtype):
            loss(logits, batch.tokens[where]).backward()
            parts.append(logits.detach())
            counts.append(len(logits))
    assert max(counts) == 7 < len(counts)
    ours = [parameter.grad.clone() for parameter in trained]
    net.zero_grad()

    whole = []
    for batch in micro_batches(turns, 100, torch.device("cpu")):
        for turn in batch.turns:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                logits = net(torch.tensor([[*turn.prompt_ids, *turn.response_ids]])).logits[0]
            logits = logits[len(turn.prompt_ids) - 1 : -1].float() / turn.temperature
            loss(logits, torch.tensor(turn.response_ids)).backward()
            whole.append(logits.detach())
    near = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(torch.cat(parts), torch.cat(whole), atol=near, rtol=near)
    for one, parameter in zip(ours, trained, strict=True):
        scale = float(parameter.grad.abs().max())
        assert float((one - parameter.grad).abs().max()) <= near * scale


def test_without_gradients_nothing_goes_backward():
    net = MODELS["tied"]()
    (batch,) = micro_batches(make_turns(1), 100, torch.device("cpu"))
    with torch.no_grad():
        ((where, logits),) = passes.parts(net, batch, torch.float32)
    assert (where.start, logits.shape, logits.requires_grad) == (0, (len(batch.tokens), 258), False)
    assert all(parameter.grad is None for parameter in net.parameters())
