"""Makes the models that the small systems start from, from nothing: `python -m graphs.models.warm_start lookup`.

A noisy teacher (see `teachers`) plays every agent of the compiled system while the real interpreter walks it; what the
agents were asked and answered becomes the training set, the tokenizer's words and, after a minute of plain
supervised training, a model of 0.12M parameters in the Hugging Face layout. Same seed, same machine: same file. The
models are weak on purpose; reinforcement learning is to sharpen them.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from drmas_dsl.compiler import compile_file
from drmas_dsl.graph.execution import system_of
from graphs.data import make
from graphs.models import teachers
from graphs.models.teachers import Noise, Teacher
from runtime.engines.protocol import Completion, Request
from runtime.models import load_tokenizer
from runtime.rollout.scheduler import rollout

GRAPHS = Path(__file__).parents[1]
PAD, END = "<|pad|>", "<|end|>"
PAD_ID, END_ID = 0, 1
WARMUP = 20  # steps
WORD = re.compile(r"</?\w+>|[A-Za-z]{2,}")
LONGEST = 128  # tokens of prompt and response

Demonstration = tuple[str, str]  # prompt, response


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a system's model is started: `walks` walks over each of its `questions` under the teacher, then `steps` batches
    of `batch` demonstrations."""

    teacher: Teacher
    noise: Noise
    questions: Callable[[], Iterator[make.Row]]
    walks: int
    steps: int
    batch: int = 64
    lr: float = 4e-3
    seed: int = 0


RECIPES = {
    "lookup": Recipe(teachers.look_up, Noise(0.3, 0.3), lambda: make.lookups(5, 480, (0, 1, 2)), walks=12, steps=450),
    "contrast": Recipe(teachers.look_up, Noise(0.5, 0.12), lambda: make.lookups(6, 480, (0, 1)), walks=12, steps=800),
    "arithmetic": Recipe(teachers.add, Noise(0.75, 0.25), make.sums, walks=160, steps=300),
}


@dataclass(frozen=True, slots=True)
class Taught:
    """An engine whose model is the teacher: it reads a prompt as text and answers in tokens."""

    recipe: Recipe
    tokenizer: Any

    async def generate(self, requests: list[Request]) -> list[Completion]:
        """What the teacher says to each of the requests."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Completion:
        prompt = self.tokenizer.decode(request.prompt_ids)
        text = self.recipe.teacher(request.policy, prompt, self.recipe.noise, random.Random(request.seed))
        ids = (*self.tokenizer(text).input_ids, self.tokenizer.eos_token_id)
        return Completion(ids, (0.0,) * len(ids), "stop", 0)


def demonstrations(name: str, recipe: Recipe) -> list[Demonstration]:
    """Every turn of the walks through the system, with the teacher in the place of its model."""
    # The model does not exist yet: bytes stand in for its tokens, so prompts are longer.
    graph = compile_file(GRAPHS / f"{name}.mas", ["policy.weights=tiny()", "policy.context=4096"])
    tokenizer = load_tokenizer(system_of(graph).models["policy"], "")
    walks = asyncio.run(
        rollout(
            graph,
            list(recipe.questions()),
            step=0,
            group_size=recipe.walks,
            seed=recipe.seed,
            engines={"policy": Taught(recipe, tokenizer)},
            tokenizers={"policy": tokenizer},
        )
    )
    return [(turn.prompt, turn.text) for walk in walks for turn in walk.turns]


def build_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Bytes, and the tags and words of the texts as one token each; decoding gives back exactly what was encoded."""
    words = sorted({word for text in texts for word in WORD.findall(text)})
    vocabulary = [PAD, END, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, END])
    tokenizer.add_tokens([AddedToken(word, single_word=word.isalpha(), normalized=False) for word in words])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokens: int, seed: int) -> Qwen3ForCausalLM:
    """A random Qwen3 of 0.12M parameters. The usual `initializer_range` of 0.02 learns nothing at this width."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=tokens,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,  # vLLM has none smaller on a CPU
            max_position_embeddings=LONGEST,
            initializer_range=0.15,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=END_ID,
            pad_token_id=PAD_ID,
        )
    )


def supervise(model: Any, pairs: Sequence[tuple[list[int], list[int]]], recipe: Recipe) -> None:
    """Plain supervised training on pairs of prompt and response ids: cross-entropy of the response tokens."""
    rng = random.Random(recipe.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARMUP) * (1 - 0.9 * step / recipe.steps)
    )
    for step in range(recipe.steps):
        ids, labels = padded(rng.sample(pairs, recipe.batch))
        loss = model(input_ids=ids, attention_mask=(ids != PAD_ID).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)


def padded(pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (batch, longest), padded on the right, and labels: -100 outside of the responses."""
    longest = max(len(prompt) + len(response) for prompt, response in pairs)
    ids = torch.full((len(pairs), longest), PAD_ID)
    labels = torch.full_like(ids, -100)
    for row, (prompt, response) in enumerate(pairs):
        end = len(prompt) + len(response)
        ids[row, :end] = torch.tensor(prompt + response)
        labels[row, len(prompt) : end] = torch.tensor(response)
    return ids, labels


def warm_start(name: str, recipe: Recipe, folder: Path) -> None:
    """Make the model of a system and save it, with its tokenizer, in `folder`."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums in one order
    shown = demonstrations(name, recipe)
    print(f"{name}: {len(shown)} demonstrations", flush=True)
    tokenizer = build_tokenizer([prompt + response for prompt, response in shown])
    pairs = [(tokenizer(prompt).input_ids, [*tokenizer(response).input_ids, END_ID]) for prompt, response in shown]
    model = build_model(len(tokenizer), recipe.seed)
    supervise(model, pairs, recipe)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # written for its owner alone
    print(f"saved in {folder}")


def main() -> None:
    """Parse the arguments and make one model."""
    parser = argparse.ArgumentParser(description="Make the model that a small system starts from.")
    parser.add_argument("system", choices=RECIPES)
    parser.add_argument("folder", nargs="?", type=Path, help="where it goes (default: beside this script)")
    arguments = parser.parse_args()
    name = arguments.system
    warm_start(name, RECIPES[name], arguments.folder or Path(__file__).parent / name)


if __name__ == "__main__":
    main()
