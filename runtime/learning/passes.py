"""A pass of a causal language model over a micro-batch that never holds the logits of all of its tokens.

The body runs once. Its hidden states at response tokens go through the head in parts; what the caller makes of a part's
logits goes backward at once, and when all parts are done their gradients go on through the body together: nothing is
computed twice. Both halves run through the model's own `forward`, with its body left in or replaced by what it gave, so
that whatever a model does to its logits (scaling, soft caps, an adapted head) is done. What is computed from logits is
no matter of this module. Legend: N response tokens, n of them in a part, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from runtime.learning import shards
from runtime.learning.batches import MicroBatch

PART = (
    512  # tokens whose logits exist at once: 0.3 GB a copy for a vocabulary of 150,000, and enough to keep a GPU busy
)


def parts(net: Any, batch: MicroBatch, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    """Logits (n, V) of the batch's response tokens at their temperatures, float32, and which of them they are.

    With gradients on, the caller calls `backward` on a loss of each part before it asks for the next.
    """
    autocast = torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16)
    with autocast:
        output = _body_output(net, batch.input_ids)
    hidden = output.last_hidden_state.flatten(0, 1)[batch.places]
    gradients = []
    with shards.gradients_kept(net):
        for first in range(0, len(hidden), PART):
            where = slice(first, first + PART)
            part = hidden[where].detach().requires_grad_(hidden.requires_grad)
            with autocast:
                logits = _head_output(net, output, part)
            yield where, logits.float() / batch.temperature[where, None]
            gradients.append(part.grad)
    if hidden.requires_grad:
        hidden.backward(torch.cat(gradients))
    else:
        shards.reshard(net)


def _body_output(net: Any, input_ids: Tensor) -> Any:
    """What the model's body gives. It is run by the whole model, asked for the logits of no token, so that all that wraps the
    model (FSDP, adapters) does its part."""
    outputs: list[Any] = []
    hook = _body(net).register_forward_hook(lambda _module, _args, output: outputs.append(output))
    try:
        net(input_ids=input_ids, logits_to_keep=input_ids.new_empty(0), use_cache=False)
    finally:
        hook.remove()
    return outputs[0]


def _head_output(net: Any, output: Any, hidden: Tensor) -> Tensor:
    """Logits (n, V) of hidden states (n, H); the rest of the body's output is as it was."""
    body = _body(net)
    body.forward = lambda *_args, **_options: type(output)(**{**output, "last_hidden_state": hidden[None]})
    try:
        logits: Tensor = net(use_cache=False).logits[0]
    finally:
        del body.forward
    return logits


def _body(net: Any) -> Any:
    model = net.get_base_model() if hasattr(net, "get_base_model") else net
    return getattr(model, model.base_model_prefix)
