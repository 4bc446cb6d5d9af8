"""The embedded engine: transformers models in this process, generating for whole batches with a KV cache.

All requests of one policy run as one batch (up to `max_batch`): equal prompts are read once, prompts are padded on the left and
masked, rows that are done leave. The same requests give the same tokens, bit for bit. No server, no continuous batching;
`vllm` is for that.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from drmas_dsl.graph.settings import Model
from runtime import models
from runtime.engines.decoding import growing_cache, sees_everything, use_grouped_attention
from runtime.engines.protocol import Completion, Request, require_gpu_to_sleep
from runtime.engines.sampling import Sampler, draws


class HfEngine:
    """Serves the policies of one model; every policy starts as the model's own weights.

    A policy gets its copy of the weights when they first change, so frozen policies cost no memory.
    """

    canary_length = 32
    concurrency = 1

    def __init__(self, model: Model, policies: Sequence[str], base: str) -> None:
        """Load the model.

        Raises:
            UserError: its weights cannot be loaded, or it is to sleep without a GPU.
        """
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        require_gpu_to_sleep(model, self.device.type == "cuda")
        self.context = models.context_length(model, base)
        self._max_batch: int = model.engine.args.get("max_batch", 256)
        net = models.load_model(model, base).to(self.device).requires_grad_(False)
        use_grouped_attention(net)
        self.vocabulary: int = net.get_output_embeddings().weight.shape[0]
        self.parameters: int = net.num_parameters()
        self._nets = dict.fromkeys(policies, net)
        self._versions = dict.fromkeys(policies, 0)
        self._tokenizer = models.load_tokenizer(model, base)
        self._ends = models.end_tokens(model, base, self._tokenizer)

    def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """Completions in the order of the requests; a ValueError for a prompt that is empty or leaves no room."""
        done: dict[int, Completion | Exception] = {}
        by_policy: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            length = len(request.prompt_ids)
            if 0 < length < self.context:
                by_policy.setdefault(request.policy, []).append(index)
            else:
                done[index] = ValueError(f"a prompt of {length} tokens in a context of {self.context}")
        for policy, mine in by_policy.items():
            for start in range(0, len(mine), self._max_batch):
                part = mine[start : start + self._max_batch]
                done.update(zip(part, self._batch(policy, [requests[index] for index in part]), strict=True))
        return [done[index] for index in range(len(requests))]

    def load_weights(self, policy: str, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Overwrite a policy's weights in place; tied parameters need to come once.

        Raises:
            ValueError: a parameter is missing, unknown or of another shape.
        """
        net = self._nets[policy]
        if any(other is net for name, other in self._nets.items() if name != policy):
            net = self._nets[policy] = copy.deepcopy(net)
        own = net.state_dict()
        if unknown := sorted(weights.keys() - own.keys()):
            raise ValueError(f"policy {policy!r} has no parameter {unknown[0]!r}")
        given = {own[name].data_ptr() for name in weights}
        if missing := sorted(name for name, tensor in own.items() if tensor.data_ptr() not in given):
            raise ValueError(f"no weights came for parameter {missing[0]!r} of policy {policy!r}")
        for name, tensor in weights.items():
            if own[name].shape != tensor.shape:
                raise ValueError(f"{name}: shape {tuple(tensor.shape)}, not {tuple(own[name].shape)}")
            own[name].copy_(tensor)
        self._versions[policy] = version

    def sleep(self) -> None:
        """See `Engine.sleep`."""
        self._move(torch.device("cpu"))
        torch.cuda.empty_cache()

    def wake(self) -> None:
        """See `Engine.wake`."""
        self._move(self.device)

    def _move(self, device: torch.device) -> None:
        for net in self._nets.values():  # a net may stand here twice, and moves once
            net.to(device)

    @torch.inference_mode()
    def _batch(self, policy: str, requests: Sequence[Request]) -> list[Completion]:
        net, device = self._nets[policy], self.device
        limits = [min(r.sampling.max_tokens, self.context - len(r.prompt_ids)) for r in requests]
        steps = max(limits)
        uniform = draws([request.seed for request in requests], steps, device)
        sampler = Sampler.of([request.sampling for request in requests], self.vocabulary, device)
        ends = torch.tensor(self._ends, device=device)
        stops = _Stops(self._tokenizer, requests)

        state = self._prefill(net, requests, steps)
        tokens = torch.zeros(len(requests), steps, dtype=torch.long, device=device)
        logprobs = torch.zeros(len(requests), steps, device=device)
        lengths, stopped = list(limits), [False] * len(requests)
        live = list(range(len(requests)))  # batch row -> request
        rows = torch.arange(len(requests), device=device)
        limit = torch.tensor(limits, device=device)

        for step in range(steps):
            drawn, logp = sampler.sample(state.logits, uniform[rows, step])
            tokens[rows, step], logprobs[rows, step] = drawn, logp
            ended = torch.isin(drawn, ends)
            out = (ended | (limit[rows] == step + 1)).tolist()
            ended_list = ended.tolist()
            for row, request in enumerate(live):
                if ended_list[row] or stops.hit(request, tokens, step):
                    stopped[request], out[row] = True, True
                if out[row]:
                    lengths[request] = step + 1
            if all(out):
                break
            if any(out):
                kept = [row for row, gone in enumerate(out) if not gone]
                keep = torch.tensor(kept, device=device)
                live, rows, drawn = [live[row] for row in kept], rows[keep], drawn[keep]
                sampler = sampler.rows(keep)
                state.keep(keep)
            state.advance(net, drawn)

        version = self._versions[policy]
        return [
            Completion(tuple(ids[:n]), tuple(values[:n]), "stop" if stop else "length", version)
            for ids, values, n, stop in zip(tokens.tolist(), logprobs.tolist(), lengths, stopped, strict=True)
        ]

    def _prefill(self, net: Any, requests: Sequence[Request], steps: int) -> _State:
        """Read every distinct prompt once; one row for each request."""
        distinct: dict[tuple[int, ...], int] = {}
        row_of = [distinct.setdefault(request.prompt_ids, len(distinct)) for request in requests]
        width = max(map(len, distinct))
        ids = torch.zeros(len(distinct), width, dtype=torch.long)
        mask = torch.zeros(len(distinct), width + steps, dtype=torch.bool)
        for prompt, row in distinct.items():
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = True
        ids, mask = ids.to(self.device), mask.to(self.device)
        positions = (mask[:, :width].cumsum(1) - 1).clamp_(min=0)
        cache = growing_cache(net)
        logits = net(
            input_ids=ids,
            attention_mask=mask[:, :width],
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        state = _State(cache, mask, positions[:, -1:] + 1, width, logits, sees_everything(cache))
        if len(distinct) < len(requests):
            state.keep(torch.tensor(row_of, device=self.device))
        return state


@dataclass(slots=True)
class _State:
    """A batch in mid-generation: `mask` [B, prompt + steps] covers the future too, `position` [B, 1] is the next token's."""

    cache: Any
    mask: torch.Tensor
    position: torch.Tensor
    length: int
    logits: torch.Tensor
    plain: bool  # every layer sees every token, so that the mask needs no work of the model

    def keep(self, rows: torch.Tensor) -> None:
        """Select (or repeat) rows."""
        self.cache.batch_select_indices(rows)
        self.mask, self.position, self.logits = self.mask[rows], self.position[rows], self.logits[rows]

    def advance(self, net: Any, tokens: torch.Tensor) -> None:
        """Feed one token [B] per row."""
        self.length += 1
        mask = self.mask[:, : self.length]
        self.logits = net(
            input_ids=tokens[:, None],
            attention_mask=mask[:, None, None] if self.plain else mask,
            position_ids=self.position,
            past_key_values=self.cache,
            use_cache=True,
        ).logits[:, -1]
        self.position = self.position + 1


class _Stops:
    """Whether a stop text has just been completed. Only the tail that can hold one is decoded."""

    def __init__(self, tokenizer: Any, requests: Sequence[Request]) -> None:
        self._tokenizer = tokenizer
        self._texts = [request.sampling.stop for request in requests]
        # A token is at least a byte; some tokenizers eat a space at the start of what they decode.
        self._tails = [max((len(text.encode()) for text in texts), default=0) + 4 for texts in self._texts]

    def hit(self, request: int, tokens: torch.Tensor, step: int) -> bool:
        """Whether the request's response up to and including `step` ends in one of its stop texts."""
        if not self._texts[request]:
            return False
        tail = tokens[request, max(0, step + 1 - self._tails[request]) : step + 1].tolist()
        text = self._tokenizer.decode(tail, skip_special_tokens=False)
        return any(stop in text for stop in self._texts[request])
