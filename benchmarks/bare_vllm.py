"""The opponent of `bench_rollout`: vLLM alone, given the requests of a finished rollout with the same dependencies.

A trajectory's next request goes in the moment that its last one is answered; no prompt is rendered, no output parsed and
no text decoded. Nothing of `runtime` is used, so that what our engine does wrong cannot slow this one too.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

Request = Mapping[str, Any]  # prompt_ids, seed, and the sampling settings


class BareVllm:
    """A Ray actor. `context` and `max_batch` as ours; on a CPU it wants the same switches."""

    def __init__(self, folder: str, context: int, max_batch: int, threads: int) -> None:
        os.environ |= {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "TORCHDYNAMO_DISABLE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": "1",
        }
        import torch
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        torch.set_num_threads(threads)
        on_cpu = not torch.cuda.is_available()
        self.engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=folder,
                dtype="float32",
                max_model_len=context,
                max_num_seqs=max_batch,
                enable_prefix_caching=True,
                enable_chunked_prefill=not on_cpu,
                max_num_batched_tokens=max(context, 8192) if on_cpu else None,
                enforce_eager=on_cpu,
                logprobs_mode="processed_logprobs",
                generation_config="vllm",
                disable_log_stats=True,
            )
        )
        torch.set_num_threads(threads)

    def replay(self, trajectories: Sequence[Sequence[Request]]) -> tuple[float, int]:
        """Seconds that it takes, and tokens generated."""
        names = itertools.count()
        under_way: dict[str, tuple[int, int]] = {}

        def add(trajectory: int, turn: int) -> None:
            if turn < len(trajectories[trajectory]):
                name = str(next(names))
                self._add(name, trajectories[trajectory][turn])
                under_way[name] = trajectory, turn

        start, tokens = time.perf_counter(), 0
        for trajectory in range(len(trajectories)):
            add(trajectory, 0)
        while under_way:
            for output in self.engine.step():
                if output.finished:
                    tokens += len(output.outputs[0].token_ids)
                    trajectory, turn = under_way.pop(output.request_id)
                    add(trajectory, turn + 1)
        return time.perf_counter() - start, tokens

    def _add(self, name: str, request: Request) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        settings = {key: value for key, value in request.items() if key != "prompt_ids"}
        sampling = SamplingParams(
            **settings,
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_special_tokens=False,
        )
        self.engine.add_request(name, {"prompt_token_ids": list(request["prompt_ids"])}, sampling)
